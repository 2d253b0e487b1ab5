"""How figures read: percent, milliseconds, megabytes, and intervals beside them."""

from __future__ import annotations

import math
from typing import Final

from zoolens.base.store.records import GUESSED, WITH_NETWORK, Observation, Provenance, Run, is_disturbed
from zoolens.base.store.scopes import Dimension, parse_scope

NOTHING: Final = "–"  # where there is no figure
_SMALL: Final = 0.001  # probabilities nearer to 0 or 1 are not told exactly

_ONCE_TOO_NARROW: Final = ("ece", "brier", "nll", "score")

_PREFIXED: Final = ("s", "B", "J")  # units whose figures are written with SI prefixes; counts are so by `count` alone

_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "J": ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")),
    "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}


def short_number(value: float) -> str:
    """A number without a unit: 0.05, 1e−8, 512."""
    if value == 0:
        return "0"
    if 1e4 <= abs(value) < 1e5:
        return f"{value:,.0f}".replace("-", "−")
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        digits, power = f"{value:.2e}".split("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def percent(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


def probability(value: float) -> str:
    """Writes a probability in percent. What is not certain does not read as if it were."""
    if 0 < value < _SMALL:
        return f"< {percent(_SMALL, 1)}"
    if 1 - _SMALL < value < 1:
        return f"> {percent(1 - _SMALL, 1)}"
    return percent(value, 1)


def percent_down(share: float) -> str:
    """A lower bound: what is promised must hold, so it is rounded down."""
    return f"{math.floor(1000 * share) / 10:.1f} %"


def percent_up(share: float) -> str:
    """An upper bound, rounded up."""
    return f"{math.ceil(1000 * share) / 10:.1f} %"


def nats(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def p_value(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"


def figure(value: float | None, unit: str = "") -> str:
    if value is None:
        return NOTHING
    if unit == "fraction":
        return f"{100 * value:.1f} %"
    if unit in _PREFIXED:
        for factor, name in _SCALES[unit]:
            if abs(value) >= factor:
                return f"{_three_digits(value / factor)} {name}"
        return f"{_three_digits(value / _SCALES[unit][-1][0])} {_SCALES[unit][-1][1]}"
    return f"{_three_digits(value)}{' ' + unit if unit else ''}"


def figure_with_ends(value: float, low: float | None, high: float | None, unit: str = "") -> str:
    """86.9 % [85.4, 88.3]: the ends in the unit of the figure, which is written once. The figure alone where the
    interval is unknown."""
    text = figure(value, unit)
    return (
        text if low is None or high is None else f"{text} [{_end_of(low, value, unit)}, {_end_of(high, value, unit)}]"
    )


def count(value: float | None) -> str:
    """A large integer, shortened: 61.7k."""
    if value is None:
        return NOTHING
    for factor, name in _SCALES[""]:
        if abs(value) >= factor:
            return f"{_three_digits(value / factor)}{name}"
    return "0"


def with_interval(observation: Observation | None) -> str:
    """86.9 % [85.4, 88.3], in one unit; a dash and no more where nothing is known. A range of a few repeats promises
    nothing and has other brackets: 62.0 MB (61.9 to 62.1)."""
    if observation is None or observation.value is None:
        return NOTHING
    return _with_ends(_timed(observation, observation.value), observation) + guessed_mark(observation)


def _with_ends(text: str, observation: Observation) -> str:
    low, high, method = observation.low, observation.high, observation.details.get("interval")
    if low is None or high is None or has_old_interval(observation):
        return text
    if low == high and method != "order statistics":  # ticks of a clock are often the same
        return text if observation.n == 1 or method == "range" else f"{text} (no spread, so no interval)"
    ends = _end(low, observation), _end(high, observation)
    if method == "range":
        return f"{text} ({ends[0]} to {ends[1]})" if ends[0] != ends[1] else text
    return f"{text} [{ends[0]}, {ends[1]}]"


def without_interval(observation: Observation | None) -> str:
    """The value in its unit, with its marks."""
    if observation is None or observation.value is None:
        return NOTHING
    return _timed(observation, observation.value) + guessed_mark(observation)


def _timed(observation: Observation, value: float) -> str:
    """The value in its unit, with the marks of a timing."""
    return figure(value, observation.unit) + disturbed_mark(observation) + network_mark(observation)


def has_old_interval(observation: Observation) -> bool:
    """Until November 2026 these had bootstrap intervals that hold the truth too rarely, of `ece` hardly ever."""
    return observation.metric in _ONCE_TOO_NARROW and observation.details.get("interval") == "bootstrap"


def _end(value: float, observation: Observation) -> str:
    return _end_of(value, observation.value or 0.0, observation.unit)


def _end_of(value: float, middle: float, unit: str) -> str:
    """An end of an interval in the unit of its figure `middle`."""
    if unit == "fraction":
        return f"{100 * value:.1f}"
    if unit in _PREFIXED:
        scales = _SCALES[unit]
        factor = next((factor for factor, _ in scales if abs(middle) >= factor), scales[-1][0])
        return _three_digits(value / factor)
    return _three_digits(value)


def disturbed_mark(observation: Observation) -> str:
    """A mark beside a clean timing that had to be taken from the raw samples."""
    return " (disturbed)" if is_disturbed(observation) else ""


def guessed_mark(observation: Observation) -> str:
    """Returns the mark of a figure that rests on unchecked guesses, such as drafted preprocessing."""
    return " (guessed)" if observation.details.get(GUESSED) else ""


def network_mark(observation: Observation) -> str:
    """A mark beside a timing of a model behind a server."""
    return " (with network)" if WITH_NETWORK in observation.details else ""


def provenance_mark(observation: Observation) -> str:
    return "" if observation.provenance is Provenance.MEASURED else f" ({observation.provenance})"


def scope_words(observation: Observation) -> str:
    """The scope with the name of its class, where the run knows it: class=15 (person)."""
    name = _stored_name(observation)
    return observation.scope if name is None else f"{observation.scope} ({name})"


def class_name(observation: Observation) -> str:
    """The name of the class that a figure is of; empty where it is of no class, or of one without a name."""
    return _stored_name(observation) or ""


def class_words(observation: Observation) -> str:
    """The name of the class that a figure is of, or its number in words: person, class 15."""
    return _stored_name(observation) or observation.scope.replace("=", " ")


def _stored_name(observation: Observation) -> str | None:
    scope, name = parse_scope(observation.scope), observation.details.get("class")
    if name is None or scope.dimension is not Dimension.CLASS:
        return None
    # Until November 2026 the number was stored as the name of a class without one.
    return None if str(name) == str(scope.number) else str(name)


def stack_label(run: Run) -> str:
    """Returns runtime and version with what distinguishes this environment: mode, precision, packages."""
    apart = [
        run.stack.identity.get("options", {}).get("mode"),
        run.precision,
        "own environment" if run.stack.identity.get("environment") else None,
        run.stack.address.partition("://")[2].replace("/v2/models/", "/") or None,
    ]
    notes = [note for note in apart if note not in (None, "default", "float32")]
    label = f"{run.stack.runtime} {run.stack.version or ''}".rstrip()
    return f"{label} ({', '.join(notes)})" if notes else label


def _three_digits(value: float) -> str:
    whole = round(value)
    if abs(value) < 1000 and math.isclose(value, whole):  # 45e-6 s are 45.00000000000001 µs
        return str(whole)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.{digits}f}"
