"""The functions `query` and `prepare`: from text or keyword arguments to an answer.

zoolens.query("SELECT MODELS CORR resnet50 WITHIN 95% ON memory <= 20% AND latency_p95 < 10 ms")
zoolens.query(ref="resnet50", within=0.95, memory="20%", latency_p95="< 10 ms")
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.public.calls import same_parameters
from zoolens.findings.index.index import Index
from zoolens.findings.index.name_lookup import is_name_of
from zoolens.findings.index.opener import build_index
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.language.errors import ClauseError, UnknownQueryName
from zoolens.findings.queries.language.keyword_arguments import with_keywords
from zoolens.findings.queries.language.parser import parse, pointed
from zoolens.findings.queries.language.syntax import Condition, Order, Query, metrics_of
from zoolens.findings.queries.planning.condition_evaluator import attributes_of
from zoolens.findings.queries.planning.metrics import STRUCTURAL, unaliased
from zoolens.findings.queries.planning.planner import OFF, ON, make_plan
from zoolens.findings.queries.planning.reference import task_category
from zoolens.findings.queries.planning.view import View
from zoolens.findings.queries.prepared_query import PreparedQuery

if TYPE_CHECKING:
    from zoolens.base.store.store import Store
    from zoolens.inventory.zoos.zoo import Entry

Functions = Mapping[str, Callable[..., Any]]
Target: TypeAlias = "Store | Index | str | Path | None"


def prepare(
    text: str | Query | None = None,
    *,
    ref: str | Entry | None = None,
    within: float | str | None = None,
    task: str | None = None,
    where: str | Condition | None = None,
    order_by: str | Sequence[Order] | None = None,
    limit: int | None = None,
    confidence: float | str | None = None,
    show: Sequence[str] | str | None = None,
    exec: Mapping[str, Any] | None = None,  # noqa: A002 - the clause is called so
    data: str | None = None,
    bound: str | None = None,
    segments: bool = False,
    nearest: bool = False,
    explain: Literal["", "plan", "analyze"] = "",
    functions: Functions | None = None,
    store: Target = None,
    progress: Progress | None = None,
    **metrics: Any,
) -> PreparedQuery:
    """A query in text, in keywords, or both, made ready to run.

    A keyword that is none of the above is a metric and its bound: memory="20%" (of the reference's), flops="2G",
    latency_p95="< 10 ms", accuracy=0.7. `where` and `order_by` are in the language; `functions` are those that
    `order_by` calls. `store` may also be an index that is built already. `progress` is told while the
    index of a store is built that was not queried here before, and of structures that are read because the query is
    the first to ask for FLOPs and the like.
    """
    begun = perf_counter()
    reference = ref if ref is None or isinstance(ref, str) else _named(ref)
    given = {
        "reference": reference, "within": within, "task": task, "where": where, "order": order_by, "limit": limit,
        "show": show, "confidence": confidence, "exec": exec, "data": data, "bound": bound,
        "segments": segments or None, "nearest": nearest or None, "explain": explain or None,
    }  # fmt: skip
    if not (text is None or isinstance(text, str | Query)):
        raise ZoolensError(f"{text!r} is not a query.", hint='Write query("CORR resnet50 WITHIN 95%").')
    if not (store is None or isinstance(store, str | Path | Index) or _is_store(store)):
        raise ZoolensError(f"store={store!r} is not a store.", hint='Give a path, such as store="store.sqlite".')
    asked = with_keywords(parse(text) if isinstance(text, str) else text or Query(), given, metrics)
    parsed = perf_counter()
    try:
        view, elsewhere = _views(asked, store, progress)
        indexed = perf_counter()
        plan = make_plan(asked, view, functions=functions, elsewhere=elsewhere)
        # Settled now, so that running it is quick.
        _ = plan.search
    except (ClauseError, UnknownQueryName) as error:
        raise pointed(error, text if isinstance(text, str) else None) from error
    return PreparedQuery(plan, {"parse": parsed - begun, "index": indexed - parsed, "plan": perf_counter() - indexed})


@same_parameters(prepare)
def query(*text: str | Query | None, **asked: Any) -> Answer:
    """The models most interchangeable with a reference within a budget. Takes what `prepare` takes, and runs it."""
    return prepare(*text, **asked).run()


def _is_store(given: object) -> bool:
    from zoolens.base.store.store import Store

    return isinstance(given, Store)


def _views(asked: Query, store: Target, progress: Progress | None) -> tuple[View, View | None]:
    """The index to search, and the one that BOUND takes its bound from."""
    task = task_category(asked.task)
    other = None if asked.bound in (ON, OFF) else asked.bound
    if isinstance(store, Index):
        if other is not None:
            raise ClauseError(
                "BOUND", f"BOUND {other!r} needs the store, and an index was given.", hint="Give the store instead."
            )
        return _view(store), None
    index = index_for(asked, store, task, progress)
    if _fill_structures(asked, index, store, progress):
        index = index_for(asked, store, task, progress)
    return _view(index), None if other is None else _view(_built(store, other, task, progress))


def _fill_structures(asked: Query, index: Index, store: Store | str | Path | None, progress: Progress | None) -> bool:
    """Read the structures of measured models whose FLOPs and the like the query asks for; whether any was read."""
    ordered = (metric.name for order in asked.order for metric in metrics_of(order.expression))
    asked_for = (*(bound.metric for bound in asked.on), *ordered, *asked.show)
    asked_for += () if asked.where is None else tuple(attributes_of(asked.where))
    needed = {unaliased(name) for name in asked_for} & STRUCTURAL
    figures = index.rows.figures
    lacking = np.zeros(len(index), np.bool_)
    for name in needed:
        lacking |= index.rows.signed & ~figures.known(name)
    if not lacking.any():
        return False

    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.index.sources.structures import fill_structures

    with borrowed_store(store) as opened:
        keys = [str(key) for key in index.rows.columns["key"].take(np.flatnonzero(lacking)).values]
        return fill_structures(opened, opened.runs_of(keys), progress)


def _built(store: Store | str | Path | None, data: str | None, task: str, progress: Progress | None) -> Index:
    try:
        return build_index(store, data=data, task=task, progress=progress)
    except UnknownName as error:
        raise ClauseError(data or "", error.message, hint=error.hint) from error


def index_for(asked: Query, store: Store | str | Path | None, task: str, progress: Progress | None = None) -> Index:
    """Over the data that DATA names; else over what most models were measured on, unless the reference was not."""
    index = _built(store, asked.data, task, progress)
    if not len(index):
        _refuse_without_task(asked, store, task)
    if asked.data is not None or asked.reference is None:
        return index
    try:
        reference = index.rows[_view(index).find(asked.reference, asked.exec)]
    except ZoolensError:
        _refuse_other_task(asked.reference, store, task)
        # The planner reports it, with its place in the query.
        return index
    if reference.signature:
        return index

    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.comparisons.signatures import default_dataset, probe_runs

    with borrowed_store(store) as opened:
        runs = probe_runs(opened, task=task)
        theirs = {run.key.dataset for run in runs if run.ref == reference.ref}
        elsewhere = default_dataset(runs, theirs)
    return index if elsewhere is None else _built(store, elsewhere, task, progress)


def _refuse_without_task(asked: Query, store: Store | str | Path | None, task: str) -> None:
    """Say so where models were measured, but none of the task that the query is about."""
    others = sorted({one for _, one in _measured_tasks(store)} - {task})
    if asked.reference is not None:
        _refuse_other_task(asked.reference, store, task)
    if others:
        raise ClauseError(
            "TASK",
            f"No model of the task {task} was measured yet, but models of the task {' and '.join(others)} were.",
            hint=f"Add TASK {others[0]}, or evaluate models of the task {task} with `zoolens eval`.",
        )


def _refuse_other_task(name: str, store: Store | str | Path | None, task: str) -> None:
    """Say so where the model was measured and answers another task than the query is about."""
    tasks = tasks_of(name, store)
    if tasks and task not in tasks:
        does = tasks[0]
        raise ClauseError(name, f"{name} does {does}, and this query is about {task}.", hint=f"Add TASK {does}.")


def tasks_of(name: str, store: Store | str | Path | None = None) -> list[str]:
    """The tasks that models of this name were measured in."""
    return sorted({one for ref, one in _measured_tasks(store) if is_name_of(name, ref)})


def _measured_tasks(store: Store | str | Path | None) -> set[tuple[str, str]]:
    """Each measured model with the task that it does."""
    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.comparisons.signatures import probe_runs, task_of

    with borrowed_store(store) as opened:
        return {(run.ref, task_of(run)) for run in probe_runs(opened)}


_recent: Final[deque[View]] = deque(maxlen=4)  # what was worked out about an index serves its next query


def _view(index: Index) -> View:
    for view in tuple(_recent):
        if view.index is index:
            return view
    view = View(index)
    _recent.append(view)
    return view


def _named(reference: Entry) -> str | Entry:
    """Returns the name of an entry; what is none is returned as it is, for the parser to refuse."""
    # The catalog brings pydantic and yaml along: a query by name over a store that has not changed does without them.
    from zoolens.inventory.catalog.lookup import model_text
    from zoolens.inventory.zoos.zoo import Entry

    return model_text(reference) if isinstance(reference, Entry) else reference
