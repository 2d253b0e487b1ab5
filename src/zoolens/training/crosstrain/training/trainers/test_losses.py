"""Every loss of recipes against arithmetic: plain numpy says what it is, and torch (here) and Keras (in the processes
of test_keras_building) must agree."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics

LOGITS = np.array([[2.0, -1.0, 0.5], [0.1, 0.2, -3.0]])
LABELS = np.array([0, 2], np.int32)
# A loss, how much labels are smoothed, and how.
CASES = [
    ("cross_entropy", 0.0, None),
    ("cross_entropy", 0.1, None),
    ("cross_entropy", 0.1, "others"),
    ("binary_cross_entropy", 0.0, None),
    ("binary_cross_entropy", 0.1, "uniform"),
    ("binary_cross_entropy", 0.1, "others"),
    ("mse", 0.0, None),
]


def job(loss, smoothing, kind, framework="torch", **told):
    recipe = Recipe(
        architecture="mlp", learning_rate=0.1, batch_size=2, epochs=1, loss=loss, label_smoothing=smoothing,
        semantics=Semantics(smoothing=kind, **told), precision="float64",
    )  # fmt: skip
    return Job(recipe=recipe, framework=framework, semantics=recipe.wanted, data=Path(), output=Path())


def by_hand(loss, smoothing, kind):
    """Of each sample. The smoothed target of a class is (1 − s)·hot + s/K, or 1 − s and s/(K − 1)."""
    hot = np.eye(3)[LABELS]
    among = 3 if loss == "cross_entropy" else 2
    wrong = smoothing / (among - 1) if kind == "others" else smoothing / among
    targets = np.where(hot == 1, 1 - smoothing + (0 if kind == "others" else wrong), wrong)
    if loss == "mse":
        return ((LOGITS - targets) ** 2).mean(1)
    if loss == "binary_cross_entropy":
        yes = 1 / (1 + np.exp(-LOGITS))
        return -(targets * np.log(yes) + (1 - targets) * np.log(1 - yes)).mean(1)
    return -(targets * (LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True)))).sum(1)


@pytest.mark.parametrize("case", CASES)
def test_losses_in_torch_are_what_arithmetic_says(case):
    torch = pytest.importorskip("torch")
    from zoolens.training.crosstrain.training.trainers.torch_losses import make_loss

    told = job(*case)
    found = make_loss(told.recipe, told.semantics)(torch.tensor(LOGITS), torch.tensor(LABELS).long())
    assert float(found) == pytest.approx(by_hand(*case).mean(), rel=1e-12)


def test_what_a_loss_does_is_told_where_it_may_differ():
    assert job("cross_entropy", 0.0, None).loss_semantics == Semantics()
    assert job("cross_entropy", 0.1, None).loss_semantics == Semantics(smoothing="uniform")
    assert job("mse", 0.0, None, reduction="sum").loss_semantics == Semantics(reduction="sum")
    assert Semantics().differing(Semantics(reduction="sum")) == ("reduction",)  # whoever says nothing has the mean
    assert Semantics().differing(Semantics(reduction="mean")) == ()


def test_smoothing_that_a_loss_does_not_have_is_refused():
    with pytest.raises(ValidationError, match="mse has no label_smoothing"):
        job("mse", 0.1, None)
