"""Pages of runs: filtered, counted by facet, and sorted by time or by a figure.

index = RunIndex(store)
page = page_of_runs(index, RunsWanted(text="resnet", datasets=("imagenet/val",)), FigureOrder("top1"), limit=50)
store.runs_of(page.ids)

Every function works on columns in memory (`run_columns`) and gives ids: who shows a run reads it from the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from zoolens.base.store.queries import NAME_AND_DIGITS
from zoolens.base.store.records import RunKind
from zoolens.base.store.run_columns import (
    KINDS,
    STATES,
    Figure,
    Integers,
    Mask,
    RunColumns,
    RunIndex,
    RunState,
    RunSubject,
)
from zoolens.base.store.schema import observations
from zoolens.base.store.scopes import Dimension
from zoolens.base.store.store import Store

_SINGLE: Final = (Dimension.CLASS, Dimension.EPOCH, Dimension.WITH)
_DIGITS: Final = 64  # of a fingerprint
_ID: Final = re.compile(r"[0-9a-f]{2,16}")


@dataclass(frozen=True)
class RunsWanted:
    """Filters of a list of runs: a run has to match every field, and one of the values of a field with several."""

    # Patterns with * and ?, as in `Store.runs`; case does not matter.
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    kinds: tuple[RunKind, ...] = (RunKind.EVALUATION,)  # none: all
    states: tuple[RunState, ...] = ()
    # When the run was begun.
    since: datetime | None = None
    until: datetime | None = None  # exclusive
    # Words, each in the name of the run's model, dataset or runtime, or at the beginning of its id.
    text: str = ""


@dataclass(frozen=True)
class FigureOrder:
    """Sorted by a figure; runs that do not have it come last, newest first."""

    metric: str
    scope: str = ""
    descending: bool = True


@dataclass(frozen=True)
class TimeOrder:
    descending: bool = True


@dataclass(frozen=True)
class RunPage:
    """One page of a list of runs."""

    ids: tuple[str, ...]  # in the requested order
    total: int  # how many runs match the filters
    lacking: int = 0  # how many of these lack the figure that they are sorted by


@dataclass(frozen=True)
class Facets:
    """How many runs each value would give, with the filters of all other facets in force. Largest first; values without
    a run are absent, but for those that are chosen."""

    datasets: Mapping[str, int]
    runtimes: Mapping[str, int]
    kinds: Mapping[RunKind, int]
    states: Mapping[RunState, int]


def page_of_runs(
    index: RunIndex,
    wanted: RunsWanted = RunsWanted(),  # noqa: B008 - frozen
    order: TimeOrder | FigureOrder = TimeOrder(),  # noqa: B008 - frozen
    *,
    limit: int = 50,
    offset: int = 0,
) -> RunPage:
    columns = index.columns()
    return _page(index, columns, matching(columns, wanted), order, limit, offset)


def count_facets(index: RunIndex, wanted: RunsWanted = RunsWanted()) -> Facets:  # noqa: B008 - frozen
    columns = index.columns()
    return _facets(columns, dict(_masks(columns, wanted)), wanted)


def page_with_facets(
    index: RunIndex, wanted: RunsWanted, order: TimeOrder | FigureOrder, *, limit: int, offset: int = 0
) -> tuple[RunPage, Facets]:
    """What `page_of_runs` and `count_facets` give, both of the store at one moment."""
    columns = index.columns()
    masks = dict(_masks(columns, wanted))
    page = _page(index, columns, _all(columns, masks), order, limit, offset)
    return page, _facets(columns, masks, wanted)


def _page(
    index: RunIndex, columns: RunColumns, mask: Mask, order: TimeOrder | FigureOrder, limit: int, offset: int
) -> RunPage:
    ordered, lacking = columns.by_time, 0
    if isinstance(order, FigureOrder):
        ordered = index.ordered(columns, order.metric, order.scope, descending=order.descending)
        lacking = int(np.count_nonzero(np.isnan(index.figures(columns, order.metric, order.scope)[mask])))
    fitting = ordered[mask[ordered]]
    if isinstance(order, TimeOrder) and not order.descending:
        fitting = fitting[::-1]
    page = fitting[max(offset, 0) : max(offset, 0) + limit]
    return RunPage(tuple(columns.ids[place] for place in page.tolist()), len(fitting), lacking)


def _facets(columns: RunColumns, masks: Mapping[str, Mask], wanted: RunsWanted) -> Facets:
    by_stack = _counted(columns.stack, _all(columns, masks, but="runtimes"), len(columns.stacks))
    runtimes: dict[str, int] = {}
    for stack, count in zip(columns.stacks, by_stack, strict=True):
        runtimes[stack.name] = runtimes.get(stack.name, 0) + count
    by_data = _counted(columns.dataset, _all(columns, masks, but="datasets"), len(columns.datasets))
    by_kind = _counted(columns.kind, _all(columns, masks, but="kinds"), len(KINDS))
    by_state = _counted(columns.state, _all(columns, masks, but="states"), len(STATES))
    names = [data.name for data in columns.datasets]
    return Facets(
        datasets=_largest_first(dict(zip(names, by_data, strict=True)), wanted.datasets),
        runtimes=_largest_first(runtimes, wanted.runtimes),
        kinds=_largest_first(dict(zip(KINDS, by_kind, strict=True)), wanted.kinds),
        states=_largest_first(dict(zip(STATES, by_state, strict=True)), wanted.states),
    )


def _counted(codes: Integers, mask: Mask, values: int) -> list[int]:
    counts: list[int] = np.bincount(codes[mask], minlength=values).tolist()
    return counts


def _largest_first(counts: Mapping[Any, int], chosen: Iterable[Any]) -> dict[Any, int]:
    counted = {value for value, count in counts.items() if count}
    kept = counted | (set(chosen) & set(counts))
    ordered = sorted(kept, key=lambda value: (-counts[value], str(value)))
    return {value: counts[value] for value in ordered}


# --- filters


def matching(columns: RunColumns, wanted: RunsWanted) -> Mask:
    """Which runs fit, by place."""
    return _all(columns, dict(_masks(columns, wanted)))


def _all(columns: RunColumns, masks: Mapping[str, Mask], but: str = "") -> Mask:
    """Which runs fit every part of a filter, but for one."""
    mask = np.ones(len(columns), np.bool_)
    for name, part in masks.items():
        if name != but:
            mask &= part
    return mask


def _masks(columns: RunColumns, wanted: RunsWanted) -> Iterator[tuple[str, Mask]]:
    """For each part of a filter that is given, which runs fit it."""
    for name, patterns, codes, subjects, kind in (
        ("models", wanted.models, columns.model, columns.models, "model"),
        ("datasets", wanted.datasets, columns.dataset, columns.datasets, "dataset"),
        ("runtimes", wanted.runtimes, columns.stack, columns.stacks, "stack"),
    ):
        if patterns:
            fitting = _flags(any(_fits(subject, pattern, kind) for pattern in patterns) for subject in subjects)
            yield name, fitting[codes]
    if wanted.kinds:
        yield "kinds", _flags(kind in wanted.kinds for kind in KINDS)[columns.kind]
    if wanted.states:
        yield "states", _flags(state in wanted.states for state in STATES)[columns.state]
    if wanted.since is not None:
        yield "since", columns.created >= _utc(wanted.since)
    if wanted.until is not None:
        yield "until", columns.created < _utc(wanted.until)
    for word in wanted.text.casefold().split():
        yield f"text {word}", _with_word(columns, word)


def _with_word(columns: RunColumns, word: str) -> Mask:
    mask = np.zeros(len(columns), np.bool_)
    for codes, subjects in (
        (columns.model, columns.models),
        (columns.dataset, columns.datasets),
        (columns.stack, columns.stacks),
    ):
        mask |= _flags(word in subject.searched for subject in subjects)[codes]
    if _ID.fullmatch(word):
        mask |= np.char.startswith(columns.id_bytes, word.encode())
    return mask


def _flags(values: Iterable[bool]) -> Mask:
    return np.fromiter(values, np.bool_)


def _fits(subject: RunSubject, pattern: str, kind: str) -> bool:
    fits = _matcher(pattern)
    if any(map(fits, subject.names)):
        return True
    if kind == "model":
        return "@" not in pattern and any(fits(name.rpartition("@")[0]) for name in subject.names)
    digits = pattern.rpartition("#")[2]
    if kind == "dataset" and len(digits) <= _DIGITS and (parts := NAME_AND_DIGITS.fullmatch(pattern)):
        named = parts[1] is None or any(map(_matcher(parts[1]), subject.names))
        return named and subject.fingerprint.startswith(parts[2].lower())
    return False


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Tells whether a pattern means a name. One without * and ? is no expression: a name of millions of letters, which
    strangers may write, takes a minute to compile."""
    if "*" not in pattern and "?" not in pattern:
        wanted = pattern.casefold()
        return lambda name: name.casefold() == wanted
    expression = _expression(pattern)
    return lambda name: expression.fullmatch(name) is not None


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    text = "".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.compile(text, re.IGNORECASE | re.DOTALL)


def _utc(moment: datetime) -> np.datetime64:
    """A time without a zone is taken for UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return np.datetime64(aware.astimezone(UTC).replace(tzinfo=None), "us")


# --- figures


def datetime_of(moment: np.datetime64) -> datetime:
    """A time of the columns, in UTC."""
    at = moment.item()
    assert isinstance(at, datetime)  # it is, of a time in microseconds
    return at.replace(tzinfo=UTC)


@dataclass(frozen=True)
class MeasuredPoint:
    """One run of a model in its history."""

    run: str
    created: datetime
    dataset: str
    runtime: str
    stack: str  # fingerprint
    value: float


def history(index: RunIndex, wanted: RunsWanted, metric: str, scope: str = "") -> list[MeasuredPoint]:
    """A figure of the runs that fit and have it, oldest first: how a model did over time and stacks."""
    columns = index.columns()
    values = index.figures(columns, metric, scope)
    fitting = columns.by_time[::-1]
    fitting = fitting[(matching(columns, wanted) & ~np.isnan(values))[fitting]]
    return [
        MeasuredPoint(
            run=columns.ids[place],
            created=datetime_of(columns.created[place]),
            dataset=columns.datasets[columns.dataset[place]].name,
            runtime=columns.stacks[columns.stack[place]].name,
            stack=columns.stacks[columns.stack[place]].fingerprint,
            value=float(values[place]),
        )
        for place in fitting.tolist()
    ]


def best_runs(
    index: RunIndex, wanted: RunsWanted, metric: str, scope: str = "", *, largest: bool = True, among: int = 5
) -> dict[str, list[tuple[str, float]]]:
    """For each dataset, its models by the best value of a figure, best first: id and value, at most `among`.

    Of each model in each runtime with each choice of options (int8 is another way to run it than float32), the newest
    run that has the figure counts, so that a lucky repetition, or a content that the name had before, does not; and of
    each model its best way. Some stored figures must not be shown
    (`findings.measure.class_order.judged_right`): who shows the best takes the first run whose figure may be.
    """
    columns, model, way = _what_ran(index)
    values: NDArray[np.float64] = index.figures(columns, metric, scope)
    places = np.flatnonzero(matching(columns, wanted) & ~np.isnan(values))
    newest = places[::-1][_first_of_each(places[::-1], columns.dataset, model, way)]
    signed = -values[newest] if largest else values[newest]
    ordered = newest[np.lexsort((-newest, signed))]
    ordered = ordered[np.sort(_first_of_each(ordered, columns.dataset, model))]
    best: dict[str, list[tuple[str, float]]] = {}
    for dataset in np.unique(columns.dataset[ordered]).tolist():
        chosen = ordered[columns.dataset[ordered] == dataset][:among]
        listed = [(columns.ids[place], float(values[place])) for place in chosen.tolist()]
        best[columns.datasets[dataset].name] = listed
    return best


def unmended_failures(index: RunIndex, wanted: RunsWanted) -> list[str]:
    """Ids of runs with a stage that failed, newest first, that no later run has made good.

    What ran again is the same model by its name, as its content may have been what failed, on the same dataset in the
    same runtime with the same options. A run that has finished nothing yet has made nothing good.
    """
    columns, model, way = _what_ran(index)
    ended = columns.state != STATES.index(RunState.BEGUN)
    newest_first = np.flatnonzero(matching(columns, wanted) & ended)[::-1]
    last = newest_first[_first_of_each(newest_first, columns.dataset, model, way)]
    failed = last[columns.state[last] == STATES.index(RunState.FAILED)]
    return [columns.ids[place] for place in np.sort(failed)[::-1].tolist()]


def models_run_on(index: RunIndex, datasets: tuple[str, ...]) -> frozenset[str]:
    """The names of the models that were evaluated on these datasets."""
    columns = index.columns()
    codes = np.unique(columns.model[matching(columns, RunsWanted(datasets=datasets))])
    return frozenset(columns.models[code].name for code in codes.tolist())


def _what_ran(index: RunIndex) -> tuple[RunColumns, NDArray[np.int64], NDArray[np.int64]]:
    """The columns, with a number for the name of each run's model, and one for the runtime and options that ran it. The
    names of many thousand models are gone through once, and not by every question about each dataset."""

    def compute(columns: RunColumns) -> tuple[RunColumns, NDArray[np.int64], NDArray[np.int64]]:
        return columns, _name_codes(columns.models)[columns.model], _name_codes(columns.stacks)[columns.stack]

    return index.derived("what ran", compute)


def _name_codes(subjects: Sequence[RunSubject]) -> NDArray[np.int64]:
    """A number for each name, and for each choice of a runtime's options: several contents go by one name."""
    code_of: dict[tuple[str, str], int] = {}
    return np.array([code_of.setdefault((one.name, one.options), len(code_of)) for one in subjects], np.int64)


def _first_of_each(places: NDArray[np.int64], *columns: NDArray[Any]) -> NDArray[np.int64]:
    """Where in `places` each combination of the values of these columns stands first."""
    if not len(places):
        return np.zeros(0, np.int64)
    key = np.zeros(len(places), np.int64)
    for column in columns:
        key = key * (int(column.max()) + 1) + column[places]
    return np.unique(key, return_index=True)[1]


def figures_stored(store: Store) -> list[Figure]:
    """Every metric and scope that a run has an observation of, but for those of single classes, single epochs and pairs
    of runs: what runs can be sorted by."""
    if store.engine.dialect.name == "sqlite":
        return store.read(lambda connection: list(_leaping(connection)))
    column = observations.c
    query = select(column.metric, column.scope).distinct()
    for dimension in _SINGLE:
        query = query.where(~column.scope.startswith(dimension.prefix))
    rows = store.read(lambda connection: connection.execute(query).all())
    return sorted((str(metric), str(scope)) for metric, scope in rows)


def _leaping(connection: Connection) -> Iterator[Figure]:
    """Yields every metric and scope in SQLite by a loose index scan: DISTINCT would read every observation."""
    column = observations.c
    metric = connection.execute(select(func.min(column.metric))).scalar()
    while metric is not None:
        of_metric = select(func.min(column.scope)).where(column.metric == metric)
        scope = connection.execute(of_metric).scalar()
        while scope is not None:
            leap = next((dimension.prefix for dimension in _SINGLE if scope.startswith(dimension.prefix)), None)
            if leap is None:
                yield str(metric), str(scope)
            # "class>" comes behind everything that begins with "class=".
            beyond = column.scope > scope if leap is None else column.scope >= leap[:-1] + chr(ord(leap[-1]) + 1)
            scope = connection.execute(of_metric.where(beyond)).scalar()
        metric = connection.execute(select(func.min(column.metric)).where(column.metric > metric)).scalar()
