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
from zoolens.base.store.records import Observation, Run, is_beside_work
from zoolens.base.store.run_columns import STATES, RunColumns, RunState
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.page_figures import LISTED, beyond, listed_figures
from zoolens.findings.comparisons.conditions import incomparable, other_conditions
from zoolens.findings.comparisons.machine_kinds import kind_of_stack
from zoolens.findings.measure.run_data import judged_observation, main_figure

SPANS: Final = (1, 7, 30)  # days
MOST_COMPARED: Final = 60  # runs, the newest, each with the one before it
_ENVIRONMENTS: Final = 4  # in which the same was run before, the newest

_Pair = tuple[str, list[str]]  # ids of a new run and of those that it may be held against


@dataclass(frozen=True)
class Moved:
    """A figure of a model in a runtime whose interval lies beyond that of a comparable run before."""

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
    pairs = _comparable(context, list(_pairs(columns, np.flatnonzero(fitting), new, new[::-1][:MOST_COMPARED])))
    moved = sorted(_moved(context, pairs), key=lambda one: -one.share)
    failed = np.count_nonzero(columns.state[new] == STATES.index(RunState.FAILED))
    return Recent(about.days, about.since, len(new), int(failed), len(names - before), len(pairs), tuple(moved))


def _pairs(columns: RunColumns, fitting: np.ndarray, new: np.ndarray, shown: np.ndarray) -> Iterator[_Pair]:
    """Each of the `shown` new runs with those that it may be held against: of the same model and runtime on the same
    dataset, the newest of each environment. Those from before the span come first, so that a change is not hidden by
    a repetition of it."""

    def subject(place: int) -> tuple[str, int, str]:
        model, stack = columns.models[columns.model[place]], columns.stacks[columns.stack[place]]
        return model.name, int(columns.dataset[place]), stack.name

    wanted = {subject(place): place for place in sorted(shown.tolist())}  # of each, the newest
    models = {name for name, *_ in wanted}
    codes = np.array([model.name in models for model in columns.models], np.bool_)
    is_new = np.zeros(len(columns), np.bool_)
    is_new[new] = True
    last: dict[tuple[str, int, str], dict[tuple[bool, int], int]] = {}
    for place in fitting[codes[columns.model[fitting]]].tolist():
        known = subject(place)
        if known in wanted and place < wanted[known]:
            last.setdefault(known, {})[bool(is_new[place]), int(columns.stack[place])] = place
    for known, place in wanted.items():
        before = sorted(last.get(known, {}).items(), key=lambda one: (one[0][0], -one[1]))
        if before:
            yield columns.ids[place], [columns.ids[other] for _, other in before[:_ENVIRONMENTS]]


def _comparable(context: Context, pairs: Sequence[_Pair]) -> list[tuple[Run, Run]]:
    """Each new run with the first of the others that was asked to run likewise and was measured in the same way, on the
    same machine where there is one."""
    ids = [run_id for new, others in pairs for run_id in (new, *others)]
    runs = {run.id: run for run in context.store.runs_of(list(dict.fromkeys(ids)), stages=False)}
    found = []
    for new, others in pairs:
        if new not in runs:
            continue
        known = [runs[other] for other in others if other in runs and not incomparable(runs[new], runs[other])]
        here = [run for run in known if _same_hardware(runs[new], run)]
        if known:
            found.append((runs[new], (here or known)[0]))
    return found


def _moved(context: Context, pairs: Sequence[tuple[Run, Run]]) -> Iterator[Moved]:
    figures = listed_figures(context.store, [run for pair in pairs for run in pair])
    for run, before in pairs:
        yield from _moved_figures(run, figures[run.id], before, figures[before.id])


def _moved_figures(
    run: Run, figures: Sequence[Observation], before: Run, others: Sequence[Observation]
) -> Iterator[Moved]:
    ours, theirs = judged_observation(run, figures), judged_observation(before, others)
    pairs = [(ours, theirs)]
    if _same_hardware(run, before):
        pairs += [(main_figure(figures, metric), main_figure(others, metric)) for metric in LISTED]
    for now, then in pairs:
        if now is not None and then is not None and _apart(now, then):
            model = run.ref.partition("@")[0]
            what = f"{metric_title(now.metric)} of {model} in {run.stack.runtime}"
            apart = ", ".join(_differences(run, before))
            sentence = f"{what}: {with_interval(then)} → {with_interval(now)}" + (f" ({apart})" if apart else "")
            assert now.value is not None
            assert then.value is not None
            yield Moved(run.id, before.id, sentence, abs(now.value - then.value) / (abs(then.value) or 1.0))


def _same_hardware(run: Run, before: Run) -> bool:
    """Whether times of both say something about the model: on another machine, or one nobody knows, they do not."""
    ours, theirs = (kind_of_stack(one.stack.runtime, one.stack.identity) for one in (run, before))
    return ours.same_hardware(theirs)


def _differences(run: Run, before: Run) -> Iterator[str]:
    """What else was not the same."""
    if run.stack.version != before.stack.version:
        yield f"{run.stack.runtime} {run.stack.version or '?'} instead of {before.stack.version or '?'}"
    yield from other_conditions(run, before)
    ours, theirs = (kind_of_stack(one.stack.runtime, one.stack.identity) for one in (run, before))
    if ours.hardware != theirs.hardware:
        yield "another machine"


def _apart(now: Observation, then: Observation) -> bool:
    """Whether two figures of the same kind have intervals that do not touch, and nothing disturbed them."""
    if (now.metric, now.scope, now.unit) != (then.metric, then.scope, then.unit):
        return False
    return bool(beyond(now, then)) and not is_beside_work(now) and not is_beside_work(then)
