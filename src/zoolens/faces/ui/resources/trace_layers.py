"""/traces/{run}/layers and /traces/{run}/roofline: what each layer takes, and what the machine could do at its best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import Spec
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Paged, RequestError, RowPage, Shown
from zoolens.faces.ui.page_figures import Figure
from zoolens.faces.ui.trace_items import LONGEST, NAMED, TraceQuery, timing_figure
from zoolens.faces.ui.word_tables import WordTable
from zoolens.findings.tracing.report import merged_layers, share_words
from zoolens.findings.tracing.roofline.attained import peak_threads
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import find_trace
from zoolens.findings.tracing.stored_recording import is_recording
from zoolens.findings.tracing.trace_layers import TracedLayer


class LayersQuery(Paged):
    run: str = Field(max_length=LONGEST, description=NAMED)
    order: Literal["time", "call"] = Field("time", description="The hottest first, or in the order of computing.")


class LayerItem(Answer):
    """One layer of a trace."""

    number: int
    depth: int
    """How many layers enclose it."""
    name: Shown
    kind: Shown
    time: Figure
    share: float
    """The share of the time of all outermost layers together."""
    share_words: Shown
    kernel: Shown
    precision: Shown
    output: Shown


class LayerPage(RowPage[LayerItem]):
    pass


def trace_layers(context: Context, query: LayersQuery) -> LayerPage:
    run = find_trace(context.store, query.run)
    if is_recording(run):
        raise NotFound("A recording has steps and no layers.")
    layers = merged_layers(context.traces.trace(run))
    total = sum(layer.timing.median for layer in layers) or 1.0
    rows = list(flat_layers(layers, hottest=query.order == "time"))
    return LayerPage(
        total=len(rows),
        offset=query.offset,
        rows=[
            _layer_item(query.offset + place, depth, layer, total)
            for place, (depth, layer) in enumerate(rows[query.page])
        ],
    )


def flat_layers(
    layers: Sequence[TracedLayer], depth: int = 0, *, hottest: bool = False
) -> Iterator[tuple[int, TracedLayer]]:
    ordered = sorted(layers, key=lambda layer: -layer.timing.median) if hottest else layers
    for layer in ordered:
        yield depth, layer
        yield from flat_layers(layer.children, depth + 1, hottest=hottest)


def _layer_item(number: int, depth: int, layer: TracedLayer, total: float) -> LayerItem:
    share = layer.timing.median / total
    return LayerItem.of(
        layer,
        number=number,
        depth=depth,
        time=timing_figure(layer.timing, "time"),
        share=share,
        share_words=share_words(share),
        output=", ".join("×".join(map(str, shape)) for shape in layer.shapes[:2]),
    )


# --- against the peaks of the machine


class TraceRoofline(Answer):
    """The layers of a trace against the peaks of the machine."""

    reason: Shown
    """Why there is none; empty where there is one."""
    unmeasured: bool
    """Only the peaks of this machine are missing, which a job of the kind "peaks" measures with `threads` and
    `device`."""
    threads: int | None
    device: Shown
    notes: list[Shown]
    chart: Spec | None
    table: WordTable | None
    data: dict[str, Any] | None
    """What the command prints as JSON."""


def trace_roofline(context: Context, query: TraceQuery) -> TraceRoofline:
    run = find_trace(context.store, query.run)
    if is_recording(run):
        raise NotFound("A recording has no roofline: its models have traces of their own.")
    trace = context.traces.trace(run)
    about: dict[str, Any] = {"threads": peak_threads(trace), "device": trace.device}
    nothing: dict[str, Any] = {"notes": [], "chart": None, "table": None, "data": None}
    if trace.layer is None:
        reason = trace.missing.get(Level.LAYER) or "The layers of the model were not traced."
        return TraceRoofline(reason=reason, unmeasured=False, **about, **nothing)
    try:
        held = context.traces.roofline(run)
    except RequestError:
        raise
    except ZoolensError as error:
        return TraceRoofline(reason=str(error), unmeasured=False, **about, **nothing)
    if held is None:
        reason = "This machine's peak performance was not measured yet."
        return TraceRoofline(reason=reason, unmeasured=True, **about, **nothing)
    return TraceRoofline(
        reason="",
        unmeasured=False,
        **about,
        notes=held["sentences"],
        chart=held["chart"],
        table=WordTable.model_validate(held["table"]),
        data=held["data"],
    )


ENDPOINTS: Final = (
    Endpoint("/traces/{run}/layers", "The layers of a trace", trace_layers),
    Endpoint("/traces/{run}/roofline", "The layers against the peaks of the machine", trace_roofline),
)
