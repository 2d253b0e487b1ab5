"""/search: one search over everything that has a page, such as models, runs, datasets, studies, reports and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from pydantic import Field

from zoolens.base.present.figures import stack_label
from zoolens.base.store.browsing import RunsWanted, page_of_runs
from zoolens.base.store.composed_reports import report_heads
from zoolens.base.store.records import Run, RunKind
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.jobs.folder import JobState
from zoolens.faces.ui.known_datasets import known_datasets
from zoolens.faces.ui.resources.models import ModelsQuery, places_found
from zoolens.training.crosstrain.study.stored_studies import study_names

LONGEST: Final = 200
_MODELS: Final = 8
_OTHERS: Final = 4  # of each other kind
_LOOKED_AT: Final = 200  # jobs
_RESULTS: Final = {"audit": "audit", "diverge": "diverge"}  # kinds of jobs whose result has a page

Kind = Literal["model", "run", "dataset", "study", "trace", "service", "report", "job"]


class SearchQuery(Query):
    q: str = Field("", max_length=LONGEST, description="Words, all of which a name must hold.")


class Hit(Answer):
    """Something that has a page, whose address is `page`, `rest` and `data`."""

    kind: Kind
    title: Shown
    detail: Shown
    page: str
    rest: Shown
    data: Shown
    """The dataset that is chosen with it; empty: as it is."""


class Hits(Answer):
    rows: list[Hit]


def search(context: Context, query: SearchQuery) -> Hits:
    words = query.q.casefold().split()
    if not words:
        return Hits(rows=[])
    sources: tuple[Callable[[Context, list[str], str], Iterator[Hit]], ...] = (
        _models, _runs, _datasets, _reports, _studies, _services, _traces, _jobs,
    )  # fmt: skip
    return Hits(rows=[hit for source in sources for hit in source(context, words, query.q)])


def _hit(kind: Kind, title: str, detail: str, page: str, rest: str = "", data: str = "") -> Hit:
    return Hit(kind=kind, title=title, detail=detail, page=page, rest=rest, data=data)


def _has(words: Sequence[str], text: str) -> bool:
    return all(word in text.casefold() for word in words)


def _models(context: Context, _: list[str], q: str) -> Iterator[Hit]:
    known = context.models.models()
    # Those that were run here come first.
    for place in places_found(known, ModelsQuery.model_validate({"q": q, "sort": "-latest"}))[:_MODELS].tolist():
        row = known.rows[place]
        runs = "not run here" if not row.runs else "1 run" if row.runs == 1 else f"{row.runs:,} runs"
        yield _hit("model", row.ref.partition("@")[0], f"{row.task or 'unknown task'}, {runs}", "model", row.ref)


def _runs(context: Context, _: list[str], q: str) -> Iterator[Hit]:
    for run in _found(context, q, RunKind.EVALUATION):
        title = f"{run.ref.partition('@')[0]} in {stack_label(run)}"
        detail = f"{run.id[:8]} on {run.dataset.name}, {run.created:%Y-%m-%d}"
        yield _hit("run", title, detail, "run", run.id)


def _found(context: Context, q: str, kind: RunKind) -> list[Run]:
    page = page_of_runs(context.runs, RunsWanted(kinds=(kind,), text=q), limit=_OTHERS)
    return context.store.runs_of(page.ids, stages=False)


def _datasets(context: Context, words: list[str], _: str) -> Iterator[Hit]:
    fitting = [known for known in known_datasets(context) if _has(words, f"dataset {known.name}")]
    for known in fitting[:_OTHERS]:
        detail = f"{known.inputs:,} inputs, {known.models:,} models"
        yield _hit("dataset", known.name, detail, "home", data=known.name)


def _reports(context: Context, words: list[str], _: str) -> Iterator[Hit]:
    fitting = [known for known in report_heads(context.store) if _has(words, f"report {known.title}")]
    for known in fitting[:_OTHERS]:
        yield _hit("report", known.title, f"{known.changed:%Y-%m-%d}", "reports", known.id)


def _studies(context: Context, words: list[str], _: str) -> Iterator[Hit]:
    for name in [name for name in study_names(context.store) if _has(words, name)][:_OTHERS]:
        yield _hit("study", name, "crosstrain", "studies", name)


def _services(context: Context, _: list[str], q: str) -> Iterator[Hit]:
    for run in _found(context, q, RunKind.SERVING):
        yield _hit("service", run.ref.partition(":")[2] or run.ref, f"{run.created:%Y-%m-%d %H:%M}", "services", run.id)


def _traces(context: Context, _: list[str], q: str) -> Iterator[Hit]:
    for run in _found(context, q, RunKind.TRACE):
        detail = f"{run.id[:8]} in {stack_label(run)}, {run.created:%Y-%m-%d}"
        yield _hit("trace", run.ref.partition("@")[0], detail, "traces", run.id)


def _jobs(context: Context, words: list[str], _: str) -> Iterator[Hit]:
    found = 0
    for folder in context.jobs.jobs()[:_LOOKED_AT]:
        asked = folder.asked()
        title, kind = str(asked.get("title", "")), str(asked.get("kind", ""))
        if not _has(words, title) or found >= _OTHERS:
            continue
        found += 1
        state = folder.state
        shown = _RESULTS.get(kind) if state is JobState.DONE else None
        yield _hit("job", title, str(state), shown or "jobs", folder.id if shown else "")


ENDPOINTS: Final = (Endpoint("/search", "Everything whose name holds some words", search),)
