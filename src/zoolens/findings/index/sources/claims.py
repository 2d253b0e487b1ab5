"""What manifests claim, under the names and in the units of the store: people write 76.1 % and 98 MB.

A claim in a unit that says something else, such as a file size in seconds, is left out: beside figures in the store's
unit it would win or lose every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from zoolens.base.store.records import Provenance
from zoolens.findings.index.sources.stored_figures import Named, figure_name
from zoolens.findings.index.tables.rows import Figure

_CALLED: Final = {"params": "parameters", "accuracy": "top1", "size": "file_size"}  # where the store has another name
_COUNTED: Final = {
    "top1": "fraction", "top5": "fraction", "file_size": "B", "peak_memory": "B", "parameters": "", "flops": "",
    "macs": "", "energy": "J",
}  # fmt: skip
_LATENCY: Final = "latency_"  # in seconds, whatever follows
_SCALES: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_MULTIPLY_ADDS: Final = {"multiply-adds": 1.0, **{f"{scale}macs": factor for scale, factor in _SCALES.items()}}
# In small letters: how much of the store's unit it is, and which that is.
_UNITS: Final = {
    **{scale: (factor, "") for scale, factor in _SCALES.items()},
    **{f"{scale}flops": (factor, "") for scale, factor in _SCALES.items()},
    **{f"{scale}b": (factor, "B") for scale, factor in _SCALES.items()},
    **{f"{scale}ib": (1024.0**power, "B") for power, scale in enumerate("kmg", 1)},
    "bytes": (1.0, "B"), "fraction": (1.0, "fraction"), "%": (0.01, "fraction"), "percent": (0.01, "fraction"),
    "s": (1.0, "s"), "ms": (1e-3, "s"), "µs": (1e-6, "s"), "us": (1e-6, "s"), "j": (1.0, "J"), "mj": (1e-3, "J"),
}  # fmt: skip


def claimed_figures(manifest: Mapping[str, Any], *, ran: bool) -> Iterator[Named]:
    """What a manifest claims. A claim about data is metric@dataset; of a model that never `ran`, where nothing could
    be mistaken for it, also the metric itself."""
    for claim in manifest.get("claims") or ():
        dataset = claim.get("dataset") or ""
        source = f"{claim['source']}, on {dataset}" if dataset else str(claim["source"])
        for name, value, unit in _claimed(str(claim["metric"]), float(claim["value"]), str(claim.get("unit") or "")):
            figure = Figure(value, unit, Provenance.CLAIMED, source=source)
            if not (dataset and ran):
                yield name, figure
            if dataset:
                yield figure_name(name, dataset), figure


def _claimed(metric: str, value: float, unit: str) -> Iterator[tuple[str, float, str]]:
    name, factor = _CALLED.get(metric, metric), _MULTIPLY_ADDS.get(unit.lower())
    if name in ("flops", "macs") and factor is not None:  # our FLOPs count a multiply-add twice
        yield "macs", value * factor, ""
        yield "flops", 2 * value * factor, ""
    elif (converted := _in_store_unit(name, value, unit)) is not None:
        yield name, *converted


def _in_store_unit(name: str, value: float, unit: str) -> tuple[float, str] | None:
    """Convert a claim to the store's unit. Returns None if the claim cannot be compared with the store's figures."""
    counted = "s" if name.startswith(_LATENCY) else _COUNTED.get(name)
    factor, kind = _UNITS.get(unit.lower(), (1.0, unit))
    if not unit and counted is not None:
        kind = counted
    converted = value * factor
    sensible = math.isfinite(converted) and (kind != "fraction" or 0 <= converted <= 1)
    return (converted, kind) if sensible and counted in (None, kind) else None
