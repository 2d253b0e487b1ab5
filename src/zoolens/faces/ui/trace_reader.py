"""Traces for pages: what was read last is kept, since a trace of a large model has a hundred thousand spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from zoolens.base.engine.executors.executor import Job
from zoolens.base.present.charts import Spec, themed
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.records import Run
from zoolens.base.store.series import read_series, series_names
from zoolens.base.store.store import Store, open_store
from zoolens.faces.ui.side_process import computed
from zoolens.faces.ui.word_tables import word_table
from zoolens.findings.tracing.alignment import alignment_as_data, alignment_from_data, needs_graphs
from zoolens.findings.tracing.comparison import TraceComparison, compare_traces
from zoolens.findings.tracing.roofline.attained import check_machine, peak_threads, roofline, sentences
from zoolens.findings.tracing.roofline.chart import roofline_as_data, roofline_chart, roofline_table
from zoolens.findings.tracing.roofline.peaks import stored_peaks
from zoolens.findings.tracing.runner import series_name
from zoolens.findings.tracing.spans import USER, Level
from zoolens.findings.tracing.stored import Trace, load_trace, spans_of
from zoolens.findings.tracing.stored_recording import StoredRecording, is_recording, load_recording, typical_request
from zoolens.findings.tracing.timeline import Timeline, timeline
from zoolens.findings.tracing.trace_layers import Timing, call_timing

KEPT: Final = 64

Made = TypeVar("Made")


class TraceReader:
    """Threads share it. A trace to which a level was added since is read again."""

    def __init__(self, store: Store, target: str | None = None) -> None:
        """`target`: how the store is named, for processes that open it themselves."""
        self._store, self._target = store, target
        self._recent: RecentValues[tuple[Any, ...], Any] = RecentValues(KEPT)

    def call(self, run: Run) -> Timing | None:
        """The time of one prediction; None where the model was not timed."""
        name = series_name(Level.MODEL)

        def read() -> Timing | None:
            known = name in series_names(self._store, run.id)
            return call_timing(read_series(self._store, run.id, name), Level.MODEL) if known else None

        return self._keep(("call", *self._stamp(run)), read)

    def trace(self, run: Run) -> Trace:
        return self._keep(("trace", *self._stamp(run)), lambda: load_trace(run, store=self._store))

    def recording(self, run: Run) -> StoredRecording:
        return self._keep(("recording", *self._stamp(run)), lambda: load_recording(run, store=self._store))

    def timelines(self, run: Run) -> dict[str, Timeline]:
        """One call of each level of which spans are known, by the level."""

        def read() -> dict[str, Timeline]:
            if is_recording(run):
                drawn = timeline(typical_request(self.recording(run)), USER)
                return {} if drawn is None else {USER: drawn}
            spans = spans_of(self._store, run)
            levels = [level for level in (Level.LAYER, Level.LIBRARY, Level.PIPELINE) if level in spans]
            made = {str(level): timeline(spans[level], level) for level in levels}
            return {level: drawn for level, drawn in made.items() if drawn is not None}

        return self._keep(("timelines", *self._stamp(run)), read)

    def comparison(self, a: Run, b: Run) -> TraceComparison:
        """Two traces side by side. Where their files differ, the graphs of both are read in a process of their own."""

        def read() -> TraceComparison:
            left, right = self.trace(a), self.trace(b)
            if not (left.layers and right.layers and needs_graphs(left, right)):
                return compare_traces(left, right, store=self._store)
            job = {"store": self._target, "runs": [a.id, b.id]}
            data = computed(f"{__name__}:alignment_data", job, "aligning two traces")
            return compare_traces(left, right, store=self._store, aligned=alignment_from_data(left, right, data))

        return self._keep(("comparison", *self._stamp(a), *self._stamp(b)), read)

    def roofline(self, run: Run) -> dict[str, Any] | None:
        """What `roofline_data` gives; None where the peaks of this machine are not measured yet."""
        trace = self.trace(run)
        check_machine(trace)
        peaks = stored_peaks(self._store, threads=peak_threads(trace), device=trace.device)
        if peaks is None:
            return None
        job = {"store": self._target, "run": run.id}
        return self._keep(
            ("roofline", *self._stamp(run), peaks.run),
            lambda: dict(computed(f"{__name__}:roofline_data", job, "reading a roofline")),
        )

    def _stamp(self, run: Run) -> tuple[Any, ...]:
        stages = self._store.stages(run.id)
        return run.id, *sorted((name, state.updated) for name, state in stages.items())

    def _keep(self, key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
        made: Made = self._recent.kept(key, make)
        return made


# --- in a process of their own


def alignment_data(job: Job) -> dict[str, Any]:
    with open_store(job["store"], must_exist=True) as opened:
        a, b = (load_trace(run, store=opened) for run in job["runs"])
        return alignment_as_data(a, b)


def roofline_data(job: Job) -> dict[str, Any]:
    """A trace against the peaks that are stored: as data, as a chart, in sentences and as a table."""
    with open_store(job["store"], must_exist=True) as opened:
        trace = load_trace(job["run"], store=opened)
        peaks = stored_peaks(opened, threads=peak_threads(trace), device=trace.device)
        held = roofline(trace, store=opened, peaks=peaks)
    chart: Spec = themed(roofline_chart(held))
    return {
        "data": roofline_as_data(held),
        "chart": chart,
        "sentences": list(sentences(held)),
        "table": word_table(roofline_table(held, None)).model_dump(),
    }
