"""One figure of a model over time: every run on the same dataset, by environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from zoolens.base.present.charts import FILLS, SERIES, Chart, Spec, axis, heading, quantity, series, values
from zoolens.base.present.figures import figure, stack_label
from zoolens.base.store.records import Observation, Run, is_disturbed
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.class_order import judged_right

WIDTH: Final = 640
MOST_RUNS: Final = 2000
MOST_STACKS: Final = 8  # with a colour of their own
_OTHERS: Final = "other environments"
_CONTENTS: Final = ("its content now", "another content")
_WORDS: Final = {"top1": "top-1", "top5": "top-5"}
_FACTORS: Final = {"fraction": (0.01, "%"), "s": (1e-3, "ms"), "B": (1e6, "MB")}
_SCOPES: Final = {"latency": batch_scope(1), "throughput": batch_scope(1)}


@dataclass(frozen=True)
class HistoryPoint:
    """The figure of one run."""

    run: str
    created: datetime
    ref: str
    stack: str
    format: str
    content: str  # digest of the model's files and of the parts of its manifest that change answers
    current: bool  # the newest run of this name and file format has the same content
    value: float
    low: float | None
    high: float | None
    disturbed: bool
    observed: Observation  # as the store has it, with where it comes from


@dataclass(frozen=True)
class History:
    """One figure of a model over time, on one dataset."""

    model: str
    metric: str
    scope: str
    unit: str
    dataset: str
    points: tuple[HistoryPoint, ...]  # oldest first
    others: int  # runs on other datasets, which are left out
    unknown: int  # runs without this figure


def run_history(
    store: Store, model: str, metric: str = "top1", scope: str | None = None, *, dataset: str | None = None
) -> History:
    """Return one figure of a model over all its runs on one dataset.

    `model`: a name or a pattern, as `Store.runs` takes it. `scope`: the figure's, by default that of batch size 1
    for timings. `dataset`: a fingerprint, by default that of the dataset with most runs.
    """
    where = scope if scope is not None else _SCOPES.get(metric.partition("_p")[0], "")
    runs = store.runs(model=model, limit=MOST_RUNS)
    chosen = dataset or _usual_data(runs)
    here = [run for run in runs if run.dataset.fingerprint == chosen]
    known = store.observations_by_run([run.id for run in here], metrics=[metric])
    points, unit = [], ""
    newest: dict[tuple[str, str], str] = {}
    for run in here:  # the newest first
        content = newest.setdefault((run.ref, run.model.format), run.model.fingerprint)
        observations = judged_right(run, known.get(run.id, []))
        figure = next((each for each in observations if each.scope == where), None)
        if figure is not None and figure.value is not None:
            unit = figure.unit
            points.append(_point(run, figure, figure.value, current=content == run.model.fingerprint))
    points.reverse()
    return History(
        model,
        metric,
        where,
        unit,
        dataset=here[0].dataset.name if here else "",
        points=tuple(points),
        others=len(runs) - len(here),
        unknown=len(here) - len(points),
    )


def _usual_data(runs: Sequence[Run]) -> str | None:
    counted = Counter(run.dataset.fingerprint for run in runs)
    return max(counted, key=lambda data: counted[data], default=None)


def _point(run: Run, observed: Observation, value: float, *, current: bool) -> HistoryPoint:
    stack = stack_label(run)
    machine = (run.stack.identity.get("machine") or {}).get("cpu")
    return HistoryPoint(
        run=run.id,
        created=run.created,
        ref=run.ref,
        stack=f"{stack} on {machine}" if machine else stack,
        format=run.model.format,
        content=run.model.fingerprint[:12],
        current=current,
        value=value,
        low=observed.low,
        high=observed.high,
        disturbed=is_disturbed(observed),
        observed=observed,
    )


def history_chart(history: History) -> Chart:
    """Return points with confidence intervals over time, one colour an environment.

    A square marks runs where the name meant another content than now. The selection "picked" has the chosen runs.
    """
    factor, unit = _FACTORS.get(history.unit, (1.0, history.unit))
    stacks = [name for name, _ in Counter(point.stack for point in history.points).most_common()]
    names = dict(zip(stacks, _without_common_end(stacks), strict=True))
    legend = list(names.values())[:MOST_STACKS] + ([_OTHERS] if len(names) > MOST_STACKS else [])
    series_names = {stack: name if name in legend else _OTHERS for stack, name in names.items()}
    rows = [_row(history, point, factor, series_names[point.stack]) for point in history.points]
    what = _WORDS.get(history.metric, history.metric.replace("_", " ")) + (
        f" at {history.scope.replace('=', ' ')}" if history.scope else ""
    )
    title = f"{what[:1].upper()}{what[1:]} over time"
    when = {"title": "UTC", "labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 8, "tickCount": 6}
    x = {
        "field": "when", "type": "temporal", "scale": {"type": "utc", "nice": False, "padding": 20},
        "axis": {**when, "format": _time_format(history.points)},
    }  # fmt: skip
    ends = [end for row in rows for end in (row["value"], row["low"], row["high"]) if end is not None] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    room = 0.08 * (high - low) or abs(high) * 0.1 or 1.0
    labels = {**axis(tickCount=6), "title": f"{what} in {unit}" if unit else what}
    y = quantity("value", max(low - room, 0.0) if low >= 0 else low - room, high + room, labels)
    colour = series("of", legend or ["no runs"], SERIES, columns=1, symbolType="circle")
    shape = {"field": "content", "scale": {"domain": _CONTENTS, "range": ["circle", "square"]}, "legend": None}
    layers: list[Spec] = [
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "params": [{"name": "picked", "select": {"type": "point", "fields": ["run"]}}],
            "mark": {"type": "point", "filled": True, "size": 75},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                "shape": shape,
                "opacity": {"condition": {"param": "picked", "value": 0.95}, "value": 0.25},
                "tooltip": [{"field": "words", "type": "nominal", "title": "run"}],
            },
        },
    ]
    about = heading(title, _subtitle(history))
    spec = {**FILLS, "title": about, "width": WIDTH, "height": 260, "data": values(rows)}
    return Chart("history", f"{title} of {history.model}", {**spec, "layer": layers})


def _row(history: History, point: HistoryPoint, factor: float, name: str) -> dict[str, Any]:
    return {
        "when": point.created.timestamp() * 1000,
        "value": point.value / factor,
        "low": None if point.low is None else point.low / factor,
        "high": None if point.high is None else point.high / factor,
        "of": name,
        "run": point.run,
        "content": _CONTENTS[0] if point.current else _CONTENTS[1],
        "words": _words(history, point),
    }


def _time_format(points: Sequence[HistoryPoint]) -> str:
    """How finely times must be told apart."""
    times = [point.created for point in points]
    seconds = (max(times) - min(times)).total_seconds() if times else 0.0
    for least, form in ((400 * 86_400, "%Y-%m"), (3 * 86_400, "%b %d"), (1_200, "%b %d %H:%M")):
        if seconds >= least:
            return form
    return "%H:%M:%S"


def _without_common_end(names: Sequence[str]) -> list[str]:
    """Stacks that all ran on one machine are named without it."""
    machines = {name.partition(" on ")[2] for name in names}
    return [name.partition(" on ")[0] for name in names] if len(machines) == 1 else list(names)


def _words(history: History, point: HistoryPoint) -> str:
    interval = ""
    if point.low is not None and point.high is not None:
        interval = f" [{figure(point.low, history.unit)}, {figure(point.high, history.unit)}]"
    busy = ", under load" if point.disturbed else ""
    when = f"{point.created:%Y-%m-%d %H:%M} UTC"
    return f"{point.run[:8]}: {figure(point.value, history.unit)}{interval}{busy}, {point.stack}, {when}"


def _subtitle(history: History) -> str:
    runs = len(history.points)
    words = [f"{runs:,} run{'s' * (runs != 1)} on {history.dataset}" if history.dataset else "No runs"]
    if history.others:
        words.append(f"{history.others:,} on other datasets left out")
    if history.unknown:
        words.append(f"{history.unknown:,} without this figure")
    if not all(point.current for point in history.points):
        words.append("squares: another content than the name has now")
    return "; ".join(words)
