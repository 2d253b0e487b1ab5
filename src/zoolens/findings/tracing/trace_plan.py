"""What a trace is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zoolens.findings.tracing.measuring import TraceSettings
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.trace_context import TraceContext, new_context
from zoolens.inventory.catalog.lookup import Model
from zoolens.inventory.catalog.sessions import RunOptions


@dataclass(frozen=True)
class TracePlan:
    """Everything a trace is told. The same plan again does only what is not finished."""

    model: Model
    data: str | None = None  # None: made-up inputs
    limit: int | None = None
    seed: int | None = None
    wanted: RunOptions = field(default_factory=RunOptions)
    level: Level = Level.LAYER
    batch: int = 1
    settings: TraceSettings = field(default_factory=TraceSettings)
    fresh: bool = False  # observe again, as a new attempt, although it is all there
    context: TraceContext = field(default_factory=new_context)
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # shapes of made-up inputs, by name
