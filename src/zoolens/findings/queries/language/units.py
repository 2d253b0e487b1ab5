"""What metrics are counted in, and the units that people write.

A per cent is a share of the reference's own figure (memory <= 20%), except for metrics that are fractions themselves
(accuracy >= 70%): those are listed here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

# Metrics whose figures lie between 0 and 1: a per cent of them is absolute.
FRACTIONS: Final = frozenset({
    "accuracy", "accuracy_lower", "accuracy_drop", "accuracy_drop_lower", "accuracy_drop_upper", "agreement",
    "clean_share", "disagreement", "ece", "equivalence", "equivalence_least", "equivalence_lower", "equivalence_upper",
    "f1", "recall", "top1", "top5",
})  # fmt: skip
_FRACTION_ENDINGS: Final = ("_share", "_fraction", "_accuracy")
_SMALLER_IS_BETTER: Final = {"accuracy_drop", "accuracy_drop_lower", "accuracy_drop_upper", "disagreement", "ece"}

# What the figures of well-known metrics are counted in. Any other metric takes every unit.
_COUNTED: Final = {
    "bytes": ("memory", "mem", "peak_memory", "file_size", "size", "peak_bytes", "activation_bytes"),
    "seconds": ("latency", "latency_p50", "latency_p90", "latency_p95", "latency_p99", "cold_start", "export_time"),
    "count": ("parameters", "params", "nodes"),
    "operations": ("flops",),
    "multiply-adds": ("macs",),
    "joules": ("energy",),
    "inputs per second": ("throughput",),
}
_KINDS: Final = {metric: kind for kind, metrics in _COUNTED.items() for metric in metrics}
_NAMED: Final = {"count": "whole numbers", "fraction": "fractions of 1"}
_SCALES: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class Unit:
    """`name` is its canonical spelling; `factor` times the number is the figure in the store's unit."""

    name: str
    factor: Decimal
    kind: str


def _units() -> dict[str, Unit]:
    units = [Unit("%", Decimal("0.01"), "share"), Unit("x", Decimal(1), "share"), Unit("min", Decimal(60), "seconds")]
    for scale, factor in _SCALES.items():
        units.append(Unit(f"{scale}B", Decimal(factor), "bytes"))
        units.append(Unit(f"{scale}FLOPS", Decimal(factor), "operations"))
        units.append(Unit(f"{scale}MACS", Decimal(factor), "multiply-adds"))
        if scale:
            units.append(Unit(scale, Decimal(factor), "count"))
    units += [Unit(f"{scale}iB", Decimal(1024**power), "bytes") for power, scale in enumerate("KMGT", 1)]
    for name, power in (("s", 0), ("ms", -3), ("µs", -6), ("ns", -9)):
        units.append(Unit(name, Decimal(10) ** power, "seconds"))
    for name, power in (("J", 0), ("mJ", -3), ("µJ", -6), ("kJ", 3)):
        units.append(Unit(name, Decimal(10) ** power, "joules"))
    units.append(Unit("inputs/s", Decimal(1), "inputs per second"))
    return {unit.name: unit for unit in units}


UNITS: Final = _units()
_SAME: Final = {
    "×": "x", "sec": "s", "second": "s", "seconds": "s", "usec": "µs", "us": "µs", "μs": "µs", "uj": "µJ", "μj": "µJ",
    "msec": "ms", "minute": "min", "minutes": "min", "percent": "%", "byte": "B", "bytes": "B", "joule": "J",
    "joules": "J", "input/s": "inputs/s", "images/s": "inputs/s", "image/s": "inputs/s", "img/s": "inputs/s",
    "fps": "inputs/s", "qps": "inputs/s", "ips": "inputs/s", "/s": "inputs/s",
}  # fmt: skip
# In any case, for people write 200 mb and 2 GFLOPs; "m" alone could be three things.
ANY_CASE: Final = {**{name.lower(): name for name in UNITS}, **_SAME}
ANY_CASE.update({name.removesuffix("S").lower(): name for name in UNITS if name.endswith(("FLOPS", "MACS"))})
del ANY_CASE["m"]


@lru_cache(maxsize=1_000)
def is_fraction(metric: str) -> bool:
    """Whether 95% of this metric is 0.95 and not 95 % of the reference's figure."""
    name = metric.partition("@")[0].lower()
    return name in FRACTIONS or name.endswith(_FRACTION_ENDINGS)


def larger_is_better(metric: str) -> bool:
    """Whether a bare figure is the least that is wanted (accuracy=0.7) and not the most (memory="200 MB")."""
    name = metric.partition("@")[0].lower()
    return name == "throughput" or (is_fraction(name) and name not in _SMALLER_IS_BETTER)


@lru_cache(maxsize=1_000)
def kind_of(metric: str) -> str | None:
    """What a metric's figures are counted in, of those that the language knows."""
    return "fraction" if is_fraction(metric) else _KINDS.get(metric.partition("@")[0].lower())


def is_known(metric: str) -> bool:
    return kind_of(metric) is not None


def find_unit(text: str) -> Unit | None:
    name = text if text in UNITS else ANY_CASE.get(text.lower(), "")
    return UNITS.get(name)


def counted_in(kind: str) -> str:
    """How a message names what a metric is counted in."""
    return _NAMED.get(kind, kind)


def units_of(kind: str | None) -> str:
    """The units that fit, for messages."""
    fitting = {unit.name: None for unit in UNITS.values() if kind is None or unit.kind in (kind, "share")}
    if kind in ("count", "operations", "multiply-adds"):
        fitting = {**fitting, **dict.fromkeys("kMGT")}
    return ", ".join(fitting)
