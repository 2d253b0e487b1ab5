"""Spans as columns: what took how long, at which level, called by whom.

A span is a row. It becomes an object only where it is exported, since thousands are made and nobody looks at most of
them. `SpanColumns` collects rows; `table` makes the Arrow table that the store keeps as a series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from zoolens.findings.tracing.trace_context import TraceContext, new_span_id
from zoolens.inventory.runtimes.observing import Profile

if TYPE_CHECKING:
    import pyarrow as pa


class Level(StrEnum):
    """How deep one looks. Each level includes those before it."""

    PIPELINE = "pipeline"  # request → decode → preprocess → predict → postprocess
    MODEL = "model"  # one prediction
    LAYER = "layer"  # the framework's operators
    LIBRARY = "library"  # primitives of its libraries, and kernels of a device
    SYSTEM = "system"  # what the operating system and the hardware did meanwhile

    @property
    def included(self) -> tuple[Level, ...]:
        """This level and those above it."""
        levels = tuple(Level)
        return levels[: levels.index(self) + 1]


USER: Final = "user"  # the level of spans that an application sets itself
RUN: Final = "run"  # the kind of the span that a framework's own run inside a call is, of the level of the model

COLUMNS: Final[Mapping[str, str]] = {
    "time": "when it began, in nanoseconds since the Unix epoch",
    "duration": "how long it took, in nanoseconds",
    "name": "what the framework, the pipeline or the user calls it",
    "kind": "which sort of thing it is, such as Conv; of a step or a call, request or predict",
    "level": "pipeline, model, layer, library or user",
    "observed": "the deepest level that was observed while this was timed",
    "parent": "the span that called it",
    "repeat": "which repetition it belongs to, from 0",
    "clean": "whether waiting for a core cannot have changed the repetition by more than a hundredth; null: unknown",
    "nodes": "the operators of the model's file that it computes",
    "kernel": "which implementation computed it",
    "precision": "in which precision",
    "shapes": "of its outputs",
    "synthetic": "whether only its duration was measured, so that it was laid out behind the one before it",
    "thread": "the thread that ran it",
    "device": "cpu, or the device that ran it",
    "trace_id": "the trace of the W3C that it belongs to",
    "span_id": "its number",
}


@dataclass(frozen=True)
class Span:
    """One row, as it is added."""

    name: str
    kind: str
    level: str
    time: int
    duration: int
    parent: int | None = None
    nodes: tuple[str, ...] = ()
    kernel: str | None = None
    precision: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    synthetic: bool = False
    thread: int | None = None
    device: str = "cpu"


@dataclass
class SpanColumns:
    """Rows of one trace. `observed`: the deepest level that is observed while they are timed."""

    context: TraceContext
    observed: str
    rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def __len__(self) -> int:
        return len(self.rows["time"])

    def add(self, span: Span, *, repeat: int = 0, clean: bool | None = True, span_id: int | None = None) -> int:
        """Add a row, and return its number. A span without a parent is a child of whoever called this trace."""
        number = span_id or new_span_id()
        values = {
            "time": span.time,
            "duration": span.duration,
            "name": span.name,
            "kind": span.kind,
            "level": str(span.level),
            "observed": str(self.observed),
            "parent": self.context.parent if span.parent is None else span.parent,
            "repeat": repeat,
            "clean": clean,
            "nodes": list(span.nodes),
            "kernel": span.kernel,
            "precision": span.precision,
            "shapes": [list(shape) for shape in span.shapes],
            "synthetic": span.synthetic,
            "thread": span.thread,
            "device": span.device,
            "trace_id": self.context.trace_id,
            "span_id": number,
        }
        for name, value in values.items():
            self.rows[name].append(value)
        return number

    def table(self) -> pa.Table:
        import pyarrow as pa

        return pa.table(self.rows, schema=schema())


def schema() -> pa.Schema:
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, word)
    kinds |= dict.fromkeys(("time", "duration", "thread"), pa.int64())
    kinds |= dict.fromkeys(("parent", "span_id"), pa.uint64())
    kinds |= dict.fromkeys(("clean", "synthetic"), pa.bool_())
    kinds |= {"repeat": pa.int32(), "nodes": pa.list_(pa.string()), "shapes": pa.list_(pa.list_(pa.int64()))}
    return pa.schema(list(kinds.items()))


def add_profiles(columns: SpanColumns, profiles: Sequence[Profile], clean: Sequence[bool | None]) -> None:
    """A call of the model for each profile, with its operators below. Operators without a start are laid out one behind
    the other from where their caller began."""
    for repeat, (profile, undisturbed) in enumerate(zip(profiles, clean, strict=True)):
        call = columns.add(
            Span("predict", "predict", Level.MODEL, profile.start, profile.duration), repeat=repeat, clean=undisturbed
        )
        if profile.run is not None:
            run = Span(RUN, RUN, Level.MODEL, profile.start, profile.run, call, synthetic=True)
            columns.add(run, repeat=repeat, clean=undisturbed)
        _add_operators(columns, profile, call, repeat, undisturbed)


def _add_operators(columns: SpanColumns, profile: Profile, call: int, repeat: int, clean: bool | None) -> None:
    numbers: list[int] = []
    next_start: dict[int | None, int] = {None: profile.start}  # by the place of the caller
    for place, operator in enumerate(profile.operators):
        start = operator.start if operator.start is not None else next_start[operator.parent]
        next_start[operator.parent] = start + operator.duration
        next_start[place] = start
        span = Span(
            operator.name,
            operator.kind,
            operator.level,
            start,
            operator.duration,
            call if operator.parent is None else numbers[operator.parent],
            operator.nodes,
            operator.kernel,
            operator.precision,
            operator.shapes,
            operator.start is None,
            operator.thread,
            operator.device,
        )
        numbers.append(columns.add(span, repeat=repeat, clean=clean))
