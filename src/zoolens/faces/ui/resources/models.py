"""/models: the models of all zoos and of the store, searched, counted by facets, sorted and in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zoolens.base.present.figures import count, figure
from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import batch_scope
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, Query, Shown
from zoolens.faces.ui.facets import Facet, FacetColumn, FacetValue, facet_column, faceted
from zoolens.faces.ui.model_index import ModelRow, Models
from zoolens.faces.ui.page_figures import Figure, figure_named, judging_figure, listed_figures

Sort = Literal[
    "best", "ref", "-ref", "runs", "-runs", "params", "-params", "bytes", "-bytes", "claimed_top1", "-claimed_top1",
    "latest", "-latest",
]  # fmt: skip
_SEARCHES_KEPT: Final = 32  # for the next page of the same search
_LONGEST_SEARCH: Final = 200


class ModelsQuery(Paged):
    """Several values of one facet mean any of them; several facets, and several words of a search, all of them."""

    q: str = Field("", max_length=_LONGEST_SEARCH, description="Words that the name, description, … must all hold.")
    zoo: list[str] = Field([], description="Names of zoos.")
    task: list[str] = Field([], description="Tasks; an empty text means unknown.")
    format: list[str] = Field([], description="Formats of the files.")
    licence: list[str] = Field([], description="Licences, in any case; an empty text means unknown.")
    size: list[str] = Field([], description="Numbers of parameters: <1M, 1M-10M, 10M-100M, >100M, or empty.")
    measured: list[Literal["yes", "no"]] = Field([], description="Whether the store has an evaluation.")
    data: str = Field("", max_length=_LONGEST_SEARCH, description="Count and show the runs on this dataset alone.")
    sort: Sort = Field(
        "best", description="The column to sort by, the largest first with a minus sign; best: as they fit the search."
    )


class LatestRun(Answer):
    """The newest evaluation of a model, and what it found."""

    id: str
    created: datetime
    dataset: Shown
    runtime: Shown
    judged: Figure | None
    """The figure that says how good its answers are: top-1 of classes, AP of boxes."""
    latency_p50: Figure | None
    """The median latency at batch size 1, never of larger batches."""


class ModelItem(Answer):
    """One model."""

    ref: Shown
    zoo: Shown
    name: Shown
    version: Shown
    listed: bool
    """Whether a zoo of this machine has the model; otherwise only the store knows it."""
    task: Shown
    formats: list[Shown]
    licence: Shown
    weights: str
    params: float | None
    """`params`, `bytes` and `claimed_top1` are what its source says."""
    params_words: str
    bytes: int | None
    bytes_words: str
    claimed_top1: float | None
    claimed_top1_words: str
    description: Shown
    runs: int
    runtimes: list[Shown]
    datasets: list[Shown]
    activity: list[int]
    """Runs in equal stretches of time from `since` until `until`."""
    latest: LatestRun | None


class ModelPage(Answer):
    """`total` models fit, of `all` there are."""

    total: int
    all: int
    offset: int
    rows: list[ModelItem]
    facets: list[Facet]
    since: datetime | None
    until: datetime | None
    complete: bool
    """Whether every zoo was listed; otherwise ask again."""
    notes: list[Shown]
    """What could not be listed, and why."""


_FACETS: Final[dict[str, Callable[[ModelRow], Sequence[str]]]] = {
    "zoo": lambda row: (row.zoo,),
    "task": lambda row: (row.task,),
    "format": lambda row: row.formats or ("",),
    "licence": lambda row: (row.licence,),
    "size": lambda row: (row.size,),
    "measured": lambda row: ("yes" if row.runs else "no",),
}
_SORTS: Final[dict[str, Callable[[ModelRow], Any]]] = {
    "runs": lambda row: row.runs,
    "params": lambda row: row.params,
    "bytes": lambda row: row.bytes,
    "claimed_top1": lambda row: row.claimed_top1,
    "latest": lambda row: row.latest.last_time.timestamp() if row.latest else None,
}


def models(context: Context, query: ModelsQuery) -> ModelPage:
    known = context.models.models((query.data,) if query.data else ())
    fitting, facets = _search(known, _key(query))
    places = _sorted(known, fitting, query.sort)[query.page]
    rows = [known.rows[place] for place in places.tolist()]
    latest = context.store.runs_of([row.latest.last_run for row in rows if row.latest], stages=False)
    figures = listed_figures(context.store, latest)
    judged = {run.id: judging_figure(run, figures[run.id]) for run in latest}
    return ModelPage(
        total=len(fitting),
        all=len(known.rows),
        offset=query.offset,
        rows=[_item(row, figures, judged) for row in rows],
        facets=facets,
        since=known.activity.since,
        until=known.activity.until,
        complete=known.listed.complete,
        notes=list(known.listed.notes),
    )


def places_found(known: Models, query: ModelsQuery) -> NDArray[np.int64]:
    """The places of the rows that a question finds, in its order."""
    return _sorted(known, _search(known, _key(query))[0], query.sort)


Places = NDArray[np.int64]
Chosen = tuple[tuple[str, frozenset[str]], ...]
Found = tuple[Places, list[Facet]]


def _key(query: ModelsQuery) -> tuple[tuple[str, ...], Chosen]:
    words = tuple(query.q.lower().split())
    asked = {name: frozenset(getattr(query, name)) for name in _FACETS}
    chosen = tuple((name, values) for name, values in asked.items() if values)
    return words, chosen


def _search(known: Models, key: tuple[tuple[str, ...], Chosen]) -> Found:
    """The places of the rows that fit, and the counts of facets; kept as long as the models are the same."""
    searches = known.derived("searches", dict)
    if key not in searches:
        while len(searches) >= _SEARCHES_KEPT:
            searches.pop(next(iter(searches)), None)
        searches[key] = _found(known, *key)
    result: Found = searches[key]
    return result


def _found(known: Models, words: tuple[str, ...], chosen: Chosen) -> Found:
    columns = known.derived("facets", lambda: _columns(known))
    spellings = known.derived("licences", lambda: _spellings(known))
    wanted, spelt = dict(chosen), {}
    for value in wanted.get("licence", ()):
        spelt[spellings.get(value.casefold(), value)] = value
    if spelt:
        wanted["licence"] = frozenset(spelt)
    texts = known.derived("texts", lambda: [row.text for row in known.rows])
    fitting = np.zeros(len(known.rows), np.bool_)
    fitting[_having(words, texts, np.arange(len(texts)))] = True
    mask, facets = faceted(fitting, columns, wanted)
    facets = [_as_asked(facet, spelt) if facet.name == "licence" else facet for facet in facets]
    places = np.flatnonzero(mask)
    if words:  # those whose names have the words come first
        names = known.derived("names", lambda: [row.ref.lower() for row in known.rows])
        named = np.zeros(len(known.rows), np.bool_)
        named[_having(words, names, places)] = True
        places = places[np.argsort(~named[places], kind="stable")]
    return places, facets


def _having(words: Sequence[str], texts: Sequence[str], places: Places) -> Places:
    """Returns those of these places whose texts have all words. Long words come first, since they leave fewest
    texts."""
    for word in sorted(words, key=len, reverse=True):
        flags = [word in texts[place] for place in places.tolist()]
        places = places[np.array(flags, np.bool_)]
    return places


def _columns(known: Models) -> dict[str, FacetColumn]:
    columns = {name: facet_column(map(of, known.rows)) for name, of in _FACETS.items() if name != "licence"}
    spellings = known.derived("licences", lambda: _spellings(known))
    licences = facet_column((spellings[row.licence.casefold()],) for row in known.rows)
    return {name: columns.get(name, licences) for name in _FACETS}


def _spellings(known: Models) -> dict[str, str]:
    """The most frequent spelling of each licence, by the licence in small letters: zoos write Apache-2.0 and apache-2.0
    of the same one."""
    counts = Counter(row.licence for row in known.rows)
    ordered = sorted(counts, key=lambda licence: (counts[licence], licence))
    return {licence.casefold(): licence for licence in ordered}


def _as_asked(facet: Facet, spelt: Mapping[str, str]) -> Facet:
    """A facet whose chosen values are spelt as they were asked for, so that the page sees that they are chosen."""
    values = [FacetValue(value=spelt.get(entry.value, entry.value), count=entry.count) for entry in facet.values]
    return Facet(name=facet.name, values=values)


def _sorted(known: Models, places: Places, sort: Sort) -> Places:
    """Rows without a value come last, whichever way."""
    if sort == "best":
        return places
    if sort in ("ref", "-ref"):
        ordered = np.sort(places)  # rows are in the order of their names
        return ordered if sort == "ref" else ordered[::-1]
    name = sort.removeprefix("-")
    column = known.derived(name, lambda: np.array([_SORTS[name](row) for row in known.rows], np.float64))  # None: NaN
    values = column[places]
    return places[np.argsort(-values if sort.startswith("-") else values, kind="stable")]


def _item(
    row: ModelRow, figures: Mapping[str, Sequence[Observation]], judged: Mapping[str, Figure | None]
) -> ModelItem:
    latest = None
    if row.latest is not None:
        run, own = row.latest, figures.get(row.latest.last_run, ())
        latest = LatestRun(
            id=run.last_run,
            created=run.last_time,
            dataset=run.last_dataset,
            runtime=run.last_runtime,
            judged=judged.get(run.last_run),
            latency_p50=figure_named(own, "latency_p50", batch_scope(1)),
        )
    return ModelItem.of(
        row,
        params_words=count(row.params),
        bytes_words=figure(row.bytes, "B"),
        claimed_top1_words=figure(row.claimed_top1, "fraction"),
        latest=latest,
    )


class RefreshQuery(Query):
    """Nothing is asked."""


class ListingState(Answer):
    """How far the zoos have been listed."""

    models: int
    complete: bool
    """Whether no zoo is being listed now."""


def list_again(context: Context, query: RefreshQuery) -> ListingState:
    """Begin to list all zoos again; the page of models shows what is known meanwhile."""
    context.models.zoos.again()
    listed = context.models.zoos.listed
    return ListingState(models=len(listed.entries), complete=listed.complete)


ENDPOINTS: Final = (
    Endpoint("/models/refresh", "List all zoos again", list_again, method="POST", status=202),
    Endpoint("/models", "Models of all zoos and of the store, by search and facets", models),
)
