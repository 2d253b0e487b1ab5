"""A stored recording as figures: every step of an application with its median, and the models that it called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zoolens.base.present.figures import figure
from zoolens.base.present.results import Result
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.records import Run
from zoolens.base.store.series import read_series
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.tracing.phases import FURTHER, Phase, load_phases
from zoolens.findings.tracing.recorder import SERIES
from zoolens.findings.tracing.report import disturbed_words, indent, share_words, short_name, timing_words
from zoolens.findings.tracing.spans import USER
from zoolens.findings.tracing.stored import find_trace
from zoolens.findings.tracing.trace_layers import Timing, timing

if TYPE_CHECKING:
    import pyarrow as pa

_MANY: Final = 20  # tokens, of which nine in ten say something


@dataclass(frozen=True)
class RecordedStep:
    """All spans of one name below the same steps."""

    name: str
    kind: str
    level: str
    times: int
    timing: Timing
    total: float  # seconds of all its spans together
    share: float | None  # of the total of the step that called it; None for the recording itself
    steps: tuple[RecordedStep, ...] = ()


@dataclass(frozen=True, repr=False)
class StoredRecording(Result):
    """A recording that is stored. `adopted`: the spans of models that were traced meanwhile, which have own runs."""

    run: Run
    step: RecordedStep
    adopted: int
    spans: pa.Table
    judged: bool = False  # of every step it is known whether other processes disturbed it
    phases: tuple[Phase, ...] = ()  # of a model that writes: its prompt and its tokens, each repeated alone

    @property
    def title(self) -> str:
        if self.phases:
            return f"{self.step.name}: requests to a model that writes"
        return f"{self.step.name}: a recording of an application"


def is_recording(run: Run) -> bool:
    return run.model.format == "code"


def load_recording(run: Run | str, *, store: Store | str | Path | None = None) -> StoredRecording:
    """Return a recording by its run, or by a name as `load_trace` takes it."""
    with borrowed_store(store, must_exist=True) as opened:
        named = find_trace(opened, run) if isinstance(run, str) else run
        table = read_series(opened, named.id, SERIES)
        phases = load_phases(opened, named)
    rows = [row for row in table.to_pylist() if row["observed"] == USER]
    root = next(row for row in rows if row["kind"] == "recording")
    steps = [row for row in rows if row is not root]
    known = {row["span_id"] for row in rows}
    below: dict[int | None, list[Mapping[str, Any]]] = {}
    for row in sorted(steps, key=lambda row: row["time"]):
        # A caller that had not ended when the recording did is not there.
        caller = row["parent"] if row["parent"] in known else root["span_id"]
        below.setdefault(caller, []).append(row)
    judged = bool(steps) and all(row["clean"] is not None for row in steps)
    return StoredRecording(named, _step([root], None, below), len(table) - len(rows), table, judged, phases)


def _step(
    rows: Sequence[Mapping[str, Any]], caller: float | None, below: Mapping[int | None, Sequence[Mapping[str, Any]]]
) -> RecordedStep:
    seconds = np.array([row["duration"] / 1e9 for row in rows])
    total = float(seconds.sum())
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for inner in (inner for row in rows for inner in below.get(row["span_id"], ())):
        groups.setdefault((inner["name"], inner["kind"], inner["level"]), []).append(inner)
    return RecordedStep(
        rows[0]["name"],
        rows[0]["kind"],
        rows[0]["level"],
        len(rows),
        timing(seconds, np.array([row["clean"] is not False for row in rows], bool)),
        total,
        total / caller if caller else None,
        tuple(_step(group, total, below) for group in groups.values()),
    )


def steps_table(recorded: StoredRecording) -> Table:
    columns = (
        Column("step", "key", keep=9),
        Column("level", "key", keep=5),
        Column("times", "number", keep=7),
        Column("median [95 %]", "number", keep=9),
        Column("in all", "number", keep=6),
        Column("share of its caller", "number", keep=8),
    )
    return Table("steps", columns, tuple(_rows(recorded.step, 0)))


def _rows(step: RecordedStep, depth: int) -> Iterator[tuple[Any, ...]]:
    share = "" if step.share is None else share_words(step.share)
    name = indent(depth) + short_name(step.name)
    yield name, step.level, f"{step.times:,}", timing_words(step.timing), figure(step.total, "s"), share
    for inner in step.steps:
        yield from _rows(inner, depth + 1)


def sentences(recorded: StoredRecording) -> Iterator[str]:
    if not recorded.judged:
        yield "Whether other processes disturbed a step is not known: all of them count."
    yield from disturbed_words(step.name for step in _outermost_disturbed(recorded.step))
    if _crowded(recorded.step):
        yield "Shares of more than 100 % are of steps that ran at the same time, in several threads or tasks."
    yield from _of_phases(recorded)
    if recorded.adopted:
        yield (
            f"The recording also holds {recorded.adopted:,} spans of models that were traced meanwhile; these traces "
            "are runs of their own."
        )


def phase_shares(recorded: StoredRecording) -> dict[str, float]:
    """Which share of all requests the calls of each phase are, by its name."""
    requests = [step for step in recorded.step.steps if step.kind == "request"]
    return {step.name: step.share or 0.0 for request in requests for step in request.steps}


def _of_phases(recorded: StoredRecording) -> Iterator[str]:
    """How a request divides into its phases, and what of it cannot be divided further."""
    if not recorded.phases:
        return
    (request,) = (step for step in recorded.step.steps if step.kind == "request")
    shares = phase_shares(recorded)
    parts = {step.name: f"{step.times // request.times:,} × {step.name}" for step in request.steps}
    yield (
        "Of all requests "
        + ", ".join(f"{share_words(share)} is {parts[name]}" for name, share in shares.items())
        + f"; {share_words(max(1 - sum(shares.values()), 0.0))} is between the calls, where the next token is chosen "
        "and counters of other processes are read. The time of a step includes handing over tokens and answers."
    )
    yield from _spread(recorded)
    whole = [phase.name for phase in recorded.phases if phase.trace.layer is None]
    if whole:
        share = share_words(sum(shares.get(name, 0.0) for name in whole))
        yield f"Where the time goes inside of a {' or a '.join(whole)}, {share} of all requests, is not known."


def _spread(recorded: StoredRecording) -> Iterator[str]:
    """Between which times most tokens are."""
    rows = [row for row in recorded.spans.to_pylist() if row["name"] == FURTHER and row["kind"] == "extend"]
    undisturbed = [row for row in rows if row["clean"] is not False]
    chosen, which = (undisturbed, "undisturbed ") if len(undisturbed) >= _MANY else (rows, "")
    if len(chosen) < _MANY:
        return
    low, high = np.quantile([row["duration"] / 1e9 for row in chosen], (0.05, 0.95))
    yield f"Nine in ten of {len(chosen):,} {which}tokens take between {figure(low, 's')} and {figure(high, 's')}."


def _outermost_disturbed(step: RecordedStep) -> Iterator[RecordedStep]:
    """Steps of which too few repetitions were undisturbed; what is below them was disturbed with them."""
    if step.timing.disturbed:
        yield step
        return
    for inner in step.steps:
        yield from _outermost_disturbed(inner)


def _crowded(step: RecordedStep) -> bool:
    return any((inner.share or 0) > 1 or _crowded(inner) for inner in step.steps)


def recording_as_data(recorded: StoredRecording) -> dict[str, Any]:
    return {
        "run": recorded.run.id,
        "recording": _data(recorded.step),
        "adopted_spans": recorded.adopted,
        "disturbances_known": recorded.judged,
        "phases": [phase.as_data for phase in recorded.phases],
        "notes": list(sentences(recorded)),
    }


def _data(step: RecordedStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "kind": step.kind,
        "level": step.level,
        "times": step.times,
        **step.timing.as_data,
        "total_seconds": step.total,
        "share": step.share,
        "steps": [_data(inner) for inner in step.steps],
    }


def typical_request(recorded: StoredRecording) -> pa.Table:
    """The spans of one request: of the step below the recording that takes most of its time, the call whose duration
    is the median one, with all below it. The whole recording where nothing is below it."""
    import pyarrow as pa

    rows = [row for row in recorded.spans.to_pylist() if row["observed"] == USER]
    if not recorded.step.steps:
        return recorded.spans
    longest = max(recorded.step.steps, key=lambda step: step.total)
    root = next(row["span_id"] for row in rows if row["kind"] == "recording")
    calls = [
        row for row in rows if row["parent"] == root and (row["name"], row["kind"]) == (longest.name, longest.kind)
    ]
    chosen = min(calls, key=lambda row: abs(row["duration"] / 1e9 - longest.timing.median))
    kept, own = [chosen], {chosen["span_id"]}
    for row in sorted(rows, key=lambda row: row["time"]):  # whoever calls begins first
        if row["parent"] in own:
            kept.append(row)
            own.add(row["span_id"])
    return pa.Table.from_pylist(kept, schema=recorded.spans.schema)
