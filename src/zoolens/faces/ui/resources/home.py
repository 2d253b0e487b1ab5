"""/home: what there is, what is good, what changed, and what needs a look: one answer for the first page."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.present.figures import with_interval
from zoolens.base.present.metric_words import metric_title
from zoolens.base.store.browsing import RunsWanted, best_runs, models_run_on, page_of_runs, unmended_failures
from zoolens.base.store.records import Observation, Run, RunKind, fingerprint
from zoolens.faces.serving.services.events import session_of
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, Query, Shown
from zoolens.faces.ui.jobs.folder import JobState
from zoolens.faces.ui.known_datasets import KnownDataset, known_datasets, wanted_names
from zoolens.faces.ui.page_figures import Figure, beyond, figure_named, listed_figures, promised_interval
from zoolens.faces.ui.recent_changes import recent_changes
from zoolens.faces.ui.resources.audits import audits, gravest_first
from zoolens.faces.ui.resources.jobs import Job, job_of
from zoolens.faces.ui.resources.runs import LONGEST, RunItem, run_item
from zoolens.faces.ui.resources.services import ServiceSession, session_summary
from zoolens.findings.comparisons.signatures import task_of
from zoolens.findings.measure.run_data import SCORE, judged_observation
from zoolens.findings.queries.planning.metrics import higher_is_better
from zoolens.inventory.fleet.placing import agents

DATASETS: Final = 4
BEST: Final = 3  # models of each dataset
_AMONG: Final = 12  # of which it is asked whether their intervals touch that of the best
_OF_SEVERAL_TASKS: Final = 96  # of which those of one task are taken, where a dataset is used for several
_NEWEST: Final = 6
_SHOWN: Final = 3  # services and jobs
_MOST_MOVED: Final = 6
_FURTHER: Final = ("file_size",)
_NAMED: Final = 3
_DIGITS: Final = 16

Level = Literal["high", "medium", "low", "info"]
_LEVELS: Final = get_args(Level)


class HomeQuery(Query):
    data: str = Field("", max_length=LONGEST, description="The name of a dataset; empty: all.")
    task: str = Field("", max_length=LONGEST, description="Datasets of this task; empty: all.")
    days: int = Field(0, ge=0, le=3650, description="How far back changes go; 0: 1, 7 or 30, as there is something.")


class BestModel(Answer):
    """A model by its newest run in the runtime in which it is best."""

    run: RunItem
    size: Figure | None


class BestOnDataset(Answer):
    """The best models of one dataset by the metric of one task, the best first."""

    dataset: Shown
    task: Shown
    title: Shown
    """The metric in words."""
    inputs: int
    runs: int
    models: int
    rows: list[BestModel]
    note: Shown
    """Which others may be as good, as far as their intervals tell."""


class Change(Answer):
    """A sentence about what is new; `run` and `before` are ids of the two runs that it is about, or empty."""

    sentence: Shown
    run: str
    before: str


class Changes(Answer):
    """What is new since `since`. `days` is 0 where nothing is."""

    days: int
    since: datetime
    runs: int
    failed: int
    models: int
    """Models that had not been run before."""
    compared: int
    """So many runs were held against the run before them, of the same model and runtime."""
    lines: list[Change]
    more: int
    """Figures that moved and are not among `lines`."""


class Alarm(Answer):
    """Something that needs a look; `page` and `rest` are the address of the page that shows it."""

    level: Level
    sentence: Shown
    page: str
    rest: Shown
    about: str
    """A digest of what it is about. Three failures and three other ones have the same sentence, and another digest."""


class Home(Answer):
    """`runs` evaluations in all, of the chosen datasets."""

    runs: int
    datasets: int
    best: list[BestOnDataset]
    newest: list[RunItem]
    changes: Changes
    alarms: list[Alarm]
    services: list[ServiceSession]
    jobs: list[Job]


class _Runs:
    """Runs with what lists show of them, each read once although several parts of the page name it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._runs: dict[str, Run] = {}
        self._figures: dict[str, Sequence[Observation]] = {}

    def read(self, ids: Sequence[str]) -> list[tuple[Run, Sequence[Observation]]]:
        """The runs of these ids, in their order."""
        new = self.context.store.runs_of([run_id for run_id in ids if run_id not in self._runs])
        self._runs |= {run.id: run for run in new}
        self._figures |= listed_figures(self.context.store, new, _FURTHER)
        return [(self._runs[run_id], self._figures[run_id]) for run_id in ids if run_id in self._runs]


def home(context: Context, query: HomeQuery) -> Home:
    chosen = wanted_names(context, query.data, query.task)
    minute = int(time.time() // 60)  # what is new depends on the time, too
    key = ("home", chosen, query.task, query.days, minute)
    measured = context.runs.derived(key, lambda _: _measured(context, chosen, query))
    return Home.of(
        measured,
        alarms=sorted(_alarms(context, chosen), key=lambda alarm: _LEVELS.index(alarm.level)),
        services=_services(context),
        jobs=[job_of(folder) for folder in context.jobs.jobs()[:_SHOWN]],
    )


@dataclass(frozen=True)
class _Measured:
    """What the store alone says. Of 100,000 runs it takes tenths of a second, and is kept until the store changes."""

    runs: int
    datasets: int
    best: list[BestOnDataset]
    newest: list[RunItem]
    changes: Changes


def _measured(context: Context, chosen: tuple[str, ...], query: HomeQuery) -> _Measured:
    known = [one for one in known_datasets(context) if not chosen or one.name in chosen]
    page = page_of_runs(context.runs, RunsWanted(datasets=chosen), limit=_NEWEST)
    runs = _Runs(context)
    return _Measured(
        runs=page.total,
        datasets=len(known),
        best=list(_best(runs, known[:DATASETS], query.task)),
        newest=[run_item(run, figures) for run, figures in runs.read(page.ids)],
        changes=_changes(runs, chosen, known[:DATASETS], query.days),
    )


# --- the best


def _best(runs: _Runs, known: Sequence[KnownDataset], task: str) -> Iterator[BestOnDataset]:
    for one in known:
        for name, metric in one.metrics.items():
            if task in ("", name):
                found = _best_of(runs, one, name, metric)
                if found is not None:
                    yield found


def _best_of(runs: _Runs, known: KnownDataset, task: str, metric: str) -> BestOnDataset | None:
    # Where a dataset does not define the main metric, the mean score stands in.
    among = _AMONG if len(known.metrics) == 1 else _OF_SEVERAL_TASKS
    found = ((name, _best_ids(runs.context, known, name, among=among)) for name in (metric, SCORE))
    shown, ids = next(((name, best) for name, best in found if best), (metric, []))
    # Two tasks may have the same metric.
    of_task = [(run, facts) for run, facts in runs.read(ids) if task_of(run) == task]
    judged = [(run, facts, judged_observation(run, facts)) for run, facts in of_task]
    sound = [(run, facts, fact) for run, facts, fact in judged if fact is not None and fact.metric == shown]
    if not sound:
        return None
    return BestOnDataset.of(
        known,
        dataset=known.name,
        task=task,
        title=metric_title(shown),
        rows=[_row(run, facts) for run, facts, _ in sound[:BEST]],
        note=_note([(run, fact) for run, _, fact in sound[:_AMONG]], every=len(ids) < among and len(sound) <= _AMONG),
    )


def _best_ids(
    context: Context, known: KnownDataset, metric: str, *, until: datetime | None = None, among: int = _AMONG
) -> list[str]:
    wanted = RunsWanted(datasets=(known.name,), until=until)
    best = best_runs(context.runs, wanted, metric, largest=higher_is_better(metric), among=among)
    return [run_id for run_id, _ in best.get(known.name, ())]


def _row(run: Run, figures: Sequence[Observation]) -> BestModel:
    return BestModel(run=run_item(run, figures), size=figure_named(figures, "file_size"))


def _note(sound: Sequence[tuple[Run, Observation]], *, every: bool) -> str:
    """Whether the best is clearly the best, as far as intervals of single runs tell. `every`: no further model has the
    figure."""
    (_, best), *others = sound
    if not others:
        return ""
    if promised_interval(best) is None:
        return "Without an interval nobody knows whether it is clearly the best."
    names = [run.ref.partition("@")[0] for run, _ in others]
    apart = [beyond(best, fact) for _, fact in others]
    touching = [name for name, clear in zip(names, apart, strict=True) if clear is False]
    unknown = [name for name, clear in zip(names, apart, strict=True) if clear is None]
    if touching:
        more = "" if every or len(touching) < len(others) else ", and maybe further ones"
        verb = "has an interval that reaches" if len(touching) == 1 else "have intervals that reach"
        named = f"{first_few(touching, _NAMED)}{more}"
        return f"{named} {verb} into that of the first: only a comparison tells which is better."
    if unknown:
        verb = "has" if len(unknown) == 1 else "have"
        return f"{first_few(unknown, _NAMED)} {verb} no interval: only a comparison tells which is better."
    return f"Its interval lies beyond those of {'all others' if every else f'the next {len(others)}'}."


# --- what changed


def _changes(runs: _Runs, chosen: tuple[str, ...], known: Sequence[KnownDataset], days: int) -> Changes:
    recent = recent_changes(runs.context, chosen, days)
    lines = list(_new_best(runs, known, recent.since)) if recent.days else []
    lines += [Change.of(moved) for moved in recent.moved[:_MOST_MOVED]]
    return Changes.of(recent, lines=lines, more=max(0, len(recent.moved) - _MOST_MOVED))


def _new_best(runs: _Runs, known: Sequence[KnownDataset], since: datetime) -> Iterator[Change]:
    """Datasets whose best model is another one than before, by intervals that do not touch."""
    for one in known:
        for metric in dict.fromkeys(one.metrics.values()) if one.newest >= since else ():
            ids = [_best_ids(runs.context, one, metric, until=until, among=1) for until in (None, since)]
            if all(ids):
                yield from _overtaken(one, metric, runs.read([ids[0][0], ids[1][0]]))


def _overtaken(known: KnownDataset, metric: str, both: Sequence[tuple[Run, Sequence[Observation]]]) -> Iterator[Change]:
    if len(both) < 2:
        return
    (new, facts), (old, others) = both
    ours, theirs = judged_observation(new, facts), judged_observation(old, others)
    if new.ref == old.ref or ours is None or theirs is None or not ours.metric == theirs.metric == metric:
        return
    if task_of(new) != task_of(old):
        return
    if not beyond(ours, theirs):
        return
    words = f"{new.ref.partition('@')[0]} comes first on {known.name} by {metric_title(ours.metric)}"
    before = f"{old.ref.partition('@')[0]} did, with {with_interval(theirs)}"
    yield Change(sentence=f"{words}: {with_interval(ours)}; {before}", run=new.id, before=old.id)


# --- what needs a look


def _alarms(context: Context, chosen: tuple[str, ...]) -> Iterator[Alarm]:
    failed = unmended_failures(context.runs, RunsWanted(datasets=chosen))
    if len(failed) == 1:
        (run,) = context.store.runs_of(failed, stages=False)
        words = f"The evaluation of {run.ref.partition('@')[0]} has a stage that failed."
        yield Alarm(level="medium", sentence=words, page="run", rest=run.id, about=_digest(failed))
    elif failed:
        words = f"{len(failed):,} evaluations have a stage that failed; none was repeated with success."
        yield Alarm(level="medium", sentence=words, page="runs", rest="", about=_digest(failed))
    with suppress(ZoolensError):
        yield from _audit(context, chosen)
    lost = [agent.record.id for agent in agents(context.store) if not agent.record.alive]
    if lost:
        words = "1 machine" if len(lost) == 1 else f"{len(lost):,} machines"
        sentence = f"{words} of the fleet gave no sign of life."
        yield Alarm(level="medium", sentence=sentence, page="fleet", rest="", about=_digest(lost))
    broken = [folder for folder in context.jobs.jobs()[:_NEWEST] if folder.state is JobState.FAILED]
    if broken:
        named = first_few([str(folder.asked().get("title", "")) for folder in broken], _NAMED)
        words = f"Of the newest jobs failed: {named}."
        yield Alarm(level="low", sentence=words, page="jobs", rest="", about=_digest(folder.id for folder in broken))


def _digest(names: Iterable[str]) -> str:
    return fingerprint(sorted(names))[:_DIGITS]


def _audit(context: Context, chosen: tuple[str, ...]) -> Iterator[Alarm]:
    """The gravest findings of the last audit that ended well; where datasets are chosen, those about models that were
    run on them."""
    done = [one for one in audits(context, Paged.model_validate({"limit": _NEWEST})).rows if one.state is JobState.DONE]
    if not done:
        return
    about = models_run_on(context.runs, chosen) if chosen else None
    counts = gravest_first(context, done[0].id, about)
    level: Level | None = next((severity for severity in ("high", "medium") if severity in counts), None)
    if level is not None:
        words = ", ".join(f"{count:,} {severity}" for severity, count in counts.items())
        where = "" if about is None else " about models that were run on this data"
        sentence = f"The last audit found{where}: {words}."
        yield Alarm(level=level, sentence=sentence, page="audit", rest=done[0].id, about=_digest([done[0].id, words]))


def _services(context: Context) -> list[ServiceSession]:
    """The newest sessions of services, those that answer now first."""
    runs = context.store.runs_of(context.store.run_ids(kind=RunKind.SERVING, limit=_SHOWN))
    found = [session_summary(session_of(context.store, run)) for run in runs]
    return sorted(found, key=lambda session: session.state != "active")


ENDPOINTS: Final = (Endpoint("/home", "What there is, what is good, what changed and what needs a look", home),)
