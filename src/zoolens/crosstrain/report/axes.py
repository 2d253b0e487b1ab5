"""From values to pixels: scales with their ticks, and the frame that panels share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.analysis.scales import usable
from zoolens.crosstrain.report.marks import Line, Mark, Point, Text, box, shortened
from zoolens.crosstrain.report.words import short

ROOM: Final = 0.04  # of the range, left free at both ends
TICKS: Final = 5
MOST_LEVELS: Final = 12
LABEL: Final = 11.0
SIGN: Final = LABEL * 0.58  # width of a sign, about
ROOMY: Final = 7  # signs of a label that fit beside an axis as it is


@dataclass(frozen=True)
class Scale:
    """Values between `low` and `high` to shares from 0 to 1; `levels` are texts at even distances."""

    low: float
    high: float
    log: bool = False
    levels: tuple[str, ...] = ()
    percent: bool = False

    def shares(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """NaN where a value has no place."""
        if self.levels:
            place = {level: index for index, level in enumerate(self.levels)}
            values = np.array([place.get(str(value), np.nan) for value in values], np.float64)
        numbers = np.asarray(values, np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.log:
                found = np.log(numbers / self.low) / np.log(self.high / self.low)
            else:
                found = (numbers - self.low) / (self.high - self.low)
        return np.where((found >= -1e-9) & (found <= 1 + 1e-9), found, np.nan)

    def share(self, value: float | str) -> float:
        return float(self.shares(np.array([value]))[0])

    def ticks(self, most: int = TICKS) -> list[tuple[float, str]]:
        """(share, label)"""
        if self.levels:
            return [(self.share(level), shortened(level, 14)) for level in self.levels]
        values = _powers(self.low, self.high, most) if self.log else _rounds(self.low, self.high, most)
        return [(self.share(value), f"{100 * value:g} %" if self.percent else short(value)) for value in values]


def scale_of(values: NDArray[Any], log: bool = False) -> Scale:
    """For a hyperparameter; `log` is of numbers above zero."""
    if values.dtype.kind != "f":
        return level_scale(sorted({str(value) for value in values}))
    known = usable(values)
    if not len(known):
        return Scale(0.0, 1.0)
    return scale_between(float(known.min()), float(known.max()), log)


def level_scale(levels: Sequence[str]) -> Scale:
    shown = tuple(levels[:MOST_LEVELS])
    return Scale(-0.5, len(shown) - 0.5, levels=shown)


def scale_between(low: float, high: float, log: bool) -> Scale:
    """With room at both ends."""
    if log and low < high:
        factor = (high / low) ** ROOM
        return Scale(low / factor, high * factor, log=True)
    room = (high - low) * ROOM or abs(high) * ROOM or 1.0
    return Scale(low - room, high + room)


@dataclass(frozen=True)
class Frame:
    """A panel on a picture, with a scale on each side."""

    left: float
    top: float
    width: float
    height: float
    x: Scale
    y: Scale

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def points(self, xs: NDArray[Any], ys: NDArray[Any]) -> NDArray[np.float64]:
        """Pixels, NaN where a value has no place."""
        return np.stack(
            [self.left + self.x.shares(xs) * self.width, self.bottom - self.y.shares(ys) * self.height], axis=1
        )

    def path(self, xs: NDArray[Any], ys: NDArray[Any]) -> tuple[Point, ...]:
        return tuple((float(x), float(y)) for x, y in self.points(xs, ys) if np.isfinite(x) and np.isfinite(y))

    def ground(self) -> Mark:
        return box(self.left, self.top, self.right, self.bottom, "soft")

    def x_axis(self, label: str = "", *, most: int = TICKS, named: bool = True) -> Iterator[Mark]:
        for share, text in _apart(self.x.ticks(most), self.width):
            at = self.left + share * self.width
            yield Line(((at, self.top), (at, self.bottom)), "line")
            if named:
                yield Text((at, self.bottom + 15), text, "dim", LABEL, "middle")
        if label and named:
            yield Text((self.left + self.width / 2, self.bottom + 33), label, "ink", 12, "middle")

    def y_axis(self, label: str = "", *, most: int = TICKS, named: bool = True, away: float = 46) -> Iterator[Mark]:
        for share, text in _thinner(self.y.ticks(most), self.height):
            at = self.bottom - share * self.height
            yield Line(((self.left, at), (self.right, at)), "line")
            if named:
                yield Text((self.left - 6, at + 4), text, "dim", LABEL, "end")
        if label and named:
            yield Text((self.left - away, self.top + self.height / 2), label, "ink", 12, "middle", turned=True)


def wider(scales: Iterable[Scale]) -> float:
    """How much more room than usual the labels of these vertical axes need."""
    longest = max((len(text) for one in scales if one.levels for _, text in one.ticks()), default=0)
    return max(0, longest - ROOMY) * SIGN


def _apart(ticks: Sequence[tuple[float, str]], width: float) -> list[tuple[float, str]]:
    """Without those whose labels would touch the one before."""
    kept: list[tuple[float, str]] = []
    free = -np.inf
    for share, text in ticks:
        half = len(text) * SIGN / 2
        if share * width - half >= free:
            kept.append((share, text))
            free = share * width + half + 5
    return kept


def _thinner(ticks: Sequence[tuple[float, str]], height: float) -> list[tuple[float, str]]:
    every = max(1, -(-int(LABEL * 1.3 * len(ticks)) // int(height)))
    return list(ticks[::every])


def _rounds(low: float, high: float, most: int) -> list[float]:
    raw = (high - low) / most
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= raw * 0.999)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(one * step) + 0.0 for one in np.arange(first, last + 1)[: 4 * most]]


def _powers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten where there are three or more; else 1, 2, 5 times them, or 1 and 5 times; where that is too little,
    round numbers."""
    first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
    if last - first >= 2:
        stride = max(1, -(-(last - first + 1) // most))
        return [10.0**power for power in range(first, last + 1, stride)]
    tried = [_multiples(low, high, steps) for steps in ((1, 2, 5), (1, 5))]
    fitting = [values for values in tried if 3 <= len(values) <= most + 1]
    return fitting[0] if fitting else _rounds(low, high, most)


def _multiples(low: float, high: float, steps: Sequence[int]) -> list[float]:
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    values = (float(f"{step}e{power}") for power in powers for step in steps)
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
