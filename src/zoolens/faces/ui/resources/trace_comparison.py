"""/traces/{run}/compared/{other}: which layers make the difference between two traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import Field

from zoolens.base.present.charts import Spec, themed
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, RequestError, Shown
from zoolens.faces.ui.resources.trace_timeline import WindowQuery, fluid
from zoolens.faces.ui.trace_items import LONGEST, TraceItem, trace_item
from zoolens.faces.ui.word_tables import WordTable, word_table
from zoolens.findings.tracing.comparison import TraceComparison, comparison_as_data, comparison_table, sentences
from zoolens.findings.tracing.comparison_chart import aligned_chart, difference_of, differences_chart
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import find_trace
from zoolens.findings.tracing.stored_recording import is_recording
from zoolens.findings.tracing.timeline import Timeline


class ComparedQuery(WindowQuery):
    run: str = Field(max_length=LONGEST, description="The first trace (A), as for /traces/{run}.")
    other: str = Field(max_length=LONGEST, description="The second one (B).")
    picked: int | None = Field(None, ge=0, description="The place of a difference, whose layers stand out.")
    band: int = Field(0, ge=0, le=1, description="Of `span`: 0 is a span of A, 1 of B.")
    span: int | None = Field(None, ge=0, description="Pick the difference that this span of a timeline is part of.")


class TraceDifferences(Answer):
    """Two traces compared layer by layer."""

    a: TraceItem
    b: TraceItem
    notes: list[Shown]
    calls: Spec | None
    differences: Spec
    table: WordTable
    """`table` has the differences, largest first; a row's place is what `picked` takes, and `picked` is the one that
    stands out in the chart of both calls."""
    picked: int | None
    data: dict[str, Any]
    """What `zoolens trace compare --json` prints."""


def compared_traces(context: Context, query: ComparedQuery) -> TraceDifferences:
    a, b = (find_trace(context.store, name) for name in (query.run, query.other))
    if is_recording(a) or is_recording(b):
        raise RequestError("A recording cannot be compared by layers: compare traces of models.")
    comparison = context.traces.comparison(a, b)
    drawn = [context.traces.timelines(run).get(str(Level.LAYER)) for run in (a, b)]
    picked = _picked(query, comparison, drawn)
    calls = None
    if drawn[0] is not None and drawn[1] is not None:
        calls = fluid(aligned_chart(comparison, drawn[0], drawn[1], picked, query.window))
    return TraceDifferences(
        a=trace_item(context, a),
        b=trace_item(context, b),
        notes=list(sentences(comparison)),
        calls=calls,
        differences=themed(differences_chart(comparison)),
        table=word_table(comparison_table(comparison, None)),
        picked=picked,
        data=comparison_as_data(comparison),
    )


def _picked(query: ComparedQuery, comparison: TraceComparison, drawn: Sequence[Timeline | None]) -> int | None:
    if query.picked is not None:
        if query.picked >= len(comparison.differences):
            raise NotFound(f"There is no difference {query.picked}.")
        return query.picked
    side = drawn[query.band]
    if query.span is None or side is None:
        return None
    return difference_of(comparison, "ab"[query.band], side, query.span)


ENDPOINTS: Final = (
    Endpoint("/traces/{run}/compared/{other}", "Which layers make the difference between two traces", compared_traces),
)
