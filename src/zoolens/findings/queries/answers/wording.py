"""Quantities, predicates and rejections in words."""

from __future__ import annotations

from typing import Final

from zoolens.base.present.figures import count, figure_with_ends, percent_down, percent_up
from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.rows import Figure
from zoolens.findings.queries.planning.predicates import Predicate

_SCALES: Final = {
    "s": ((1.0, " s"), (1e-3, " ms"), (1e-6, " µs")),
    "B": ((1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")),
    "": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}
_PLAIN: Final = 1e4  # counts below it are written out
_LEAST_TOLD: Final = 0.005


def amount(value: float, unit: str = "") -> str:
    """86.9 %, 12.3 ms, 200 MB, 25.6M: four digits at most."""
    if unit == "fraction":
        return f"{_digits(100 * value)} %"
    if unit not in _SCALES:
        return f"{_digits(value)} {unit}"
    if unit == "" and abs(value) < _PLAIN:
        return _digits(value)
    scales = _SCALES[unit]
    factor, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{_digits(value / factor)}{name}"


def amount_with_interval(value: float, low: float | None, high: float | None, unit: str) -> str:
    """86.9 % [85.4, 88.3]: a measured figure as everywhere else. Counts are shortened: 25.6M."""
    if unit == "" and (low is None or high is None):
        return count(value) if abs(value) >= _PLAIN else amount(value)
    return figure_with_ends(value, low, high, unit)


def at_least(share: float) -> str:
    """A lower bound, never rounded up: 92.06 % is shown as ≥ 92.0 %."""
    return f"≥ {percent_down(share)}"


def lower_bound(share: float | None) -> str:
    """A lower bound as it stands behind an agreement; empty where there is none."""
    return "" if share is None else f" [{at_least(share)}]"


def at_most(share: float) -> str:
    """An upper bound, never rounded down."""
    return f"≤ {percent_up(share)}"


def mark(figure: Figure | None) -> str:
    """Returns a mark for claims, estimates and disturbed timings, and none for what was measured."""
    if figure is not None and figure.disturbed:
        return " (disturbed)"
    if figure is None or figure.provenance is Provenance.MEASURED:
        return ""
    error = f" ±{100 * figure.error:.0f} %" if figure.error is not None else ""
    return f" ({figure.provenance}{error})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def predicate_words(predicate: Predicate) -> str:
    """A predicate in words: "memory <= 23.4 MB (20 % of the reference's 117 MB)"."""
    unit = predicate.metric.unit
    text = f"{predicate.metric.name} {predicate.comparison} {amount(predicate.threshold, unit)}"
    why = [predicate.note] if predicate.note else []
    if predicate.share is not None and predicate.reference is not None:
        why.insert(0, f"{_digits(100 * predicate.share)} % of the reference's {amount(predicate.reference, unit)}")
    return f"{text} ({', '.join(why)})" if why else text


def rejection_words(predicate: Predicate, value: float | None, by: float | None, marked: str = "") -> str:
    """memory is 30 MB, 28 % above 23.4 MB. `marked`: the figure's `mark`."""
    metric = predicate.metric
    if value is None:
        return f"{metric.name} is unknown"
    threshold = amount(predicate.threshold, metric.unit)
    side = "above" if value > predicate.threshold else "below" if value < predicate.threshold else "not beyond"
    return f"{metric.name} is {amount(value, metric.unit)}{marked}, {_distance(predicate, by)}{side} {threshold}"


def _distance(predicate: Predicate, by: float | None) -> str:
    if by is None:
        return ""
    if predicate.metric.unit == "fraction":
        return f"{_rough(by)} points " if 100 * by >= _LEAST_TOLD else ""
    return f"{_rough(by)} % " if 100 * by >= _LEAST_TOLD else ""


def _rough(share: float) -> str:
    return f"{100 * share:,.0f}" if share >= 1 else f"{100 * share:.2g}"
