"""What losses do with their defaults, and with smoothed labels, found by calling them."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isclose, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.reading.side_facts import BehaviourFact, LossFact

Loss = Callable[[NDArray[Any], NDArray[Any]], Any]  # scores (N, classes) and labels (N,) to its answer
_SCORES: Final = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
_LABELS: Final = np.array([0, 1], np.int32)
_CERTAIN: Final = 1000.0
SMOOTHING: Final = 0.3  # what `smoothed` and `binary` expect a smoothing loss to be told
_TARGETS: Final = np.eye(3, dtype=np.float32)[_LABELS]


def measured(name: str, loss: Loss) -> LossFact:
    takes = _takes(loss)
    certain = np.array([[0.0, _CERTAIN if takes == "logits" else 1.0]], np.float32)
    largest = float(np.mean(np.asarray(loss(certain, np.zeros(1, np.int32)))))
    return LossFact(name=name, reduction=_reduction(loss), takes=takes, largest=float(f"{largest:.4g}"))


def _takes(loss: Loss) -> str:
    """One score of 0.7 for the true class, read as a probability or through a softmax."""
    got = float(np.mean(np.asarray(loss(_SCORES[:1], _LABELS[:1]))))
    if isclose(got, -log(0.7), rel_tol=1e-4):
        return "probabilities"
    through = -0.7 + log(sum(exp(float(score)) for score in _SCORES[0]))
    return "logits" if isclose(got, through, rel_tol=1e-4) else "something else"


def _reduction(loss: Loss) -> str:
    both = np.asarray(loss(_SCORES, _LABELS))
    if both.ndim:
        return "none"
    alone = [float(np.mean(np.asarray(loss(_SCORES[i : i + 1], _LABELS[i : i + 1])))) for i in range(2)]
    if isclose(float(both), sum(alone) / 2, rel_tol=1e-5):
        return "mean"
    return "sum" if isclose(float(both), sum(alone), rel_tol=1e-5) else "something else"


def unlimited(fact: LossFact) -> bool:
    """Whether the loss of a certain wrong answer is its score: nothing was cut off."""
    return fact.takes == "logits" and fact.largest >= _CERTAIN


def smoothed(name: str, loss: Loss, *, takes_numbers: bool) -> BehaviourFact:
    """Measures a cross-entropy of logits with label smoothing. `takes_numbers`: it smooths labels that are class
    numbers."""
    got = float(np.mean(np.asarray(loss(_SCORES[:1], _LABELS[:1]))))
    scores = _SCORES[0].astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum())
    shares = {"all classes": SMOOTHING / 3, "the other classes": SMOOTHING / 2}
    expected = {words: -float(share * logs[1:].sum() + (1 - 2 * share) * logs[0]) for words, share in shares.items()}
    spread = next((words for words, value in expected.items() if isclose(got, value, rel_tol=1e-4)), "something else")
    does = {
        "label smoothing spreads over": spread,
        "label smoothing of class numbers": "yes" if takes_numbers else "no, of one-hot labels alone",
    }
    return BehaviourFact(kind="loss", subject="cross-entropy", name=name, does=does)


def binary(name: str, loss: Loss, smoothing_loss: Loss | None) -> BehaviourFact:
    """Measures a loss that asks a yes or no of each output, given one-hot targets. `smoothing_loss`: the same loss with
    smoothed targets; None: it cannot smooth."""
    scores = _SCORES.astype(np.float64)
    yes = {"logits": 1 / (1 + np.exp(-scores)), "probabilities": scores}
    takes, reduction, smoothing = "something else", "something else", "none"
    for words, chances in yes.items():
        reduced = _outputs(loss(_SCORES, _TARGETS), _entropy(chances, _TARGETS))
        if reduced is not None:
            takes, reduction = words, reduced
    if smoothing_loss is not None:
        targets = _TARGETS * (1 - SMOOTHING) + SMOOTHING / 2
        even = takes in yes and _outputs(smoothing_loss(_SCORES, _TARGETS), _entropy(yes[takes], targets)) is not None
        smoothing = "towards one half" if even else "something else"
    does = {"takes": takes, "reduction over samples and outputs": reduction, "label smoothing": smoothing}
    return BehaviourFact(kind="loss", subject="binary cross-entropy", name=name, does=does)


def squared(name: str, loss: Loss) -> BehaviourFact:
    """Measures a squared error, given one-hot targets."""
    reduction = _outputs(loss(_SCORES, _TARGETS), (_SCORES - _TARGETS).astype(np.float64) ** 2) or "something else"
    does = {"reduction over samples and outputs": reduction}
    return BehaviourFact(kind="loss", subject="squared error", name=name, does=does)


def _entropy(chances: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    entropies: NDArray[Any] = -(targets * np.log(chances) + (1 - targets) * np.log(1 - chances))
    return entropies


def _outputs(answer: Any, each: NDArray[Any]) -> str | None:
    """How an answer is made of the losses of every output of every sample; None: it is not."""
    values = np.asarray(answer, np.float64)
    ways = {
        "mean": each.mean(),
        "sum": each.sum(),
        "sum of outputs, mean of samples": each.sum(1).mean(),
        "mean of outputs, none of samples": each.mean(1),
        "none": each,
    }
    alike = (
        words for words, way in ways.items() if values.shape == np.shape(way) and np.allclose(values, way, rtol=1e-4)
    )
    return next(alike, None)
