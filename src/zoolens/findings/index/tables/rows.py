"""What a query chooses among: one row for each model in each runtime it was measured in, and one for each model that
was never run but is known by its structure or its zoo's claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoolens.base.store.records import Provenance

Attribute = str | float | bool


@dataclass(frozen=True)
class Figure:
    """One number about a row, in the store's unit. `error`: relative error (one standard deviation) of an estimate.
    `disturbed`: a timing with too few clean samples, so that it is what the busy machine took."""

    value: float
    unit: str = ""
    provenance: Provenance = Provenance.MEASURED
    low: float | None = None
    high: float | None = None
    error: float | None = None
    source: str = ""  # run id, or who claims it
    disturbed: bool = False


@dataclass(frozen=True)
class Row:
    """`key` is stable from one building of the index to the next: of a measured row, the run that holds its answers.

    Figures are named by metric, or metric@scope where the store has a scope: "latency_p95@batch=1",
    "peak_memory@process", "flops". `signature`: the run has finished predictions on the probes of its index.
    `also`: further references under which the same content was measured.
    """

    key: str
    model: str  # fingerprint of the model's content: rows of one model in several runtimes share it
    ref: str  # zoo:name@version
    attributes: Mapping[str, Attribute]  # zoo, name, version, format, task, runtime, precision, twin_of, …
    figures: Mapping[str, Figure] = field(default_factory=dict)
    signature: bool = False
    also: tuple[str, ...] = ()

    @property
    def runtime(self) -> str | None:
        runtime = self.attributes.get("runtime")
        return None if runtime is None else str(runtime)

    @property
    def twin_of(self) -> str | None:
        """The model that a synthesised twin was made from."""
        twin_of = self.attributes.get("twin_of")
        return None if twin_of is None else str(twin_of)
