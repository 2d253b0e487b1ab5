"""Spans of an application's own code, on the same timeline as those of models.

    with zoolens.findings.tracing.recording("my service"):
        with zoolens.span("fetch"):
            …
        zoolens.trace("demo:lenet-wide", level="layer")

A span costs some microseconds while something is recorded, and less than one otherwise. Spans nest, also in tasks of
asyncio; those of other threads hang on the recording itself. `traceparent` is what another process is given, in the
variable TRACEPARENT or in a header, so that its spans belong to the same trace.
"""

from __future__ import annotations

import platform
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from zoolens.base.errors import ZoolensError
from zoolens.findings.tracing.spans import USER, Span, SpanColumns
from zoolens.findings.tracing.trace_context import TraceContext, inherited_context, new_span_id

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.base.store.records import StackRecord
    from zoolens.base.store.store import Store

SERIES: Final = "spans-user"
_current: ContextVar[int | None] = ContextVar("span", default=None)
# name, kind, level, time, duration, parent, thread, number, whether its start was not measured
_Row = tuple[str, str, str, int, int, int | None, int | None, int, bool]


class Recording:
    """What is recorded now. `context` is the trace that it belongs to, `root` the number of its own span."""

    def __init__(self, name: str, context: TraceContext) -> None:
        self.name, self.context, self.root = name, context, new_span_id()
        self.run: str | None = None  # the id of the run that it was stored as
        self._began = time.time_ns(), time.perf_counter_ns()
        self._ended: int | None = None
        self._rows: list[_Row] = []
        self._adopted: list[pa.Table] = []
        self._judged: dict[int, bool | None] = {}

    def judge(self, number: int, clean: bool | None) -> None:
        """Say whether other processes left a span alone, and with it all below it; None is not known, as of all whom
        nobody watched."""
        self._judged[number] = clean

    def add(self, row: _Row) -> None:
        # Appending is safe in several threads at once.
        self._rows.append(row)

    def end(self) -> None:
        """Stops recording: what takes time from now on, such as storing it all, is no part of it."""
        self._ended = time.perf_counter_ns()

    def adopt(self, table: pa.Table) -> None:
        self._adopted.append(table)

    def table(self) -> pa.Table:
        """The recording's own span and all that ended so far, with the spans of models that were traced meanwhile."""
        ended = self._ended or time.perf_counter_ns()
        import pyarrow as pa

        columns = SpanColumns(self.context, USER)
        start, began = self._began
        root = Span(self.name, "recording", USER, start, ended - began)
        # Whether others disturbed it is not known.
        columns.add(root, span_id=self.root, clean=None)
        rows = list(self._rows)
        judged = self._judged_spans(rows)
        for name, kind, level, begun, duration, parent, thread, number, synthetic in rows:
            span = Span(name, kind, level, begun, duration, parent or self.root, synthetic=synthetic, thread=thread)
            columns.add(span, span_id=number, clean=judged.get(number))
        return pa.concat_tables([columns.table(), *self._adopted], promote_options="permissive")

    def _judged_spans(self, rows: Sequence[_Row]) -> dict[int, bool | None]:
        """What is known of each span: its own judgement, else that of who called it."""
        judged = dict(self._judged)
        for *_, parent, _, number, _ in sorted(rows, key=lambda row: row[3]):  # whoever calls begins first
            if number not in judged and parent in judged:
                judged[number] = judged[parent]
        return judged


_active: list[Recording] = []
_changing = threading.Lock()


class _OpenSpan:
    __slots__ = ("_began", "_kind", "_level", "_name", "_number", "_parent", "_recording", "_start", "_token")

    def __init__(self, name: str, kind: str, level: str) -> None:
        self._name, self._kind, self._level = name, kind, level
        self._recording: Recording | None = None

    def __enter__(self) -> Self:
        if not _active:
            return self
        self._recording = _active[-1]
        self._parent = _current.get()
        self._number = random.getrandbits(64) or 1
        self._token: Token[int | None] = _current.set(self._number)
        self._start, self._began = time.time_ns(), time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recording is None:
            return
        duration = time.perf_counter_ns() - self._began
        _current.reset(self._token)
        thread = threading.get_native_id()
        self._recording.add(
            (self._name, self._kind, self._level, self._start, duration, self._parent, thread, self._number, False)
        )
        self._recording = None

    @property
    def number(self) -> int | None:
        """The number of the span, while it is open and recorded."""
        return self._number if self._recording is not None else None

    def add_part(self, name: str, kind: str, seconds: float) -> None:
        """Say, before the span ends, that a part of it took so long somewhere else. When it began is not known: it is
        laid out in the middle of what has passed."""
        if self._recording is None:
            return
        passed, duration = time.perf_counter_ns() - self._began, round(seconds * 1e9)
        begun = self._start + max(passed - duration, 0) // 2
        number = random.getrandbits(64) or 1
        row = (name, kind, self._level, begun, min(duration, passed), self._number, None, number, True)
        self._recording.add(row)


def span(name: str, kind: str = "step", *, level: str = USER) -> _OpenSpan:
    """Put a step of your own code on the timeline: `with zoolens.span("my step"): …`."""
    return _OpenSpan(name, kind, level)


@contextmanager
def recording(
    name: str = "application",
    *,
    store: Store | str | Path | None = None,
    keep: bool = True,
    traceparent: str | None = None,
    stack: StackRecord | None = None,
) -> Iterator[Recording]:
    """Record the spans of this process until the end, also where it ends by an exception, and store them as a run.

    `keep`: whether to store them; without it, `Recording.table` is all there is. `traceparent`: the trace to continue;
    default: the one in the variable TRACEPARENT, or a new one. `stack`: what runs; default: this Python.
    """
    current = Recording(name, inherited_context(traceparent))
    with _changing:
        if _active:
            raise ZoolensError(
                f"The spans of this process are being recorded already, as {_active[-1].name!r}.",
                hint="Use one recording, and `zoolens.span` inside it.",
            )
        _active.append(current)
    token = _current.set(current.root)
    try:
        yield current
    finally:
        current.end()
        _current.reset(token)
        with _changing:
            _active.remove(current)
        if keep:
            current.run = _store(current, store, stack)


def current_context(traceparent: str | None = None) -> TraceContext:
    """The trace that work done now belongs to: the one given, the recording's, that of TRACEPARENT, or a new one."""
    if traceparent is None and _active:
        return TraceContext(_active[-1].context.trace_id, _current.get() or _active[-1].root)
    return inherited_context(traceparent)


def traceparent() -> str | None:
    """What to give another process, so that its spans belong to the one that is open now; None: nothing is recorded."""
    return current_context().header if _active else None


def adopt(table: pa.Table) -> None:
    """Add the spans of a model that was traced just now to the recording, where there is one."""
    if _active:
        _active[-1].adopt(table)


def _store(current: Recording, target: Store | str | Path | None, stack: StackRecord | None) -> str:
    from zoolens.base.engine.machine import describe_machine
    from zoolens.base.store.records import DatasetRecord, ModelRecord, RunKind, StackRecord, Stage, fingerprint
    from zoolens.base.store.series import append_series
    from zoolens.base.store.store import borrowed_store

    about: dict[str, Any] = {"name": current.name}
    model = ModelRecord(fingerprint(["code", about]), f"code:{current.name}", "code", about)
    nothing = DatasetRecord(fingerprint(["trace:", "no data"]), "trace: code", 0)
    identity = {"python": platform.python_version(), "machine": describe_machine().cpu}
    stack = stack or StackRecord(fingerprint(["trace:code", identity]), "trace:code", identity, identity)
    with borrowed_store(target) as store:
        run = store.begin_attempt(model, nothing, stack, kind=RunKind.TRACE)
        append_series(store, run.id, SERIES, current.table())
        store.finish_stage(run.id, Stage.TRACE.of(USER))
    return run.id
