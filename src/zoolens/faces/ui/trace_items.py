"""A trace as every list and page of traces shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import Field

from zoolens.base.store.records import Run
from zoolens.base.store.run_columns import RunState
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Query, Shown
from zoolens.faces.ui.page_figures import Figure, figure_of
from zoolens.faces.ui.resources.runs import FailedStage
from zoolens.findings.tracing.runner import BATCH, INPUTS
from zoolens.findings.tracing.stored import Trace
from zoolens.findings.tracing.stored_recording import is_recording
from zoolens.findings.tracing.trace_layers import Timing

LONGEST: Final = 200  # characters of a name or an id
NAMED: Final = "The id of a trace, MODEL@RUNTIME for the newest one, or 'last'."
_MOST_FAILURES: Final = 10


class TraceQuery(Query):
    run: str = Field(max_length=LONGEST, description=NAMED)


class TraceItem(Answer):
    """One trace, or the recording of an application."""

    id: str
    created: datetime
    recording: bool
    state: RunState
    model: Shown
    runtime: Shown
    stack: Shown
    batch: int
    inputs: Shown
    attempt: int
    predict: Figure | None
    """The time of one prediction, with nothing observed below it."""
    failed: list[FailedStage]
    """Levels that could not be traced."""


def trace_item(context: Context, run: Run) -> TraceItem:
    failed = [FailedStage(stage=stage.partition(":")[2] or stage, error=error) for stage, error in run.failures.items()]
    recording = is_recording(run)
    call = None if recording else context.traces.call(run)
    about = Trace(run, int(run.resolved.get(BATCH, 1)), str(run.resolved.get(INPUTS, "")))
    return TraceItem.of(
        run,
        recording=recording,
        state=RunState.FAILED if failed else RunState.MEASURED if run.stages else RunState.BEGUN,
        model=run.ref,
        runtime=about.runtime,
        stack="" if recording else about.stack,
        batch=about.batch,
        inputs=about.inputs,
        attempt=run.key.attempt,
        predict=timing_figure(call, "predict") if call is not None else None,
        failed=failed[:_MOST_FAILURES],
    )


def timing_figure(timing: Timing, name: str) -> Figure:
    """A median of repetitions as a figure, marked where too few of them were undisturbed."""
    return figure_of(timing.observation(name))
