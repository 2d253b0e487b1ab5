"""Does the model know when it is wrong? Expected calibration error, Brier score, negative log-likelihood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zoolens.measure.intervals import CONFIDENCE, bootstrap, bootstrap_mean
from zoolens.measure.predictions import Predictions
from zoolens.store.records import Observation

BINS = 15  # the usual number since Guo et al. 2017; equal width


def calibration(predictions: Predictions) -> Iterator[Observation]:
    n = len(predictions)
    confidence = predictions.score[:, 0].astype(np.float64)
    correct = predictions.correct.astype(np.float64)

    def resampled(chosen: NDArray[np.int64]) -> float:
        return expected_calibration_error(confidence[chosen], correct[chosen])

    low, high = bootstrap(resampled, n, resamples=200)
    yield Observation(
        "ece",
        expected_calibration_error(confidence, correct),
        unit="fraction",
        low=low,
        high=high,
        n=n,
        details={"bins": BINS, "interval": "bootstrap", "confidence": CONFIDENCE},
    )
    brier = predictions.sum_squares.astype(np.float64) - 2 * predictions.label_score + 1
    yield _mean("brier", brier)
    # A probability of exactly 0 (quantised outputs) would make one input decide the mean: floored, and said so.
    likelihood = np.maximum(predictions.label_score.astype(np.float64), 1e-7)
    yield _mean("nll", -np.log(likelihood), floor=1e-7, floored=int((predictions.label_score < 1e-7).sum()))


def expected_calibration_error(confidence: NDArray[np.float64], correct: NDArray[np.float64]) -> float:
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    gap = np.bincount(bins, correct - confidence, minlength=BINS)
    return float(np.abs(gap[counts > 0]).sum() / len(confidence))


def _mean(name: str, values: NDArray[np.float64], **details: float) -> Observation:
    low, high = bootstrap_mean(values)
    return Observation(
        name,
        float(values.mean()),
        low=low,
        high=high,
        n=len(values),
        details={"interval": "bootstrap", "confidence": CONFIDENCE, **details},
    )
