"""How the figures of a diagnosis read: percent and points of shares and correlations, plain numbers of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.judgement import FRACTION

NONE: Final = "–"
_CALLED: Final = {"top1": "top-1"}


@dataclass(frozen=True)
class FigureWords:
    """Figures of one metric."""

    metric: str
    unit: str = FRACTION

    @property
    def name(self) -> str:
        return _CALLED.get(self.metric, self.metric)

    def value(self, value: float | None) -> str:
        """A figure: "90.1 %"."""
        if value is None:
            return NONE
        return f"{100 * value:.1f} %" if self._share else f"{value:.4g}"

    def value_and_interval(self, value: float | None, interval: Interval | None) -> str:
        """A figure with its interval, where it has one: "90.1 % [88.1, 91.8]"."""
        if interval is None:
            return self.value(value)
        low, high = (f"{100 * end:.1f}" if self._share else f"{end:.4g}" for end in interval)
        return f"{self.value(value)} [{low}, {high}]"

    def change(self, change: float | None, interval: Interval | None = None, *, unit: bool = True) -> str:
        """A difference of two figures: "+1.6 points [+0.2, +3.1]"."""
        if change is None:
            return NONE
        said = self._signed(change) + (" points" if unit and self._share else "")
        return said if interval is None else f"{said} [{self._signed(interval.low)}, {self._signed(interval.high)}]"

    def points(self, distance: float) -> str:
        """A distance without a sign: "7.8 points"."""
        return f"{100 * distance:.1f} points" if self._share else f"{distance:.4g}"

    @property
    def _share(self) -> bool:
        return self.unit == FRACTION

    def _signed(self, change: float) -> str:
        return f"{100 * change:+.1f}" if self._share else f"{change:+.4g}"
