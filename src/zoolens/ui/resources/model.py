"""/model: one model: its manifest, claims beside measurements, what its layers cost, its namesakes, its runs."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from zoolens.audit.claims_chart import ClaimBeside, claims_beside, claims_chart
from zoolens.audit.naming import claimed_architecture, claiming
from zoolens.catalog.names import bare, last_part
from zoolens.comparisons.history import history_chart, run_history
from zoolens.errors import ZoolensError
from zoolens.graph.cost import cost
from zoolens.graph.cost_chart import cost_chart, layer_costs
from zoolens.graph.diff.picture import svg as diff_svg
from zoolens.graph.diff.report import diff
from zoolens.graph.model import Graph
from zoolens.graph.network_picture import network_svg
from zoolens.graph.structure import Structure, kept_structure
from zoolens.manifests.files import dump_manifest
from zoolens.present.charts import Chart, themed
from zoolens.present.figures import count, figure
from zoolens.present.text import without_folders
from zoolens.queries.wording import amount
from zoolens.ui.context import Context
from zoolens.ui.endpoint import Answer, Endpoint, File, NotFound, Query, Shown
from zoolens.ui.model_index import ModelRow
from zoolens.zoos.base import Entry

MOST_LINES: Final = 400  # of a manifest
MOST_NAMESAKES: Final = 40
SVG: Final = "image/svg+xml"
REPLACEMENT: Final = "CORR {} WITHIN 90% ON size <= 100% AND latency <= 100%"


class ModelQuery(Query):
    ref: str = Field(max_length=500, description="The model, as zoo:name@version.")


class HistoryQuery(Query):
    ref: str = Field(max_length=500, description="The model, as zoo:name@version.")
    metric: Literal["top1", "top5", "latency_p50", "latency_p95", "throughput", "file_size", "ece"] = "top1"


class PairQuery(Query):
    a: str = Field(max_length=500, description="A model, as zoo:name@version.")
    b: str = Field(max_length=500, description="Another one.")


class ClaimedRun(Answer):
    run: str
    stack: Shown
    dataset: Shown
    words: Shown
    judgement: Shown
    sentence: Shown


class ClaimItem(Answer):
    """A claim, and the runs that measured the same."""

    metric: Shown
    words: Shown
    dataset: Shown
    source: Shown
    measured: list[ClaimedRun]


class Namesake(Answer):
    """Another model that is called the same, or is of the same architecture by its name."""

    ref: Shown
    runs: int
    params_words: str
    listed: bool


class NetworkFacts(Answer):
    """`read`: whether the network is known here; otherwise `reason` says why not, and what to do."""

    read: bool
    reason: Shown
    macs_words: str
    parameters_words: str
    chart: dict[str, Any] | None


class NetworkDifference(Answer):
    """One thing that differs. `macs_words`: what it changes in multiply-accumulates from A to B."""

    cause: Shown
    text: Shown
    macs_words: str
    parameters_words: str


class NetworkComparison(Answer):
    """How two networks differ. `read`: both are known here; otherwise `reason` says what to do."""

    read: bool
    reason: Shown
    same: bool
    headline: Shown
    differences: list[NetworkDifference]


class ModelDetail(Answer):
    """`manifest`: its lines. `replacement`: a query for models that can take its place."""

    ref: Shown
    zoo: Shown
    name: Shown
    version: Shown
    listed: bool
    description: Shown
    task: Shown
    licence: Shown
    formats: list[Shown]
    weights: Shown
    params_words: str
    bytes_words: str
    runs: int
    runtimes: list[Shown]
    datasets: list[Shown]
    manifest: list[Shown]
    claims: list[ClaimItem]
    claims_chart: dict[str, Any] | None
    namesakes: list[Namesake]
    replacement: Shown


class HistoryAnswer(Answer):
    runs: int
    others: int
    title: Shown
    chart: dict[str, Any]


def model(context: Context, query: ModelQuery) -> ModelDetail:
    row, entry = _find(context, query.ref)
    claims = [] if entry is None else claims_beside(context.store, entry)
    return ModelDetail(
        ref=row.ref,
        zoo=row.zoo,
        name=row.name,
        version=row.version,
        listed=row.listed,
        description=row.description,
        task=row.task,
        licence=row.licence,
        formats=list(row.formats),
        weights=row.weights,
        params_words=count(row.params),
        bytes_words=figure(row.bytes, "B"),
        runs=row.runs,
        runtimes=list(row.runtimes),
        datasets=list(row.datasets),
        manifest=[] if entry is None else without_folders(dump_manifest(entry.manifest)).splitlines()[:MOST_LINES],
        claims=[_claim(claim) for claim in claims],
        claims_chart=_spec(claims_chart(claims)),
        namesakes=_namesakes(context, row),
        replacement=REPLACEMENT.format(_quoted(bare(row.ref))) if row.runs else "",
    )


def _find(context: Context, ref: str) -> tuple[ModelRow, Entry | None]:
    """The model of that name among those that zoos list and the store knows: no path is ever opened."""
    known = context.models.models()
    rows = [row for row in known.rows if ref in (row.ref, bare(row.ref))]
    if not rows:
        raise NotFound(f"There is no model named {ref!r} here.", hint="The page of models lists them.")
    row = rows[-1]
    entries = {entry.full_ref: entry for entry in known.listed.entries}
    return row, entries.get(row.ref)


def _spec(chart: Chart | None) -> dict[str, Any] | None:
    return None if chart is None else themed(chart)


def _quoted(name: str) -> str:
    return name if all(sign.isalnum() or sign in "_-.:/@+" for sign in name) else "'" + name.replace("'", "''") + "'"


def _claim(claim: ClaimBeside) -> ClaimItem:
    unit = "fraction" if claim.metric in ("top1", "top5") else claim.unit
    return ClaimItem(
        metric=claim.metric,
        words=amount(claim.value, unit),
        dataset=claim.dataset,
        source=claim.source,
        measured=[
            ClaimedRun(
                run=run.run,
                stack=run.stack,
                dataset=run.dataset,
                words=_measured_words(run.value, run.low, run.high, unit),
                judgement=run.judgement,
                sentence=run.sentence,
            )
            for run in claim.measured
        ],
    )


def _measured_words(value: float, low: float | None, high: float | None, unit: str) -> str:
    interval = "" if low is None or high is None else f" [{amount(low, unit)}, {amount(high, unit)}]"
    return f"{amount(value, unit)}{interval}"


def _namesakes(context: Context, row: ModelRow) -> list[Namesake]:
    """Models of the same name in other places, and of the architecture that the name claims."""
    rows, own, architecture = context.models.models().rows, last_part(row.name).lower(), claimed_architecture(row.name)
    kin = claiming((other.name for other in rows), architecture) if architecture else set()
    others = [
        other for other in rows if other.ref != row.ref and (last_part(other.name).lower() == own or other.name in kin)
    ]
    others.sort(key=lambda other: (last_part(other.name).lower() != own, -other.runs, other.ref))
    return [
        Namesake(ref=other.ref, runs=other.runs, params_words=count(other.params), listed=other.listed)
        for other in others[:MOST_NAMESAKES]
    ]


def network(context: Context, query: ModelQuery) -> NetworkFacts:
    row, structure = _structure(context, query.ref)
    if structure is None or structure.packed is None:
        command = f"zoolens cost {bare(row.ref)}"
        reason = (structure.error if structure else None) or f"The network was not read yet: `{command}` reads it."
        return NetworkFacts(read=False, reason=reason, macs_words="", parameters_words="", chart=None)
    costs = layer_costs(cost(structure.graph))
    return NetworkFacts(
        read=True,
        reason="",
        macs_words=count(costs.macs),
        parameters_words=count(costs.parameters),
        chart=themed(cost_chart(costs, bare(row.ref))),
    )


def network_picture(context: Context, query: ModelQuery) -> File:
    row, structure = _structure(context, query.ref)
    if structure is None or structure.packed is None:
        raise NotFound(
            f"The network of {row.ref} was not read yet.", hint=f"Read it with `zoolens cost {bare(row.ref)}`."
        )
    return File(network_svg(structure.graph, bare(row.ref)).encode(), SVG)


def _structure(context: Context, ref: str) -> tuple[ModelRow, Structure | None]:
    row, entry = _find(context, ref)
    try:
        return row, None if entry is None else kept_structure(entry, store=context.store)
    except ZoolensError:  # its file is not here, so that nobody knows of which content it is
        return row, None


def compare_networks(context: Context, query: PairQuery) -> NetworkComparison:
    names, graphs, unread = _pair(context, query)
    if unread:
        reason = f"Not read yet: `zoolens cost {' '.join(unread)}` reads what is missing."
        return NetworkComparison(read=False, reason=reason, same=False, headline="", differences=[])
    found = diff(*graphs, names=names)
    return NetworkComparison(
        read=True,
        reason="",
        same=found.same,
        headline=found.headline,
        differences=[
            NetworkDifference(
                cause=each.cause,
                text=each.text,
                macs_words=f"{each.macs:+,}" if each.macs else "",
                parameters_words=f"{each.parameters:+,}" if each.parameters else "",
            )
            for each in found.differences
        ],
    )


def comparison_picture(context: Context, query: PairQuery) -> File:
    names, graphs, unread = _pair(context, query)
    if unread:
        raise NotFound("One of the networks was not read yet.", hint=f"Read it with `zoolens cost {unread[0]}`.")
    return File(diff_svg(diff(*graphs, names=names), legend=False).encode(), SVG)


def _pair(context: Context, query: PairQuery) -> tuple[tuple[str, str], list[Graph], list[str]]:
    """Both names, the graphs that are known, and the names of those that are not."""
    pairs = [_structure(context, ref) for ref in (query.a, query.b)]
    first, second = (bare(row.ref) for row, _ in pairs)
    known = [structure.graph for _, structure in pairs if structure is not None and structure.packed is not None]
    unread = [bare(row.ref) for row, structure in pairs if structure is None or structure.packed is None]
    return (first, second), known, unread


def history(context: Context, query: HistoryQuery) -> HistoryAnswer:
    row, _ = _find(context, query.ref)
    course = run_history(context.store, bare(row.ref), query.metric)
    chart = history_chart(course)
    return HistoryAnswer(runs=len(course.points), others=course.others, title=chart.title, chart=themed(chart))


ENDPOINTS: Final = (
    Endpoint("/model/{ref:path}", "One model: manifest, claims, namesakes", ModelQuery, ModelDetail, model),
    Endpoint("/network/{ref:path}", "What the layers of a model cost", ModelQuery, NetworkFacts, network),
    Endpoint("/network-picture/{ref:path}", "A model's network as a picture", ModelQuery, File, network_picture),
    Endpoint("/networks", "How two networks differ", PairQuery, NetworkComparison, compare_networks),
    Endpoint("/networks/picture", "Two networks side by side", PairQuery, File, comparison_picture),
    Endpoint("/history/{ref:path}", "One figure of a model's runs over time", HistoryQuery, HistoryAnswer, history),
)
