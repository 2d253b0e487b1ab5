"""What is new in the store since some days ago: runs, a new best model, figures that moved beyond their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from zoolens.base.present.figures import with_interval
from zoolens.base.present.metric_words import metric_title
from zoolens.base.store.browsing import RunsWanted, matching
from zoolens.base.store.records import Observation, Run
from zoolens.base.store.run_columns import STATES, RunColumns, RunState
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.page_figures import LISTED, listed_figures
from zoolens.findings.measure.run_data import judged_observation, main_figure

SPANS: Final = (1, 7, 30)  # days
MOST_COMPARED: Final = 60  # runs, the newest, each with the one before it


@dataclass(frozen=True)
class Moved:
    """A figure of a model in a runtime whose interval lies beyond that of the run before."""

    run: str
    before: str
    sentence: str
    share: float  # of the change in the figure before


@dataclass(frozen=True)
class Recent:
    """What is new since `since`. `days` is 0 where nothing is, as far back as `SPANS` go."""

    days: int
    since: datetime
    runs: int = 0
    failed: int = 0
    models: int = 0  # that had not been run before
    compared: int = 0  # runs that were held against the run before them
    moved: tuple[Moved, ...] = ()  # the largest change first


def recent_changes(context: Context, datasets: tuple[str, ...], days: int = 0) -> Recent:
    """`days`: how far back; 0: as few of `SPANS` as have something new."""
    columns, now = context.runs.columns(), datetime.now(UTC)
    fitting = matching(columns, RunsWanted(datasets=datasets))
    for span in (days,) if days else SPANS:
        since = now - timedelta(days=span)
        new = np.flatnonzero(fitting & (columns.created >= np.datetime64(since.replace(tzinfo=None), "us")))
        if len(new):
            return _recent(context, columns, fitting, new, Recent(span, since))
    return Recent(0, now - timedelta(days=days or SPANS[-1]))


def _recent(context: Context, columns: RunColumns, fitting: np.ndarray, new: np.ndarray, about: Recent) -> Recent:
    old = fitting.copy()
    old[new] = False
    before = {columns.models[code].name for code in np.unique(columns.model[old]).tolist()}
    names = {columns.models[code].name for code in np.unique(columns.model[new]).tolist()}
    pairs = list(_pairs(columns, np.flatnonzero(fitting), new[::-1][:MOST_COMPARED]))
    moved = sorted(_moved(context, pairs), key=lambda one: -one.share)
    failed = np.count_nonzero(columns.state[new] == STATES.index(RunState.FAILED))
    return Recent(about.days, about.since, len(new), int(failed), len(names - before), len(pairs), tuple(moved))


def _pairs(columns: RunColumns, fitting: np.ndarray, new: np.ndarray) -> Iterator[tuple[str, str]]:
    """Each new run with the last one before it of the same model and runtime on the same dataset."""

    def subject(place: int) -> tuple[str, int, str]:
        model, stack = columns.models[columns.model[place]], columns.stacks[columns.stack[place]]
        return model.name, int(columns.dataset[place]), stack.name

    wanted = {subject(place): place for place in new.tolist()[::-1]}  # of each, the newest
    models = {name for name, *_ in wanted}
    codes = np.array([model.name in models for model in columns.models], np.bool_)
    last: dict[tuple[str, int, str], int] = {}
    for place in fitting[codes[columns.model[fitting]]].tolist():
        known = subject(place)
        if known in wanted and place < wanted[known]:
            last[known] = place
    for known, place in wanted.items():
        if known in last:
            yield columns.ids[place], columns.ids[last[known]]


def _moved(context: Context, pairs: Sequence[tuple[str, str]]) -> Iterator[Moved]:
    runs = {run.id: run for run in context.store.runs_of([run_id for pair in pairs for run_id in pair], stages=False)}
    figures = listed_figures(context.store, list(runs.values()))
    for new, old in pairs:
        if new in runs and old in runs:
            yield from _moved_figures(runs[new], figures[new], runs[old], figures[old])


def _moved_figures(
    run: Run, figures: Sequence[Observation], before: Run, others: Sequence[Observation]
) -> Iterator[Moved]:
    ours = [judged_observation(run, figures), *(main_figure(figures, metric) for metric in LISTED)]
    theirs = [judged_observation(before, others), *(main_figure(others, metric) for metric in LISTED)]
    for now, then in zip(ours, theirs, strict=True):
        if now is not None and then is not None and _apart(now, then):
            model = run.ref.partition("@")[0]
            what = f"{metric_title(now.metric)} of {model} in {run.stack.runtime}"
            sentence = f"{what}: {with_interval(then)} → {with_interval(now)}"
            assert now.value is not None
            assert then.value is not None
            yield Moved(run.id, before.id, sentence, abs(now.value - then.value) / (abs(then.value) or 1.0))


def _apart(now: Observation, then: Observation) -> bool:
    """Whether two figures of the same kind have intervals that do not touch."""
    if (now.metric, now.scope) != (then.metric, then.scope) or None in (now.value, then.value):
        return False
    if now.low is None or now.high is None or then.low is None or then.high is None:
        return False
    return now.low > then.high or now.high < then.low
