"""The phases of a model that writes, each as calls of its own: the prompt is read, and one token is read behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.records import Run
from zoolens.base.store.series import read_series, series_names
from zoolens.base.store.store import Store
from zoolens.findings.tracing.report import merged_layers, share_words, trace_as_data
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import Overhead, Trace
from zoolens.findings.tracing.trace_layers import call_timing, observed_calls_of

if TYPE_CHECKING:
    import pyarrow as pa

PROMPT: Final = "prompt"
FURTHER: Final = "token"
PHASES: Final = (PROMPT, FURTHER)
WRITING: Final = "writing"  # in run.resolved: of what the phases are
MISSING: Final = "missing"  # there: why a phase has no layers, by its name


@dataclass(frozen=True)
class Phase:
    """Calls of one kind. `trace`: what they took, and their layers, as of a model that predicts."""

    name: str
    tokens: int  # of the prompt
    trace: Trace
    spans: pa.Table

    @property
    def title(self) -> str:
        count = f"{self.tokens:,} token{'' if self.tokens == 1 else 's'}"
        return f"prompt: {count} are read" if self.name == PROMPT else f"token: one is read behind {count}"

    @property
    def as_data(self) -> dict[str, Any]:
        return {"phase": self.name, "prompt_tokens": self.tokens, **trace_as_data(self.trace)}


def phase_series(name: str) -> str:
    """The series of a recording that holds the calls of a phase."""
    return f"spans-{name}"


def load_phases(store: Store, run: Run) -> tuple[Phase, ...]:
    """The phases that a recording has; none where it is not of a model that writes."""
    known, about = set(series_names(store, run.id)), run.resolved.get(WRITING) or {}
    return tuple(
        _phase(name, read_series(store, run.id, phase_series(name)), run, about)
        for name in PHASES
        if phase_series(name) in known
    )


def _phase(name: str, table: pa.Table, run: Run, about: Mapping[str, Any]) -> Phase:
    plain = call_timing(table, Level.MODEL)
    layer, library = (observed_calls_of(table, level) for level in (Level.LAYER, Level.LIBRARY))
    overheads = [
        Overhead(level, observed.calls, plain)
        for level, observed in ((Level.LAYER, layer), (Level.LIBRARY, library))
        if observed is not None and plain is not None
    ]
    trace = Trace(
        run,
        1,
        str(about.get("prompt", "")),
        model=plain,
        layer=layer,
        library=library,
        overheads=tuple(overheads),
        missing={Level(level): str(why) for level, why in (about.get(MISSING, {}).get(name) or {}).items()},
        judged=not table["clean"].null_count,
    )
    return Phase(name, int(about.get("prompt_tokens", 0)), trace, table)


def kinds_table(phase: Phase, most: int | None = None) -> Table:
    """The layers by their kind: a language model repeats a block dozens of times. `most`: kinds with rows of their
    own, the longest first; None: all."""
    by_kind: dict[str, list[float]] = defaultdict(list)
    for layer in merged_layers(phase.trace):
        by_kind[layer.kind].append(layer.timing.median)
    total = sum(map(sum, by_kind.values())) or 1.0
    longest = sorted(by_kind.items(), key=lambda item: -sum(item[1]))
    if most is not None and len(longest) > most + 1:
        rest = [each for _, several in longest[most:] for each in several]
        longest = [*longest[:most], (f"{len(longest) - most:,} other kinds", rest)]
    rows = [(kind, f"{len(each):,}", figure(sum(each), "s"), share_words(sum(each) / total)) for kind, each in longest]
    columns = (
        Column("kind", "key", keep=9),
        Column("layers", "number", keep=8),
        Column("sum of medians", "number", keep=7),
        Column("share", "number", keep=9),
    )
    return Table("kinds", columns, tuple(rows))
