"""What a loss takes the answers of its network for: scores, probabilities or their logarithms.

One loss judges the held-out answers of both sides. Where the other side's loss takes answers for something else, they
are turned into what the judge expects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import numpy as np

from zoolens.training.pairs.networks.framework import Array

AnswerKind = Literal["scores", "probabilities", "logarithms"]
_TWO_CLASSES: Final = frozenset({"BCELoss", "BCEWithLogitsLoss", "BinaryCrossentropy", "binary cross-entropy"})
_TINY: Final = 1e-7  # as Keras cuts probabilities off, so that their logarithms stay finite


def answer_kind(settings: Mapping[str, Any]) -> AnswerKind | None:
    """Tells what kind of answers a side gives by its settings; None where its loss does not say."""
    if settings.get("loss.name") == "NLLLoss":
        return "logarithms"
    return {True: "scores", False: "probabilities"}.get(settings.get("loss.from_logits"))  # type: ignore[return-value, arg-type]


def as_taken_by(judge: Mapping[str, Any], answers: Array, settings: Mapping[str, Any]) -> Array | None:
    """Answers of the side with these settings, as the judge's loss takes them. None: they cannot be turned into it."""
    wanted, given = answer_kind(judge), answer_kind(settings)
    if wanted is None or given is None or wanted == given:
        return answers
    if settings.get("loss.name") in _TWO_CLASSES:
        return _of_two(answers) if given == "probabilities" else _sigmoid(answers)
    if answers.ndim != 2:  # where the classes are is not known
        return None
    return _TURNED[given, wanted](answers)


def _sigmoid(scores: Array) -> Array:
    probabilities: Array = np.exp(-np.logaddexp(0, -scores.astype(np.float64))).astype(scores.dtype)
    return probabilities


def _of_two(probabilities: Array) -> Array:
    """The scores whose sigmoid these probabilities are."""
    kept = np.clip(probabilities.astype(np.float64), _TINY, 1 - _TINY)
    scores: Array = (np.log(kept) - np.log1p(-kept)).astype(probabilities.dtype)
    return scores


def _logarithms(probabilities: Array) -> Array:
    logs: Array = np.log(np.clip(probabilities.astype(np.float64), _TINY, None)).astype(probabilities.dtype)
    return logs


def _log_softmax(scores: Array) -> Array:
    wide = scores.astype(np.float64)
    logs: Array = (wide - np.logaddexp.reduce(wide, axis=-1, keepdims=True)).astype(scores.dtype)
    return logs


_TURNED: Final[Mapping[tuple[AnswerKind, AnswerKind], Callable[[Array], Array]]] = {
    ("probabilities", "scores"): _logarithms,
    ("probabilities", "logarithms"): _logarithms,
    ("scores", "logarithms"): _log_softmax,
    ("scores", "probabilities"): lambda scores: np.exp(_log_softmax(scores)),
    ("logarithms", "scores"): lambda logarithms: logarithms,
    ("logarithms", "probabilities"): np.exp,
}
