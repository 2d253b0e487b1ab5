"""How the targets of one data pipeline become those of another: shifted, numbered otherwise, smoothed, one-hot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.training.pairs.data.stream_values import EXACT, distance
from zoolens.training.pairs.networks.framework import Array

_CLOSE: Final = 1e-3  # of probabilities, which may come in half precision
_SHOWN: Final = 6


@dataclass(frozen=True)
class TargetChange:
    """`different`: False where both say the same in other forms."""

    text: str
    different: bool = True


def target_change(a: Array, b: Array) -> TargetChange | None:
    """What turns targets of A into those of B, of the same samples; None: they are the same."""
    a, b = _plain(a), _plain(b)
    if a.shape == b.shape and (a.dtype.kind in "iu") == (b.dtype.kind in "iu") and distance(a, b) <= EXACT:
        return None
    if a.ndim == 1 and b.ndim == 1 and "f" in (a.dtype.kind, b.dtype.kind) and not _whole(a, b):
        return _of_numbers(a, b)
    ours, theirs = _classes(a), _classes(b)
    if ours is None or theirs is None:
        return TargetChange(f"targets have the shape {a.shape[1:]} in A and {b.shape[1:]} in B")
    if not np.array_equal(ours, theirs):
        return _of_classes(ours, theirs)
    return _of_forms(a, b)


def _plain(targets: Array) -> Array:
    return targets.reshape(len(targets)) if targets.ndim > 1 and targets.size == len(targets) else targets


def _whole(*several: Array) -> bool:
    return all(np.array_equal(values, np.round(values)) for values in several)


def _classes(targets: Array) -> Array | None:
    if targets.ndim == 1:
        return targets.astype(np.int64) if _whole(targets) else None
    if targets.ndim != 2 or np.abs(targets.sum(axis=1) - 1).max() > _CLOSE:
        return None
    return np.asarray(targets.argmax(axis=1))


def _of_numbers(a: Array, b: Array) -> TargetChange:
    factor, offset = np.polyfit(a.astype(np.float64), b.astype(np.float64), 1) if len(set(a.tolist())) > 1 else (1, 0)
    if distance(factor * a + offset, b) <= EXACT:
        return TargetChange(f"targets of B are those of A × {factor:.4g} + {offset:.4g}")
    return TargetChange(f"{_count(a != b)} of {len(a)} targets differ")


def _of_classes(a: Array, b: Array) -> TargetChange:
    shifts = set((b - a).tolist())
    if len(shifts) == 1:
        return TargetChange(f"the classes of B are those of A {shifts.pop():+d}")
    for step in (1, -1):
        if len(a) > 2 and np.array_equal(np.roll(a, step)[1:-1], b[1:-1]):
            return TargetChange(f"the targets of B belong to the sample {'before' if step == 1 else 'after'} theirs")
    pairs = sorted(set(zip(a.tolist(), b.tolist(), strict=True)))
    if len(pairs) == len(set(a.tolist())) == len(set(b.tolist())):
        moved = [f"{ours} is {theirs}" for ours, theirs in pairs if ours != theirs]
        return TargetChange(f"classes are numbered otherwise in B: {', '.join(moved[:_SHOWN])}{_more(moved)}")
    return TargetChange(f"{_count(a != b)} of {len(a)} classes differ")


def _of_forms(a: Array, b: Array) -> TargetChange:
    """Compare two forms of the same classes: numbers, rows of 0 and 1, or smoothed rows."""
    sharp = [_smoothing(targets) for targets in (a, b)]
    if sharp[0] is None or sharp[1] is None:
        return TargetChange("the largest number of each row is the same, and the rows are not")
    if abs(sharp[0] - sharp[1]) > _CLOSE:
        return TargetChange(f"labels are smoothed by {sharp[0]:.3g} in A and by {sharp[1]:.3g} in B")
    forms = ["whole numbers" if targets.ndim == 1 else "rows" for targets in (a, b)]
    return TargetChange(f"targets are the same classes, as {forms[0]} in A and as {forms[1]} in B", different=False)


def _smoothing(targets: Array) -> float | None:
    """By how much rows of 0 and 1 were smoothed; None: they are no smoothed rows."""
    if targets.ndim == 1:
        return 0.0
    count = targets.shape[1]
    size = float(1 - targets.max(axis=1).mean()) * count / (count - 1)
    expected = np.eye(count)[targets.argmax(axis=1)] * (1 - size) + size / count
    return size if np.abs(expected - targets).max() <= _CLOSE else None


def _count(different: Array) -> int:
    return int(np.asarray(different).sum())


def _more(words: list[str]) -> str:
    return f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
