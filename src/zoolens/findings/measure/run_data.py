"""One run as plain data: what `zoolens runs show --json` prints and the explorer gives for a download."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from zoolens.base.errors import UnknownName
from zoolens.base.present.figures import NOTHING, with_interval
from zoolens.base.store.records import Observation, Run, StageState
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.findings.measure.class_order import judged_right
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named

ACCURACY: Final = "top1"
MAIN_METRIC: Final = "main_metric"  # in run.resolved: of answers that are judged in another way than usual for the task
SCORE: Final = "score"  # how right the answers are on average, input by input
# What stands beside the metric that judges a task, in the order in which a reader asks for it.
_BESIDE: Final = {"bits_per_byte": ("perplexity", "bits_per_byte", "next_token_accuracy")}


def run_facts(run: Run) -> dict[str, Any]:
    """What sets a run apart in a list."""
    return {
        "id": run.id,
        "created": run.created.isoformat(),
        "attempt": run.key.attempt,
        "runtime": run.stack.runtime,
        "runtime_version": run.stack.version,
        "precision": run.precision,
        "purpose": purpose(run),
    }


def purpose(run: Run) -> str:
    """Whether somebody asked for an evaluation, the doctor tried one, or what else the run is about."""
    return str(run.kind)


def main_metric(run: Run) -> str:
    """The metric that says how good the answers of a run are: top-1 of classes, AP of boxes."""
    if MAIN_METRIC in run.resolved:
        return str(run.resolved[MAIN_METRIC])
    outputs = run.resolved.get("outputs") or run.model.manifest.get("outputs") or [{}]
    try:
        metric = task_named(outputs[0].get("task") or DEFAULT_TASK).metric
    except UnknownName:
        # The plug-in that brought the task is not installed here.
        metric = None
    return metric or ACCURACY


def judging_beside(metric: str) -> tuple[str, ...]:
    """The metric that judges a task, with what a reader asks for beside it."""
    return _BESIDE.get(metric, (metric,))


def judged_figure(run: Run, observations: Iterable[Observation]) -> str:
    """The main metric with its interval, after its name unless it is the accuracy of classes, which a heading names.

    Where the dataset does not define it, such as the AUC of frames for sounds without times, the mean score stands in.
    """
    found = judged_observation(run, observations)
    shown = with_interval(found)
    return shown if found is None or found.metric == ACCURACY or shown == NOTHING else f"{found.metric} {shown}"


def judged_observation(run: Run, observations: Iterable[Observation]) -> Observation | None:
    """The figure of the whole run that says how good its answers are; None: it has none."""
    metric, known = main_metric(run), list(observations)
    found = main_figure(known, metric)
    return main_figure(known, SCORE) if found is None and metric != ACCURACY else found


def judging_metrics(runs: Iterable[Run]) -> list[str]:
    """The metrics that `judged_observation` of these runs looks for."""
    judged = set(map(main_metric, runs))
    # The mean score stands in where a dataset does not define the main metric.
    return sorted(judged | ({SCORE} if judged - {ACCURACY} else set()))


def judged_heading(runs: Iterable[Run]) -> str:
    """What the column of `judged_figure` is called."""
    return "top-1 [95 %]" if all(main_metric(run) == ACCURACY for run in runs) else "main metric [95 %]"


def main_figure(observations: Iterable[Observation], metric: str) -> Observation | None:
    """The figure of a metric that stands for a run: of the whole run, or else of the smallest batch with interference
    removed; never of a single class or a raw timing."""
    fitting = [known for known in observations if known.metric == metric and _stands_for_run(known.scope)]
    return min(fitting, key=lambda known: (len(known.scope), known.scope), default=None)


def _stands_for_run(scope: str) -> bool:
    parsed = parse_scope(scope)
    return not parsed.raw and (scope == "" or parsed.dimension is Dimension.BATCH)


def run_data(run: Run, stages: Mapping[str, StageState], observations: Sequence[Observation]) -> dict[str, Any]:
    """Everything about a run, without the figures that were made in a wrong order of classes."""
    right = judged_right(run, observations)
    return {
        **run_facts(run),
        **asdict(run),
        "observations": [asdict(observation) for observation in right],
        "stages": {name: asdict(state) for name, state in stages.items()},
    }
