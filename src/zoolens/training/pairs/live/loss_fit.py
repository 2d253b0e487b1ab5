"""What a loss computes that is a function of the user's own: measured by calling it with chosen answers and targets.

A kind of loss is fitted to a few calls and then has to predict others: batches of other sizes, other answers, other
targets. What it is of "the mean" says its reduction, so that a forgotten division by the number of classes has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite, prod
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.live.live_training import Setting

Loss = Callable[[NDArray[Any], NDArray[Any]], float]  # answers and targets of a batch to one number
Takes = Literal["scores", "probabilities", "log-probabilities", "scores, through a softmax of its own before"]
_PREDICTED: Final = 1e-4
_BATCHES: Final = (1, 2, 5)
CROSS_ENTROPY, BINARY, SQUARED, ABSOLUTE = "cross-entropy", "binary cross-entropy", "squared error", "absolute error"
TWICE: Final = "cross-entropy of scores that pass a softmax twice"


@dataclass(frozen=True)
class FittedLoss:
    """`factor` times the sum over samples and outputs (of cross-entropies, over samples), which "mean" divides by their
    number, "samples" by that of the samples alone, and "sum" by nothing."""

    kind: str
    takes: Takes = "scores"
    smoothing: float = 0.0
    reduction: Literal["mean", "sum", "samples"] = "mean"
    factor: float = 1.0
    labels: Literal["classes", "one-hot", "numbers"] = "classes"

    def settings(self) -> dict[str, Setting]:
        """Returns the settings by the names of `live_training.SETTINGS`."""
        words = {"mean": "mean", "sum": "sum", "samples": "sum of outputs, mean of samples"}[self.reduction]
        settings: dict[str, Setting] = {
            "loss.name": TWICE if self.takes.startswith("scores,") else self.kind,
            "loss.reduction": words if self.factor == 1 else f"{self.factor:.6g} of the {words}",
        }
        if self.kind in (CROSS_ENTROPY, BINARY):
            settings["loss.smoothing"] = self.smoothing
            settings["loss.from_logits"] = self.takes.startswith("scores")
        return settings

    def value(self, answers: Any, targets: Any, xp: Any) -> Any:
        """What it computes, with numpy or what computes like it."""
        each = _EACH[self.kind](self, answers, targets, xp)
        divisor = {"mean": prod(each.shape), "sum": 1, "samples": each.shape[0]}[self.reduction]
        return self.factor * each.sum() / divisor


def fitted_loss(loss: Loss, shape: Sequence[int]) -> FittedLoss | None:
    """`shape`: of the answer for one sample. None: it is none of the kinds that are known here."""
    for guess in _guesses(loss, tuple(shape)):
        fit = _reduced(loss, guess, tuple(shape))
        if fit is not None:
            return fit
    return None


def _guesses(loss: Loss, shape: tuple[int, ...]) -> Iterator[FittedLoss]:
    """Each kind with the smoothing that a call with one sample shows."""
    takes: tuple[Takes, ...] = (
        "scores", "probabilities", "log-probabilities", "scores, through a softmax of its own before",
    )  # fmt: skip
    if shape and shape[-1] > 1:
        yield from (FittedLoss(CROSS_ENTROPY, kind, labels="classes") for kind in takes)
        yield from (FittedLoss(CROSS_ENTROPY, kind, labels="one-hot") for kind in takes)
    yield from (FittedLoss(BINARY, kind, labels="one-hot") for kind in takes[:2])
    yield from (FittedLoss(kind, labels="numbers") for kind in (SQUARED, ABSOLUTE))


def _reduced(loss: Loss, guess: FittedLoss, shape: tuple[int, ...]) -> FittedLoss | None:
    """The guess with its smoothing, reduction and factor, if it predicts every call."""
    calls = [_call(guess, (count, *shape), seed) for seed, count in enumerate(_BATCHES)]
    try:
        got = [loss(*call) for call in calls]
    except Exception:  # the user's own code, with targets that it is not made for
        return None
    if not all(map(isfinite, got)):
        return None
    fits: list[FittedLoss] = []
    for reduction in ("mean", "sum", "samples"):
        fit = replace(guess, reduction=reduction)
        factor, smoothing = _line(fit, calls, got)
        fit = replace(fit, factor=factor, smoothing=smoothing)
        expected = [float(fit.value(*call, np)) for call in calls]
        if factor > 0 and all(map(_alike, expected, got)):
            fits.append(fit)
    return min(fits, key=lambda fit: fit.factor != 1, default=None)


def _line(guess: FittedLoss, calls: Sequence[tuple[Any, Any]], got: Sequence[float]) -> tuple[float, float]:
    """The factor and the smoothing: each call answers factor · (plain + smoothing · what smoothing adds)."""
    plain = np.array([float(guess.value(*call, np)) for call in calls])
    if guess.kind not in (CROSS_ENTROPY, BINARY):
        return float(f"{got[-1] / plain[-1]:.5g}"), 0.0
    added = np.array([float(replace(guess, smoothing=1.0).value(*call, np)) for call in calls]) - plain
    (factor, product), *_ = np.linalg.lstsq(np.stack([plain, added], 1), np.array(got), rcond=None)
    smoothing = product / factor if factor else 0.0
    return float(f"{factor:.5g}"), float(f"{smoothing:.4g}") if 1e-5 < smoothing < 1 else 0.0


def _alike(first: float, second: float) -> bool:
    return isclose(first, second, rel_tol=_PREDICTED)


def _call(guess: FittedLoss, shape: tuple[int, ...], seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    answers = random.standard_normal(shape)
    if guess.kind == BINARY and guess.takes == "probabilities":
        answers = 1 / (1 + np.exp(-answers))
    elif guess.takes in ("probabilities", "log-probabilities"):
        answers = _log_softmax(answers, np)
        answers = np.exp(answers) if guess.takes == "probabilities" else answers
    if guess.labels == "numbers":
        return answers, random.standard_normal(shape)
    if guess.kind == BINARY:
        return answers, random.integers(0, 2, shape).astype(np.float64)
    classes = random.integers(0, shape[-1], shape[:-1]).astype(np.int32)
    return answers, classes if guess.labels == "classes" else np.eye(shape[-1])[classes]


def _log_softmax(scores: Any, xp: Any) -> Any:
    high = scores - scores.max(-1, keepdims=True)
    return high - xp.log(xp.exp(high).sum(-1, keepdims=True))


def _cross_entropy(loss: FittedLoss, answers: Any, targets: Any, xp: Any) -> Any:
    if loss.takes.startswith("scores,"):
        answers = xp.exp(_log_softmax(answers, xp))
    if loss.takes.startswith("scores"):
        logs = _log_softmax(answers, xp)
    else:
        logs = answers if loss.takes == "log-probabilities" else xp.log(answers)
    hot = (
        targets if loss.labels == "one-hot" else (targets[..., None] == xp.arange(answers.shape[-1])).astype(logs.dtype)
    )
    return -((1 - loss.smoothing) * (hot * logs).sum(-1) + loss.smoothing * logs.mean(-1))


def _binary(loss: FittedLoss, answers: Any, targets: Any, xp: Any) -> Any:
    smooth = targets * (1 - loss.smoothing) + loss.smoothing / 2
    if loss.takes == "probabilities":
        return -(smooth * xp.log(answers) + (1 - smooth) * xp.log(1 - answers))
    return xp.logaddexp(0.0, answers) - smooth * answers


def _squared(_loss: FittedLoss, answers: Any, targets: Any, _xp: Any) -> Any:
    return (answers - targets) ** 2


def _absolute(_loss: FittedLoss, answers: Any, targets: Any, xp: Any) -> Any:
    return xp.abs(answers - targets)


_EACH: Final[Mapping[str, Callable[[FittedLoss, Any, Any, Any], Any]]] = {
    CROSS_ENTROPY: _cross_entropy, BINARY: _binary, SQUARED: _squared, ABSOLUTE: _absolute,
}  # fmt: skip
