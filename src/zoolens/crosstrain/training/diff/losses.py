"""What a cross-entropy loss does with its defaults, found by calling it."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isclose, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.training.diff.facts import LossFact

Loss = Callable[[NDArray[Any], NDArray[Any]], Any]  # scores (N, classes) and labels (N,) to its answer
_SCORES: Final = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
_LABELS: Final = np.array([0, 1], np.int32)
_CERTAIN: Final = 1000.0


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
