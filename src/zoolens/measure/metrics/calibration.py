"""Does the model know when it is wrong? Expected calibration error, Brier score, negative log-likelihood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zoolens.measure.predictions import Predictions
from zoolens.statistics.intervals import CONFIDENCE, Interval, bootstrap, bootstrap_mean, random_blocks
from zoolens.store.records import Observation

BINS = 15  # the usual number since Guo et al. 2017; equal width


def calibration(predictions: Predictions) -> Iterator[Observation]:
    n = len(predictions)
    confidence = predictions.score[:, 0].astype(np.float64)
    if np.isnan(confidence).all():
        return  # only classes were kept, as of networks that were trained here
    correct = predictions.correct.astype(np.float64)
    low, high = _calibration_interval(confidence, correct)
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
    gap = np.bincount(confidence_bins(confidence), correct - confidence, minlength=BINS)
    return float(np.abs(gap).sum() / len(confidence))


def _calibration_interval(confidence: NDArray[np.float64], correct: NDArray[np.float64]) -> Interval:
    blocks = random_blocks(len(confidence))
    count = int(blocks.max()) + 1
    cells = np.bincount(blocks * BINS + confidence_bins(confidence), correct - confidence, minlength=count * BINS)
    by_block = np.column_stack([cells.reshape(count, BINS), np.bincount(blocks)])
    return bootstrap(by_block, lambda totals: np.abs(totals[:, :BINS]).sum(axis=1) / totals[:, BINS])


def confidence_bins(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each confidence, from 0 to `BINS` − 1."""
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


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
