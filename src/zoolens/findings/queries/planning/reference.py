"""The model that candidates are compared with: the one that is named, or the task's most accurate one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.queries.language.errors import ClauseError, UnknownQueryName
from zoolens.findings.queries.language.syntax import Query
from zoolens.findings.queries.language.tokens import quoted
from zoolens.findings.queries.planning.metrics import higher_is_better
from zoolens.findings.queries.planning.view import Mask, View
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_names


class Reference(NamedTuple):
    """`among`: out of how many it was chosen by its answers on the probes; 1 where it was named beforehand.
    `named`: by CORR, and not chosen by TASK."""

    row: int
    among: int = 1
    named: bool = True

    def others(self, view: View) -> Mask:
        """The rows that may be an answer. Who names a model asks for other models. Who names a task asks for any model
        of it: the reference's own may be the best answer in another runtime, and only its row is none."""
        others: Mask = np.arange(len(view)) != self.row
        if self.named:
            others &= view.models != view.models[self.row]
        return others


def task_category(task: str | None) -> str:
    """The category that a task's name stands for: image-classification is classification."""
    if task is None:
        return DEFAULT_TASK
    asked = f"-{task.lower().replace('_', '-').replace(' ', '-')}-"
    known = task_names()
    # Of token-classification and classification, the longer one is meant where both are in the words.
    category = next((name for name in sorted(known, key=len, reverse=True) if f"-{name}-" in asked), None)
    if category is None:
        raise ClauseError(task, f"There is no task {task!r}.", hint=f"Tasks are {', '.join(known)}.")
    return category


def find_reference(query: Query, view: View, fitting: Callable[[], Mask]) -> Reference | None:
    """The reference of a query. `fitting` returns the rows that run as EXEC asks."""
    if query.reference is not None:
        return Reference(_named(query.reference, query, view))
    return _most_accurate(view, fitting()) if query.task is not None else None


def _named(name: str, query: Query, view: View) -> int:
    try:
        row = view.find(name, query.exec)
    except UnknownName as error:
        never = f"{name} was not evaluated yet: `zoolens eval {name}`." if Path(name).is_file() else None
        raise UnknownQueryName("indexed model", name, (), hint=never or error.hint) from error
    except ZoolensError as error:
        raise ClauseError(name, error.message, hint=_advice(error, name, query, view)) from error
    if not view.index.rows[row].signature:
        _refuse_unsigned(name, row, view)
    return row


def _advice(error: ZoolensError, name: str, query: Query, view: View) -> str | None:
    """There are several of that name, or EXEC is too much for the one that is meant."""
    try:
        view.find(name, ())
    except ZoolensError:
        return error.hint
    only = " AND ".join(f"{key} = {quoted(value)}" for key, value in query.exec if key not in ("batch", "provenance"))
    return f"{error.hint} To ask it of candidates alone, write WHERE {only}."


def _refuse_unsigned(name: str, row: int, view: View) -> None:
    try:
        view.agreement(row)
    except ZoolensError as error:  # it says why there is none
        raise ClauseError(name, error.message, hint=error.hint) from error


def _most_accurate(view: View, fitting: Mask) -> Reference:
    """The most accurate row measured on the probes; the first among equals."""
    eligible = fitting & view.answered & ~view.twins
    if view.quality in view.units:
        eligible &= view.measured(view.quality)
        better = 1 if higher_is_better(view.quality) else -1
        accuracy = np.where(eligible, better * view.values(view.quality), -np.inf)
        if np.isfinite(accuracy).any():
            return Reference(int(np.argmax(accuracy)), int(eligible.sum()), named=False)
    raise ClauseError(
        "TASK",
        "There is no model with a measured accuracy to compare candidates with.",
        hint="Name one with CORR, or evaluate models with `zoolens eval`.",
    )
