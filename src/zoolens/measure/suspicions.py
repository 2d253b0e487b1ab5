"""What a run's answers say of the run itself: figures that cannot be right, and what is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from zoolens.manifests.schema import Output
from zoolens.measure.predictions import Predictions
from zoolens.statistics.significance import no_better_than_guessing
from zoolens.store.records import Run

SUMS_TO_ONE: Final = "sums_to_one"  # in run.resolved: every row of the main output passed for probabilities


def suspicions(predictions: Predictions) -> Iterator[str]:
    """What is measured correctly and still cannot be right."""
    if len(predictions) >= 20 and len(np.unique(predictions.labels)) > 1:
        answers = np.unique(predictions.answers)
        if len(answers) == 1:
            name = predictions.class_name(int(answers[0]))
            yield (
                f"it answers class {int(answers[0])} ({name}) for every one of {len(predictions)} inputs; "
                "check weights, preprocessing and output name"
            )
        elif predictions.digest is not None and len(np.unique(predictions.digest)) == 1:
            yield "its outputs are the same for every input"
        elif no_better_than_guessing(predictions.correct, predictions.labels):
            right = int(np.count_nonzero(predictions.correct))
            yield (
                f"it is right on {right:,} of {len(predictions):,} inputs, which is no better than guessing; suspect "
                "the order of the labels and the preprocessing: `zoolens doctor` tries both"
            )


def remarks(predictions: Predictions) -> Iterator[str]:
    """What is worth knowing and no reason to doubt."""
    if ties := predictions.ties:
        yield (
            f"{ties:,} of {len(predictions):,} answers are exact ties between the two best classes; the class with the "
            "lower number counts"
        )


def doubled_softmax(output: Output, run: Run) -> Iterator[str]:
    """Declared logits whose rows all add up to one: softmax is applied a second time."""
    if output.scores == "logits" and run.resolved.get(SUMS_TO_ONE):
        yield (
            "it declares logits, but every row of its answers adds up to 1: they are probabilities already, and "
            "softmax is applied twice (top-1 is right, calibration is not); declare scores: probabilities"
        )
