"""How the inputs of one data pipeline become those of another: scale, normalisation, order of channels, turned axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import root_mean_square
from zoolens.training.pairs.networks.framework import Array

EXACT: Final = 1e-5  # relative: below it, two values are one up to the rounding of float32
_ROUNDED: Final = 5e-3  # relative: what bytes, half precision or another resizing leave
_MOST_CHANNELS: Final = 4  # whose orders are all tried
_MATCHED: Final = 0.999  # correlation of a sample with its counterpart
_LOOKED_AT: Final = 64  # samples for which a counterpart is looked for
_AMONG: Final = 4096  # samples among which it is looked for


@dataclass(frozen=True)
class ValueChange:
    """What makes B's inputs of A's. `kind`: "scale", "normalisation", "channels", "axes", "rounding", "augmentation" or
    "values", which nothing explains."""

    kind: str
    text: str


def value_change(a: Array, b: Array) -> ValueChange | None:
    """What turns samples of A into those of B, which stand in the same order; None: they are the same."""
    if a.shape != b.shape:
        return ValueChange("shape", f"samples are {_shape(a)} in A and {_shape(b)} in B")
    if distance(a, b) <= EXACT:
        return None
    some = _of_some(a, b)
    for slack in (EXACT, _ROUNDED):
        for kind, words, turned in _turned(a):
            affine = _affine(turned, b, slack)
            if affine is not None and (words or affine) and not (some and slack == _ROUNDED):
                parts = [part for part in (words, affine) if part]
                return ValueChange(kind if words else _affine_kind(affine), " and ".join(parts))
    return some or _of_nothing(a, b)


def distance(a: Array, b: Array) -> float:
    """The root mean square of the difference, relative to the larger of the two."""
    size = max(root_mean_square(a), root_mean_square(b))
    return root_mean_square(b.astype(np.float64) - a) / size if size else 0.0


def counterparts(a: Array, b: Array) -> Array | None:
    """For some samples of A, where they stand in B, whatever the scale of each channel; None: most are not there."""
    ours, theirs = _standardised(a[:_LOOKED_AT]), _standardised(b[:_AMONG])
    correlation = ours @ theirs.T / ours.shape[1]
    places: Array = correlation.argmax(axis=1)
    found = correlation.max(axis=1) >= _MATCHED
    return places if found.all() and len(set(places.tolist())) == len(places) else None


def _standardised(samples: Array) -> Array:
    """Each channel of each sample with a mean of 0 and a deviation of 1."""
    rows = samples.reshape(len(samples), samples.shape[1] if samples.ndim > 2 else 1, -1).astype(np.float64)
    centred = rows - rows.mean(axis=2, keepdims=True)
    spread = centred.std(axis=2, keepdims=True)
    return np.asarray((centred / np.where(spread > 0, spread, 1)).reshape(len(samples), -1))


def _turned(a: Array) -> Iterator[tuple[str, str, Array]]:
    """The samples as they are, with their channels in other orders, and with their axes turned."""
    yield "", "", a
    if a.ndim != 4:
        return
    channels = a.shape[1]
    if 1 < channels <= _MOST_CHANNELS:
        for order in permutations(range(channels)):
            if order != tuple(range(channels)):
                named = " (RGB and BGR)" if order == (2, 1, 0) else ""
                words = f"the channels of B are those of A in the order {', '.join(map(str, order))}{named}"
                yield "channels", words, a[:, order]
    if a.shape[2] == a.shape[3]:
        yield "axes", "height and width are exchanged", a.transpose(0, 1, 3, 2)
    yield "axes", "every image is mirrored left to right", a[..., ::-1]
    yield "axes", "every image is upside down", a[:, :, ::-1]


def _affine(a: Array, b: Array, slack: float) -> str | None:
    """How B is A times a factor plus an offset, of all channels or of each, up to `slack` of its size; empty: it is A.
    None: it is not so."""
    if distance(a, b) <= slack:
        return ""
    for axis in (None, 1) if a.ndim == 4 else (None,):
        factor, offset = _fitted(a, b, axis)
        left = distance(factor * a.astype(np.float64) + offset, b)
        if left <= slack and np.abs(factor).max() > 0:
            words = _affine_words(a, factor.reshape(-1), offset.reshape(-1), slack)
            return words if left <= EXACT else f"{words}, up to {left:.1e} of their size, as after rounding"
    return None


def _fitted(a: Array, b: Array, axis: int | None) -> tuple[Array, Array]:
    """The factor and the offset with the smallest squares, one for all or one for each place along the axis."""
    over = tuple(place for place in range(a.ndim) if place != axis)
    ours, theirs = a.astype(np.float64), b.astype(np.float64)
    mean_a, mean_b = ours.mean(axis=over, keepdims=True), theirs.mean(axis=over, keepdims=True)
    spread = np.square(ours - mean_a).mean(axis=over, keepdims=True)
    shared = ((ours - mean_a) * (theirs - mean_b)).mean(axis=over, keepdims=True)
    factor = np.asarray(shared / np.where(spread > 0, spread, 1))
    return factor, np.asarray(mean_b - factor * mean_a)


def _affine_words(a: Array, factor: Array, offset: Array, slack: float) -> str:
    if np.abs(offset).max() <= 10 * slack * np.abs(factor).max() * max(root_mean_square(a), 1e-12):
        words = f"B = A × {_numbers(factor)}"
        positive = float(a.min()) >= 0 and len(factor) == 1
        if positive and np.isclose(factor[0], 255, rtol=1e-3):
            words += ": 0 to 255 in B for 0 to 1 in A"
        if positive and np.isclose(factor[0], 1 / 255, rtol=1e-3):
            words += ": 0 to 1 in B for 0 to 255 in A"
        return words
    mean, deviation = -offset / factor, 1 / factor
    words = f"B = (A − {_numbers(mean)}) / {_numbers(deviation)}"
    centred = abs(float(a.mean())) < 0.5 and float(a.min()) < 0 and 0.5 < float(a.std()) < 2
    told = f"; A's own values have a mean of {a.mean():.2g} and a deviation of {a.std():.2g} already: normalised twice?"
    return words + (told if centred else "")


def _affine_kind(words: str) -> str:
    return "scale" if "×" in words else "normalisation"


def _of_some(a: Array, b: Array) -> ValueChange | None:
    """Samples of which some are as they are and others mirrored or otherwise changed, as augmentation leaves them."""
    same = np.array([distance(x, y) <= EXACT for x, y in zip(a, b, strict=True)])
    mirrored = np.array([a.ndim == 4 and distance(x[..., ::-1], y) <= EXACT for x, y in zip(a, b, strict=True)])
    if not same.any() and not mirrored.any():
        return None
    changed = int((~same & ~mirrored).sum())
    text = f"of {len(a)} samples {int(same.sum())} are the same"
    text += f", {int((mirrored & ~same).sum())} are mirrored left to right" if mirrored.any() else ""
    text += f", {changed} are changed otherwise" if changed else ""
    return ValueChange("augmentation" if mirrored.any() else "values", text)


def _of_nothing(a: Array, b: Array) -> ValueChange:
    apart = distance(a, b)
    if apart < 0.02:
        return ValueChange("rounding", f"values differ by {apart:.1e} of their size, as after rounding or resizing")
    own = ", ".join(f"{name} mean {x.mean():.3g}, deviation {x.std():.3g}" for name, x in (("A", a), ("B", b)))
    return ValueChange(
        "values", f"values differ by {apart:.2g} of their size, and no scale, order or turn explains it ({own})"
    )


def _numbers(values: Array) -> str:
    words = [f"{value:.4g}" for value in values]
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


def _shape(array: Array) -> str:
    return "×".join(map(str, array.shape[1:]))
