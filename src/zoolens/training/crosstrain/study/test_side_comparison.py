import numpy as np
import pytest

from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import keep_labels
from zoolens.training.crosstrain.study.side_comparison import paired_sides
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_trial
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.trial_runner import churn, side_of
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

LABELS = np.zeros(20, np.int32)
DATASET = DatasetRecord("d" * 64, "tiny", 20, {})
NAMES = ("torch", "jax")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def filed(store, sides, answers):
    trial = Trial("1", {}, sides, churn(NAMES, answers))
    return file_trial(
        store,
        "tiny",
        trial,
        TrialFiling(
            recipe_of=dict.fromkeys(NAMES, (None, Semantics())),
            dataset=DATASET,
            versions={name: {} for name in NAMES},
            predictions=answers,
        ),
    )


def drawn():
    torch, jax = np.zeros(20, np.int32), np.zeros(20, np.int32)
    torch[:3] = 1
    jax[2:12] = 2
    answers = {"torch": torch, "jax": jax}
    outcomes = {name: Outcome(framework=name, versions={}, status="finished") for name in NAMES}
    return tuple(side_of(outcomes[name], answers[name], LABELS, 3) for name in NAMES), answers


def test_answers_are_paired_sample_by_sample(store):
    trial = filed(store, *drawn())
    keep_labels(store, DATASET, LABELS)
    (found,) = paired_sides(store, trial)
    assert (found.a, found.b, found.only_a, found.only_b) == ("torch", "jax", 9, 2)
    assert found.difference == pytest.approx(-7 / 20)
    assert found.low < found.difference < found.high < 0
    assert found.p_value == exact_mcnemar(9, 2)
    assert found.churn == pytest.approx(12 / 20)


def test_without_labels_or_answers_only_the_difference_is_known(store):
    (found,) = paired_sides(store, filed(store, *drawn()))
    assert found.p_value is None
    assert found.difference == pytest.approx(-7 / 20)


def test_a_side_without_an_accuracy_has_no_pair(store):
    (torch, _), answers = drawn()
    lost = TrainedSide("jax", status="out-of-memory", message="no room")
    assert paired_sides(store, filed(store, (torch, lost), {"torch": answers["torch"]})) == ()
