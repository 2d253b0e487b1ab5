"""/model: one model: its manifest, claims beside measurements, its namesakes, its runs."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from zoolens.base.present.charts import Spec, drawn_spec, themed
from zoolens.base.present.figures import count, figure
from zoolens.base.present.text import without_folders
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Query, Shown
from zoolens.faces.ui.known_datasets import named_dataset
from zoolens.faces.ui.model_index import UNKNOWN, ModelRow
from zoolens.findings.audit.claims_chart import ClaimBeside, claims_beside, claims_chart
from zoolens.findings.audit.naming import claimed_architecture, claiming
from zoolens.findings.comparisons.history import history_chart, run_history
from zoolens.findings.measure.run_data import ACCURACY, main_metric
from zoolens.findings.queries.answers.wording import amount, amount_with_interval
from zoolens.inventory.catalog.names import bare, last_part
from zoolens.inventory.manifests.files import dump_manifest
from zoolens.inventory.tasks.task import DEFAULT_TASK
from zoolens.inventory.zoos.zoo import Entry

MOST_LINES: Final = 400  # of a manifest
MOST_NAMESAKES: Final = 40
_NO_LARGER: Final = "ON size <= 100% AND latency <= 100%"


class ModelQuery(Query):
    ref: str = Field(max_length=500, description="The model, as zoo:name@version.")


class HistoryQuery(Query):
    ref: str = Field(max_length=500, description="The model, as zoo:name@version.")
    data: str = Field("", max_length=200, description="The name of a dataset; empty: that with most of its runs.")
    metric: Literal["", "top1", "top5", "latency_p50", "latency_p95", "throughput", "file_size", "ece"] = Field(
        "", description="Empty: the one that judges its newest run."
    )


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


class ModelDetail(Answer):
    """Everything that is known about one model."""

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
    """The lines of the manifest."""
    claims: list[ClaimItem]
    claims_chart: Spec | None
    namesakes: list[Namesake]
    replacement: Shown
    """A query for models that can take its place."""


class HistoryAnswer(Answer):
    runs: int
    others: int
    title: Shown
    chart: Spec


def model(context: Context, query: ModelQuery) -> ModelDetail:
    row, entry = find_model(context, query.ref)
    claims = [] if entry is None else claims_beside(context.store, entry)
    return ModelDetail.of(
        row,
        params_words=count(row.params),
        bytes_words=figure(row.bytes, "B"),
        manifest=[] if entry is None else without_folders(dump_manifest(entry.manifest)).splitlines()[:MOST_LINES],
        claims=[_claim(claim) for claim in claims],
        claims_chart=drawn_spec(claims_chart(claims)),
        namesakes=_namesakes(context, row),
        replacement=_replacement(row) if row.runs else "",
    )


def find_model(context: Context, ref: str) -> tuple[ModelRow, Entry | None]:
    """The model of that name among those that zoos list and the store knows: no path is ever opened."""
    known = context.models.models()
    rows = [row for row in known.rows if ref in (row.ref, bare(row.ref))]
    if not rows:
        raise NotFound(f"There is no model named {ref!r} here.", hint="The page of models lists them.")
    row = rows[-1]
    entries = {entry.full_ref: entry for entry in known.listed.entries}
    return row, entries.get(row.ref)


def _replacement(row: ModelRow) -> str:
    name = _quoted(bare(row.ref))
    if row.task in (UNKNOWN, DEFAULT_TASK):
        return f"CORR {name} WITHIN 90% {_NO_LARGER}"
    # Answers such as boxes agree in part: two good detectors seldom agree by more than 60 %.
    return f"TASK {row.task} CORR {name} WITHIN 50% {_NO_LARGER}"


def _quoted(name: str) -> str:
    if all(sign.isalnum() or sign in "_-.:/@+" for sign in name):
        return name
    doubled = name.replace("'", "''")
    return f"'{doubled}'"


def _claim(claim: ClaimBeside) -> ClaimItem:
    unit = "fraction" if claim.metric in ("top1", "top5") else claim.unit
    measured = [
        ClaimedRun.of(run, words=amount_with_interval(run.value, run.low, run.high, unit)) for run in claim.measured
    ]
    return ClaimItem.of(claim, words=amount(claim.value, unit), measured=measured)


def _namesakes(context: Context, row: ModelRow) -> list[Namesake]:
    """Models of the same name in other places, and of the architecture that the name claims."""
    rows = context.models.models().rows
    own = last_part(row.name).lower()
    architecture = claimed_architecture(row.name)
    kin = claiming((other.name for other in rows), architecture) if architecture else set()

    def has_name(other: ModelRow) -> bool:
        return last_part(other.name).lower() == own

    others = [other for other in rows if other.ref != row.ref and (has_name(other) or other.name in kin)]
    others.sort(key=lambda other: (not has_name(other), -other.runs, other.ref))
    return [Namesake.of(other, params_words=count(other.params)) for other in others[:MOST_NAMESAKES]]


def history(context: Context, query: HistoryQuery) -> HistoryAnswer:
    row, _ = find_model(context, query.ref)
    chosen = named_dataset(context, query.data) if query.data else None
    newest = () if query.metric else context.store.runs(model=bare(row.ref), dataset=query.data or None, limit=1)
    metric: str = query.metric or (main_metric(newest[0]) if newest else ACCURACY)
    course = run_history(
        context.store, bare(row.ref), metric, dataset=query.data if chosen is None else chosen.fingerprint
    )
    chart = history_chart(course)
    return HistoryAnswer(runs=len(course.points), others=course.others, title=chart.title, chart=themed(chart))


ENDPOINTS: Final = (
    Endpoint("/model/{ref:path}", "One model: manifest, claims, namesakes", model),
    Endpoint("/history/{ref:path}", "One figure of a model's runs over time", history),
)
