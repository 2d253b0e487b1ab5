"""A number as the API gives it: with its interval, where it comes from, and the words that every page shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zoolens.base.present.figures import class_name, has_old_interval, provenance_mark, with_interval, without_interval
from zoolens.base.present.metric_words import metric_title, scope_title
from zoolens.base.present.pages import Tile
from zoolens.base.store.records import Observation, Provenance, Run
from zoolens.base.store.store import Store
from zoolens.faces.ui.endpoint import Answer, Shown
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.run_data import judged_observation, judging_metrics, main_figure

LISTED: Final = ("latency_p50",)  # the figures that lists of runs show beside the one that judges a run


class Figure(Answer):
    """`words` is the value with its unit, and marks where it is a claim or was disturbed; `interval` is the value with
    the interval in the same unit. `value` is null where it could not be had, and `reason` says why."""

    metric: Shown
    scope: Shown
    title: Shown
    """The metric in words, such as "median latency", and `part` likewise what the figure is of: "batches of 8"."""
    part: Shown
    value: float | None
    low: float | None
    high: float | None
    unit: Shown
    n: int | None
    provenance: Provenance
    words: Shown
    interval: Shown
    reason: Shown


class TileItem(Answer):
    """A large figure at the head of a page."""

    figure: Shown
    title: Shown


def tile_items(tiles: Iterable[Tile]) -> list[TileItem]:
    return [TileItem(figure=tile.figure, title=tile.caption) for tile in tiles]


def figure_of(observation: Observation) -> Figure:
    """An observation of the store in the words of reports and of the terminal."""
    mark, covered = provenance_mark(observation), not has_old_interval(observation)
    return Figure.of(
        observation,
        title=metric_title(observation.metric),
        part=scope_title(observation.scope, class_name(observation)),
        low=observation.low if covered else None,
        high=observation.high if covered else None,
        words=without_interval(observation) + mark,
        interval=with_interval(observation) + mark,
        reason=str(observation.details.get("reason") or ""),
    )


def listed_figures(store: Store, runs: Sequence[Run], more: Sequence[str] = ()) -> Mapping[str, Sequence[Observation]]:
    """What lists show of these runs, by run, without the figures that were made in a wrong order of classes."""
    metrics = sorted({*LISTED, *judging_metrics(runs), *more})
    stored = store.observations_by_run([run.id for run in runs], metrics=metrics)
    return {run.id: judged_right(run, stored.get(run.id, ())) for run in runs}


def judging_figure(run: Run, observations: Iterable[Observation]) -> Figure | None:
    """The figure that says how good the answers of a run are: top-1 of classes, AP of boxes."""
    found = judged_observation(run, observations)
    return None if found is None else figure_of(found)


def promised_interval(observation: Observation) -> tuple[float, float] | None:
    """The ends of an interval that holds the true value as often as it says; None: there is none, as of a range of few
    repeats, of ticks of a clock without spread, or of what nobody measured."""
    low, high, method = observation.low, observation.high, observation.details.get("interval")
    if observation.value is None or low is None or high is None or has_old_interval(observation):
        return None
    if observation.provenance is not Provenance.MEASURED or method == "range":
        return None
    if low == high and method != "order statistics":
        return None
    return low, high


def beyond(one: Observation, other: Observation) -> bool | None:
    """Whether the intervals of two figures do not touch; None: one of them promises nothing."""
    ours, theirs = promised_interval(one), promised_interval(other)
    if ours is None or theirs is None:
        return None
    return ours[0] > theirs[1] or ours[1] < theirs[0]


def figure_named(observations: Iterable[Observation], metric: str, scope: str | None = None) -> Figure | None:
    """The figure of a metric in a scope; without one, the figure that stands for the run."""
    if scope is None:
        found = main_figure(observations, metric)
    else:
        found = next((known for known in observations if (known.metric, known.scope) == (metric, scope)), None)
    return None if found is None else figure_of(found)
