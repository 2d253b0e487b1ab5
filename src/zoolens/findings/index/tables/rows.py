"""What a query chooses among: one row for each model in each runtime it was measured in, and one for each model that
was never run but is known by its structure or its zoo's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zoolens.base.store.records import Provenance

Attribute = str | float | bool


class Figure(NamedTuple):
    """One number about a row, in the store's unit. A named tuple, since a large store has millions of them, and a
    frozen dataclass takes three times as long to make."""

    value: float
    unit: str = ""
    provenance: Provenance = Provenance.MEASURED
    low: float | None = None
    high: float | None = None
    error: float | None = None  # of an estimate: relative, one standard deviation
    source: str = ""  # run id, or who claims it
    disturbed: bool = False  # too few clean samples: includes the load of the machine


@dataclass(frozen=True)
class Row:
    """What a query chooses among: a model in a runtime, or a model that never ran."""

    key: str  # stable from one build of the index to the next; of a measured row the run that holds its answers
    model: str  # fingerprint of the model's content: rows of one model in several runtimes share it
    ref: str  # zoo:name@version
    attributes: Mapping[str, Attribute]  # zoo, name, version, format, task, runtime, precision, twin_of, …
    # by metric or metric@scope: "latency_p95@batch=1", "peak_memory@process", "flops"
    figures: Mapping[str, Figure] = field(default_factory=dict)
    signature: bool = False  # the run has finished predictions on the probes of its index
    also: tuple[str, ...] = ()  # further references under which this content was measured

    @property
    def runtime(self) -> str | None:
        runtime = self.attributes.get("runtime")
        return None if runtime is None else str(runtime)

    @property
    def twin_of(self) -> str | None:
        """The model that a stitched model was made from."""
        twin_of = self.attributes.get("twin_of")
        return None if twin_of is None else str(twin_of)
