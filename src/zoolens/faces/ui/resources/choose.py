"""/choose: what there is to choose from, the answer of a query over it, and what may stand at a place of a query."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.present.charts import Spec, drawn_spec, themed
from zoolens.base.present.metric_words import figure_title
from zoolens.base.recent_values import RecentValues
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, Query, RowPage, Shown
from zoolens.faces.ui.known_datasets import known_datasets, named_dataset
from zoolens.findings.index.index import Index
from zoolens.findings.queries.answers.choice import Choice, Point, Respect, Standing, answer_choice, index_choice
from zoolens.findings.queries.answers.choice_chart import choice_chart
from zoolens.findings.queries.answers.explanation_charts import funnel_chart, misses_chart
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.query_answers import Answer as QueryAnswer
from zoolens.findings.queries.answers.wording import amount, amount_with_interval, lower_bound
from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.parser import parse
from zoolens.findings.queries.language.syntax import Query as ParsedQuery
from zoolens.findings.queries.language.tokens import LONGEST
from zoolens.findings.queries.planning.metrics import ALIASES, DERIVED, looks_at_answers
from zoolens.findings.queries.planning.reference import task_category
from zoolens.findings.queries.query import index_for
from zoolens.findings.queries.query import query as ask
from zoolens.inventory.catalog.stored import guessed_of
from zoolens.inventory.tasks.task import DEFAULT_TASK

KEPT: Final = 8  # answers of the last queries, for the next page of their rows
_HIDDEN: Final = 3  # models of an answer that are named although no picture has them
ALONE = threading.Lock()  # an index is for one thread at a time
_Sort = Literal["best", "ref", "-ref", "x", "-x", "y", "-y", "size", "-size"]


class ChooseQuery(Query):
    """Without a query in the language (`q`) all rows of the index are shown."""

    q: str = Field("", max_length=LONGEST, description="A query, as `zoolens query` takes it.")
    x: str = Field("latency", max_length=100, description="The metric across.")
    y: str = Field("accuracy", max_length=100, description="The metric upwards.")
    size: str = Field("size", max_length=100, description="The metric that makes points large; empty: none.")
    data: str = Field("", max_length=LONGEST, description="The dataset, where the query names none with DATA.")
    task: str = Field("", max_length=100, description="The task, where the query names none with TASK.")


class ChosenQuery(ChooseQuery, Paged):
    """The rows of the same, within a rectangle of the picture where one is given (in the store's units)."""

    x_low: float | None = Field(None, description="The least figure across.")
    x_high: float | None = Field(None, description="The largest figure across.")
    y_low: float | None = Field(None, description="The least figure upwards.")
    y_high: float | None = Field(None, description="The largest figure upwards.")
    sort: _Sort = Field("best", description="The column to sort by; best: the answer's own order, or the front first.")


class Problem(Answer):
    """What is wrong with a query; q[start:end] is the part that is meant."""

    message: Shown
    hint: Shown
    start: int
    end: int


class ShownRespect(Answer):
    """A metric that rows are compared by. A shown figure times `factor` is in the store's unit."""

    metric: Shown
    title: Shown
    factor: float


class MetricChoice(Answer):
    """`name` is what `x`, `y` and `size` take, `title` the same in words."""

    name: Shown
    title: Shown


class ChoiceAnswer(Answer):
    """What there is to choose from, and the answer of a query over it."""

    query: Shown
    problem: Problem | None
    """Why the query was not answered; what is shown then is the whole index."""
    verdict: Shown
    notes: list[Shown]
    dataset: Shown
    inputs: int
    rows: int
    """Models in runtimes that were measured."""
    never_run: int
    """Models that were never run, of which only claims and what their files say is known."""
    x: ShownRespect | None
    y: ShownRespect | None
    size: ShownRespect | None
    metrics: list[MetricChoice]
    """What rows can be compared by."""
    title: Shown
    chart: Spec
    funnel: Spec | None
    misses: Spec | None
    explanation: list[Shown]
    """What EXPLAIN says."""


class ChosenRow(Answer):
    """One row of the index."""

    key: Shown
    ref: Shown
    run: Shown
    """Its id in the store, or "" where it was never run."""
    runtime: Shown
    standing: str
    x: Shown
    """`x` and `y` are the figures with their intervals in words, `x_value` and `y_value` in the store's units."""
    y: Shown
    x_value: float
    y_value: float
    size: Shown
    equal: Shown
    front: bool
    front_with_size: bool
    beaten: bool
    measured: bool
    why_not: Shown


class ChosenRows(RowPage[ChosenRow]):
    pass


@dataclass(frozen=True)
class _Asked:
    index: Index
    answer: QueryAnswer | None
    problem: Problem | None


_answered: RecentValues[tuple[int, str], _Asked] = RecentValues(KEPT)


def _asked(context: Context, query: ChooseQuery) -> _Asked:
    """The answer of a query, or the index as it is where there is none or it is wrong. Structures that nobody has read
    are not read here, since that takes long: `zoolens query` does."""
    text, problem = query.q, None
    try:
        parsed = parse(text) if text.strip() else ParsedQuery()
    except QueryError as error:
        parsed, problem = ParsedQuery(), _problem(error)
    chosen = ParsedQuery(data=query.data or None)
    try:
        index = _index(context, replace(parsed, data=parsed.data or chosen.data), parsed.task or query.task)
    except ZoolensError as error:
        problem = problem or _problem(error, text)
        try:
            index = _index(context, chosen, query.task)
        except ZoolensError:
            index, problem = _index(context, ParsedQuery(), ""), problem if text else _not_chosen(query)
    if not text.strip() or problem is not None:
        return _Asked(index, None, problem)
    key = (id(index), text)
    known = _answered.get(key)
    if known is None or known.index is not index:
        try:
            known = _Asked(index, ask(text, store=index), None)
        except ZoolensError as error:
            known = _Asked(index, None, _problem(error, text))
        _answered.put(key, known)
    return known


def _not_chosen(query: ChooseQuery) -> Problem:
    """Why what is shown is about another dataset than the chosen one."""
    subject = query.data or query.task
    return Problem(
        message=f"Nothing on {subject} can be chosen from: no run on it has answers that were kept.",
        hint="What is shown is about another dataset.",
        start=0,
        end=0,
    )


def _index(context: Context, asked: ParsedQuery, task: str) -> Index:
    return index_for(asked, context.store, meant_task(context, task, asked.data or ""))


def meant_task(context: Context, task: str = "", data: str = "") -> str:
    """The named task; without one classification, or what was done last where nothing was classified."""
    if task:
        return task_category(task)
    chosen = named_dataset(context, data) if data else None
    tasks = [task for known in ([chosen] if chosen else known_datasets(context)) for task in known.tasks]
    return tasks[0] if tasks and DEFAULT_TASK not in tasks else DEFAULT_TASK


def _problem(error: ZoolensError, text: str = "") -> Problem:
    start, end = 0, len(text)
    if isinstance(error, QueryError):
        start, end = error.start, error.end
    return Problem(message=error.message, hint=error.hint or "", start=start, end=end)


def choose(context: Context, query: ChooseQuery) -> ChoiceAnswer:
    with ALONE:
        asked = _asked(context, query)
        choice = _choice(asked, query.x, query.y, query.size)
        chart = choice_chart(choice)
        answer = asked.answer
        misses = None if answer is None or answer.exact else misses_chart(answer)
        return ChoiceAnswer.of(
            choice,
            query=query.q if answer is None else answer.query,
            problem=asked.problem,
            verdict=_verdict(asked, choice),
            notes=[*choice.notes, *(() if answer is None else answer.notes)],
            rows=choice.rows - choice.never_run,
            metrics=[MetricChoice(name=name, title=_title(name)) for name in _metrics(asked)],
            title=chart.title,
            chart=themed(chart),
            funnel=drawn_spec(None if answer is None else funnel_chart(answer.plan)),
            misses=drawn_spec(misses),
            explanation=[] if answer is None else answer.explanation.splitlines(),
        )


def _choice(asked: _Asked, x: str, y: str, size: str, **settings: Any) -> Choice:
    names: dict[str, Any] = {"x": x, "y": y, "size": size or None, **settings}
    if asked.answer is None:
        return index_choice(asked.index, **names)
    return answer_choice(asked.answer, **names)


def _verdict(asked: _Asked, choice: Choice) -> str:
    """Who fits, and of how many models that is not known."""
    answer = asked.answer
    if answer is None:
        return ""
    whether = "1 model fits" if answer.undecided == 1 else f"{answer.undecided:,} models fit"
    return _fitting(answer, choice) + (f" Whether {whether} is not known." if answer.undecided else "")


def _fitting(answer: QueryAnswer, choice: Choice) -> str:
    """Who fits best, of those that the picture and the table have; and whoever comes before them in the answer, but has
    not been run, or lacks a figure of the picture."""
    if not answer.exact or answer.best is None:
        nothing = "Nothing that is known fits" if answer.undecided else "Nothing fits"
        return f"{nothing}; the nearest misses are shown." if answer.misses else f"{nothing}."
    number = f"{answer.fitting:,} model{'s fit' if answer.fitting != 1 else ' fits'}"
    placed = {point.key for point in choice.points}
    matches = list(answer.matches)
    shown = next((place for place, match in enumerate(matches) if match.row.key in placed), len(matches))
    if shown == 0:
        return f"{_name(matches[0])} fits best; {number}."
    hidden = _hidden(matches[:shown], choice)
    if shown == len(matches):
        return f"{number[:1].upper()}{number[1:]}, and none of the first is in the picture or in the table: {hidden}."
    return f"{_name(matches[shown])} fits best of those that are shown; {number}. Before it, but not shown: {hidden}."


def _name(match: Match) -> str:
    return match.ref.partition("@")[0]


def _hidden(matches: Sequence[Match], choice: Choice) -> str:
    """Models of an answer that are in no picture, and why; the first few by name."""
    axes = " or ".join(respect.metric for respect in (choice.x, choice.y) if respect is not None)
    lacking = f"its {axes} is not known" if axes else "no figure of it is known"
    words = [f"{_name(match)} ({lacking if match.runtime else 'never run here'})" for match in matches]
    return first_few(words, _HIDDEN)


def _metrics(asked: _Asked) -> list[str]:
    """Names that the axes may have: short ones first; those about a reference only where a query names one."""
    columns = asked.index.rows.figures.names
    bases = {name.partition("@")[0] for name in columns}
    aliases = [alias for alias, target in ALIASES.items() if target in bases and alias != "mem"]
    related = DERIVED if asked.answer is not None and asked.answer.plan.reference is not None else ()
    return list(dict.fromkeys((*aliases, *related, *sorted(columns))))


def _title(name: str) -> str:
    metric, _, scope = name.partition("@")
    return figure_title(metric, scope)


def chosen(context: Context, query: ChosenQuery) -> ChosenRows:
    with ALONE:
        asked = _asked(context, query)
        choice = _choice(asked, query.x, query.y, query.size, most=None)
        points = [point for point in choice.points if _inside(point, query)]
        if asked.answer is not None:
            listed = (Standing.ANSWER, Standing.FITS, Standing.NEAR_MISS, Standing.REFERENCE)
            points = [point for point in points if point.standing in listed]
        points = _sorted(points, query.sort, asked, choice)
        shown = points[query.page]
        equal = _equal(asked)
        guessed = _guessed(context, shown)
        rows = [_row(point, choice, equal.get(point.key, ""), guessed=point.key in guessed) for point in shown]
        return ChosenRows(total=len(points), offset=query.offset, rows=rows)


def _inside(point: Point, query: ChosenQuery) -> bool:
    across = _within(point.x, query.x_low, query.x_high)
    upwards = _within(point.y, query.y_low, query.y_high)
    return across and upwards


def _within(value: float, low: float | None, high: float | None) -> bool:
    if low is not None and value < low:
        return False
    return high is None or value <= high


def _sorted(points: list[Point], sort: str, asked: _Asked, choice: Choice) -> list[Point]:
    if sort == "best":
        order = {Standing.REFERENCE: 0, Standing.ANSWER: 1, Standing.NEAR_MISS: 1, Standing.FITS: 2}
        matches = [] if asked.answer is None else [*asked.answer.matches, *asked.answer.misses]
        places = {match.row.key: place for place, match in enumerate(matches)}
        up = -1 if choice.y is not None and choice.y.higher_is_better else 1
        return sorted(
            points,
            key=lambda point: (
                order.get(point.standing, 3), places.get(point.key, len(places)), not point.front, up * point.y,
            ),
        )  # fmt: skip
    name = sort.removeprefix("-")
    known = [point for point in points if getattr(point, name) is not None]
    unknown = [point for point in points if getattr(point, name) is None]
    return sorted(known, key=lambda point: getattr(point, name), reverse=sort.startswith("-")) + unknown


def _equal(asked: _Asked) -> dict[str, str]:
    """The agreement of each model of an answer with the reference, with its bound, by the key of its row."""
    if asked.answer is None:
        return {}
    return dict(_equal_words(asked.answer))


def _equal_words(answer: QueryAnswer) -> Iterator[tuple[str, str]]:
    for match in (*answer.matches, *answer.misses):
        if match.equivalence is not None:
            yield match.row.key, f"{amount(match.equivalence, 'fraction')}{lower_bound(match.equivalence_lower)}"


def _guessed(context: Context, points: Sequence[Point]) -> set[str]:
    """The keys of rows whose accuracy rests on guesses."""
    measured = [point.key for point in points if point.runtime is not None]
    runs = context.store.runs_of(measured)
    return {run.id for run in runs if guessed_of(run)}


def _marks(respect: Respect | None, *, disturbed: bool, guessed: bool) -> str:
    judges = respect is not None and looks_at_answers(respect.column)
    marks = " (disturbed)" if disturbed else ""
    if guessed and judges:
        marks += " (guessed)"
    return marks


def _row(point: Point, choice: Choice, equal: str, *, guessed: bool) -> ChosenRow:
    ran = point.runtime is not None
    x_marks = _marks(choice.x, disturbed=point.x_disturbed, guessed=guessed)
    y_marks = _marks(choice.y, disturbed=point.y_disturbed, guessed=guessed)
    return ChosenRow.of(
        point,
        run=point.key if ran else "",
        standing="" if point.standing is Standing.INDEXED else str(point.standing),
        x=_words(point.x, point.x_low, point.x_high, choice.x) + x_marks,
        y=_words(point.y, point.y_low, point.y_high, choice.y) + y_marks,
        x_value=point.x,
        y_value=point.y,
        size=_words(point.size, None, None, choice.size),
        equal=equal,
    )


def _words(value: float | None, low: float | None, high: float | None, respect: Respect | None) -> str:
    return "–" if value is None or respect is None else amount_with_interval(value, low, high, respect.unit)


ENDPOINTS: Final = (
    Endpoint("/choose", "What there is to choose from, and the answer of a query over it", choose),
    Endpoint("/choose/rows", "The rows of the same, in pages", chosen),
)
