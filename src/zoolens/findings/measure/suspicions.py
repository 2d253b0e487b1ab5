"""What a run's answers say of the run itself: figures that cannot be right, and what is worth knowing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.base.present.figures import with_interval
from zoolens.base.statistics.resampling import SHARE
from zoolens.base.statistics.significance import no_better_than_guessing
from zoolens.base.store.records import Observation, Run
from zoolens.findings.measure.input_checks import inputs_differ
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.manifests.schema_steps import Divide
from zoolens.inventory.tasks.judgement import FRACTION, Metric

_UNEVEN: Final = 1.5  # times the even share of a class, above which the commonest one is told
_FEWEST: Final = 20  # inputs, below which the same answer to all of them is no wonder
_HARDLY: Final = 0.01  # better than answers without a look at the inputs: points of a fraction, else relative to theirs
_FAR_WORSE: Final = 0.1  # than such answers, where these are nearly the best: a few wrong answers do not cost as much
_SURE: Final = 0.7  # mean confidence; with many classes an unsure model is wrong often
_FAR_BELOW: Final = 0.5  # of the mean confidence
ALL_THE_SAME: Final = "all_the_same"  # in run.resolved: every output answers every input with the same numbers
MIXES_ROWS: Final = "mixes_rows"  # in run.resolved: the first input is answered otherwise alone than in a batch
ROW_SUM: Final = "row_sum"  # in run.resolved: what every row of the main output adds up to, where that is not 1
SUMS_TO_ONE: Final = "sums_to_one"  # in run.resolved: every row of the main output passed for probabilities


def suspicions(predictions: Predictions) -> Iterator[str]:
    """What is measured correctly and still cannot be right."""
    if len(predictions) >= _FEWEST and len(np.unique(predictions.labels)) > 1:
        answers = np.unique(predictions.answers)
        if len(answers) == 1:
            number = int(answers[0])
            name = predictions.class_details(number).get("class")
            named = f" ({name})" if name is not None else ""
            yield (
                f"it answers class {number}{named} for every one of {len(predictions)} inputs; "
                "check weights, preprocessing and output name"
            )
        elif predictions.digest is not None and len(np.unique(predictions.digest)) == 1:
            yield "its outputs are the same for every input"
        elif no_better_than_guessing(predictions.correct, predictions.labels):
            right = int(np.count_nonzero(predictions.correct))
            yield (
                f"it classifies {right:,} of {len(predictions):,} inputs correctly, which is no better than guessing; "
                "suspect the order of the labels and the preprocessing: `zoolens doctor` tries both"
            )


def confidence_gap(predictions: Predictions) -> Iterator[str]:
    """An accuracy far below what the model is sure of: its answers are probably right, and counted as other classes.

    Networks are overconfident by 5 to 20 points; on data unlike those of their training accuracy falls too, so that
    this is a reason to look, not a proof.
    """
    if not predictions.scored or len(predictions) < _FEWEST:
        return
    sure = float(np.mean(predictions.score[:, 0]))
    right = float(np.mean(predictions.correct))
    if sure >= _SURE and right < _FAR_BELOW * sure:
        yield (
            f"its accuracy is {100 * right:.1f} % at a mean confidence of {100 * sure:.1f} %: suspect the "
            "order of the classes or the preprocessing, which `zoolens doctor` tries"
        )


def dead_outputs(run: Run, dataset: Dataset) -> Iterator[str]:
    """Report equal outputs for all inputs, for answers that no label judges: vectors, or unlabelled datasets."""
    if run.resolved.get(ALL_THE_SAME) and len(dataset) >= _FEWEST and inputs_differ(dataset):
        yield (
            f"its outputs are the same numbers for every one of {len(dataset):,} inputs; check weights, preprocessing "
            "and output names"
        )


def blind_answers(found: Observation) -> Iterator[str]:
    """A metric that is no better than that of answers that have nothing to do with the inputs."""
    metric = _judged(found)
    if metric is None or found.value is None:
        return
    if metric.is_hardly_better(found.value, _HARDLY) if metric.tells else _is_far_worse(metric, found.value):
        yield (
            f"its {found.metric} is {with_interval(found)} on {found.n:,} inputs, no better than that of answers that "
            "have nothing to do with them; suspect the preprocessing, the order of the classes and how its answers "
            "are read"
        )


def _is_far_worse(metric: Metric, value: float) -> bool:
    """Whether a share lies far below that of blind answers. Of errors in a unit of the data it is not known: where the
    truth is one number for all inputs, blind answers have none."""
    gain = metric.above_blind(value)
    return metric.unit == FRACTION and gain is not None and gain < -_FAR_WORSE


def indifferent_data(found: Observation) -> Iterator[str]:
    """Data on which answers that have nothing to do with the inputs get nearly the best value of a metric."""
    metric = _judged(found)
    if metric is not None and not metric.tells:
        blind = replace(found, value=found.details["blind"], low=None, high=None)
        yield (
            f"answers that have nothing to do with the inputs reach {found.metric} {with_interval(blind)} on these "
            f"{found.n:,}, where the best is {with_interval(replace(blind, value=metric.best))}: a model that looks at "
            "them cannot be told from one that does not; use inputs whose truths differ"
        )


def _judged(found: Observation) -> Metric | None:
    """The metric of an observation; None where blind answers have no known value, or inputs are too few to tell."""
    blind, lower_is_better = found.details.get("blind"), bool(found.details.get("lower_is_better"))
    if blind is None or (found.n or 0) < _FEWEST:
        return None
    # Errors in a unit of the data have no largest value, and 0 is the best.
    limits = SHARE if found.unit == FRACTION else (0.0, math.inf)
    return Metric(found.metric, found.unit, limits, lower_is_better, blind=blind)


def remarks(predictions: Predictions) -> Iterator[str]:
    """What is worth knowing and no reason to doubt."""
    if ties := predictions.ties:
        are = "is an exact tie" if ties == 1 else "are exact ties"
        yield (
            f"{ties:,} of {len(predictions):,} answers {are} between the two best classes; the class with the "
            "lower number counts"
        )
    yield from _majority(predictions)


def _majority(predictions: Predictions) -> Iterator[str]:
    """Report a majority-class baseline that is at least as accurate as the model."""
    labels, counts = np.unique(predictions.labels, return_counts=True)
    most, right = int(counts.max(initial=0)), int(np.count_nonzero(predictions.correct))
    if len(labels) > 1 and most >= right and most > _UNEVEN * len(predictions) / len(labels):
        common = predictions.class_name(int(labels[counts.argmax()]))
        yield (
            f"{most:,} of {len(predictions):,} inputs are of one class ({common}): always answering it would have "
            f"an accuracy of {100 * most / len(predictions):.1f} %"
        )


def mixed_rows(run: Run) -> Iterator[str]:
    """Answers that depend on the batch: an accuracy is one of this batch size and this order."""
    if run.resolved.get(MIXES_ROWS):
        yield (
            "its first input gets another answer alone than in a batch with others: a softmax or normalisation over "
            "the batch axis, batch statistics of training, or randomness; its accuracy depends on the batch size"
        )


def doubled_softmax(output: Output, run: Run) -> Iterator[str]:
    """Declared logits whose rows all add up to one: softmax is applied a second time."""
    if output.scores == "logits" and run.resolved.get(SUMS_TO_ONE):
        yield (
            "it declares logits, but every row of its answers adds up to 1: they are probabilities already, and "
            "softmax is applied twice (top-1 is right, calibration is not); declare scores: probabilities"
        )
    total = run.resolved.get(ROW_SUM)
    divided = any(isinstance(step, Divide) for step in output.postprocess)
    if output.scores == "logits" and total and not divided:
        yield (
            f"it declares logits, but no answer is negative and every row adds up to {total:.6g}: they are "
            f"probabilities × {total:.6g} (top-1 is right, calibration is not); declare scores: probabilities and "
            f"postprocess: [{{op: divide, by: {total:.6g}}}]"
        )
