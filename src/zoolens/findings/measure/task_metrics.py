"""The metrics of a task whose truths are more than classes: AP, mIoU, entity F1 and the like, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zoolens.base.statistics.anytime import share_interval
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.statistics.resampling import Aggregate, resampled_estimate
from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import class_scope
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.predictions import Predictions
from zoolens.findings.measure.run_data import MAIN_METRIC
from zoolens.findings.measure.stages import Context
from zoolens.inventory.tasks.judgement import ClassFigures, Judgement, Metric
from zoolens.inventory.tasks.task import taken_answers, task_named

TASK_METRICS: Final = "task"  # the stage metric:task
NOT_COVERED: Final = "resampling is known not to cover this metric as often as it should"
RESAMPLING: Final = "resampling of inputs"
NOTES: Final = "judgement"  # in run.resolved: what a reader should know of the figures


def measure_task(context: Context) -> list[Observation]:
    """The task's own metrics, from what the run answered and what the dataset says is right."""
    run = context.store.run(context.run.id)  # with what the answers told
    predictions = run_predictions(context.store, run, context.dataset.classes)
    judged = judgement_of(predictions)
    known, total = int(predictions.known.sum()), len(predictions)
    notes = [f"{known:,} of {total:,} inputs have a truth that judges them"] if known < total else []
    notes += [] if judged is None else judged.notes
    if notes:
        context.store.set_resolved(run.id, {NOTES: notes})
    if judged is None:
        return []
    if context.dataset.truth_kind in task_named(predictions.main.task).other_truths:
        context.store.set_resolved(run.id, {MAIN_METRIC: judged.main.name})
    of_classes = () if judged.by_class is None else _observed_of_classes(judged.by_class, predictions)
    return [*_observed(judged, int(predictions.known.sum())), *of_classes, *_mean_score(predictions)]


def judgement_of(predictions: Predictions) -> Judgement | None:
    """What the truths say of the main output; None where no input has one, or where the task has no metrics."""
    known = predictions.known
    if not known.any():
        return None
    answers = predictions.main if known.all() else taken_answers(predictions.main, np.flatnonzero(known))
    return task_named(answers.task).judgement(answers)


def _observed(judged: Judgement, inputs: int) -> Iterator[Observation]:
    for metric in judged.metrics:
        yield from _resampled(metric, judged.of(metric.name), inputs)


def _observed_of_classes(figures: ClassFigures, predictions: Predictions) -> Iterator[Observation]:
    inputs = int(predictions.known.sum())
    for place, index in enumerate(figures.classes):
        for found in _resampled(figures.metric, figures.of(place), inputs):
            details = {**found.details, "class": predictions.class_name(index)}
            yield replace(found, scope=class_scope(index), details=details)


def _resampled(metric: Metric, aggregate: Aggregate, inputs: int) -> Iterator[Observation]:
    estimate = resampled_estimate(aggregate, inputs, metric.limits)
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
        (low, high), details["interval"] = estimate.interval, RESAMPLING
    elif estimate.unknown is not None:
        details["no_interval"] = estimate.unknown.value
    yield Observation(metric.name, estimate.value, unit=metric.unit, low=low, high=high, n=inputs, details=details)


def _mean_score(predictions: Predictions) -> Iterator[Observation]:
    """How right the answers are on average, input by input: what paired tests look at."""
    scores = predictions.scores
    if scores is None:
        return
    known = scores[predictions.known]
    (low, high), method = share_interval(known)
    details = {"interval": method, "confidence": CONFIDENCE, "task": predictions.main.task}
    yield Observation("score", float(known.mean()), unit="fraction", low=low, high=high, n=len(known), details=details)
