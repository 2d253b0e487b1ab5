"""The metrics of a task whose truths are more than classes: AP, mIoU, entity F1 and the like, with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from zoolens.base.errors import StoreError
from zoolens.base.statistics.anytime import share_interval
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.statistics.resampling import ResampledEstimate, lowered, resampled_estimates
from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import class_scope
from zoolens.findings.measure.answers import iter_predictions
from zoolens.findings.measure.predictions import Predictions
from zoolens.findings.measure.run_data import MAIN_METRIC
from zoolens.findings.measure.stages import Context
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.task import Judging, Task, judged_at_once, taken_answers, task_named

TASK_METRICS: Final = "task"  # the stage metric:task
NOT_COVERED: Final = "resampling is known not to cover this metric as often as it should"
RESAMPLING: Final = "resampling of inputs"
NOTES: Final = "judgement"  # in run.resolved: what a reader should know of the figures


def measure_task(context: Context) -> list[Observation]:
    """The task's own metrics, from what the run answered and what the dataset says is right."""
    run = context.store.run(context.run.id)  # with what the answers told
    found = _judged_parts(iter_predictions(context.store, run))
    judged = found.judging.judgement() if found.known else None
    observed = [] if judged is None else list(_observed(judged, found.known, context.dataset.classes))
    if notes := list(_notes(found, judged, observed)):
        context.store.set_resolved(run.id, {NOTES: notes})
    if judged is None:
        return []
    if context.dataset.truth_kind in found.task.other_truths:
        context.store.set_resolved(run.id, {MAIN_METRIC: judged.main.name})
    return [*observed, *_mean_score(found)]


def _notes(found: _Judged, judged: Judgement | None, observed: Sequence[Observation]) -> Iterator[str]:
    if found.known < found.total:
        has = "has" if found.known == 1 else "have"
        yield f"{found.known:,} of {found.total:,} inputs {has} a truth that judges them"
    if judged is not None:
        yield from judged.notes
        if all(one.metric != judged.main.name for one in observed):
            yield f"no {judged.main.name}, which these answers and truths do not define"


@dataclass
class _Judged:
    """The answers of a run that have a truth, judged part by part."""

    task: Task
    judging: Judging
    known: int = 0
    total: int = 0


def _judged_parts(parts: Iterable[Predictions]) -> _Judged:
    found: _Judged | None = None
    truths = True
    for part in parts:
        if found is None:
            task = task_named(part.main.task)
            found = _Judged(task, task.judging())
        known = np.flatnonzero(part.known)
        found.total += len(part)
        # A run that was begun before its task had truths, and finished since, is judged by none.
        truths = truths and bool(part.main.truths)
        if truths and len(known):
            found.known += len(known)
            main = part.main if len(known) == len(part) else taken_answers(part.main, known)
            found.judging.add(main, part.labels[known])
    if found is None:
        raise StoreError("The run has no answers.", hint="Measure it again with `zoolens eval --fresh`.")
    if not truths:
        found.known = 0
    return found


def judgement_of(predictions: Predictions) -> Judgement | None:
    """What the truths say of the main output; None where no input has one, or where the task has no metrics."""
    known = predictions.known
    if not known.any():
        return None
    answers = predictions.main if known.all() else taken_answers(predictions.main, np.flatnonzero(known))
    return judged_at_once(answers, predictions.labels[known]).judgement()


def _observed(judged: Judgement, inputs: int, names: Sequence[str] | None) -> Iterator[Observation]:
    """All metrics, then those of classes. One pass over the resamples serves all of them."""
    estimates = iter(resampled_estimates(judged.with_classes, inputs, judged.limits, rows=judged.rows))
    for metric in judged.metrics:
        yield from _observation(metric, next(estimates), inputs, partial(judged.optimism, metric.name))
    by_class = judged.by_class
    if by_class is None:
        return
    for place, index in enumerate(by_class.classes):
        for found in _observation(by_class.metric, next(estimates), inputs, partial(by_class.optimism, place)):
            named = {"class": names[index]} if names and index < len(names) else {}
            yield replace(found, scope=class_scope(index), details={**found.details, **named})


def _observation(
    metric: Metric, estimate: ResampledEstimate, inputs: int, too_high: Callable[[], float]
) -> Iterator[Observation]:
    """`too_high`: by how much, which takes longer than the metric and is asked only where there is an interval."""
    if np.isnan(estimate.value):
        # A figure that is not defined on these inputs, such as the AP of small objects where there are none.
        return
    details: dict[str, Any] = {"confidence": CONFIDENCE, "lower_is_better": metric.lower_is_better}
    if metric.blind is not None:
        details["blind"] = metric.blind
    low = high = None
    if not metric.interval:
        details["no_interval"] = NOT_COVERED
    elif estimate.interval is not None:
        optimism = too_high()
        low, high = lowered(estimate, metric.limits, optimism).interval or estimate.interval
        details["interval"] = RESAMPLING
        if optimism > 0:
            details["optimism"] = optimism  # by which the lower end was lowered
    elif estimate.unknown is not None:
        details["no_interval"] = estimate.unknown.value
    yield Observation(metric.name, estimate.value, unit=metric.unit, low=low, high=high, n=inputs, details=details)


def _mean_score(found: _Judged) -> Iterator[Observation]:
    """How right the answers are on average, input by input: what paired tests look at."""
    scores = found.judging.scores()
    if scores is None:
        return
    (low, high), method = share_interval(scores)
    details = {"interval": method, "confidence": CONFIDENCE, "task": found.task.name}
    value = float(scores.mean())
    yield Observation("score", value, unit="fraction", low=low, high=high, n=len(scores), details=details)
