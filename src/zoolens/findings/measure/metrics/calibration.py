"""Does the model know when it is wrong? Expected calibration error, Brier score, negative log-likelihood."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.anytime import bounded_mean
from zoolens.base.statistics.calibration import calibration_error
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.store.records import Observation
from zoolens.findings.measure.predictions import Predictions

BINS = 15  # the usual number since Guo et al. 2017; equal width
_FLOOR: Final = 1e-7  # of a probability in `nll`
_LARGEST_BRIER: Final = 2.0  # all probability on one wrong class
_ROUNDING: Final = 1e-3  # of probabilities in half precision


def calibration(predictions: Predictions) -> Iterator[Observation]:
    confidence = predictions.score[:, 0].astype(np.float64)
    if np.isnan(confidence).all():
        # Only classes were kept, as of networks that were trained here.
        return
    correct = predictions.correct.astype(np.float64)
    yield _calibration_error(confidence, correct)
    brier = predictions.sum_squares.astype(np.float64) - 2 * predictions.label_score + 1
    yield _mean("brier", brier, _LARGEST_BRIER)
    # A probability of exactly 0 (quantised outputs) would make one input decide the mean: floored, and said so.
    likelihood = np.maximum(predictions.label_score.astype(np.float64), _FLOOR)
    floored = int((predictions.label_score < _FLOOR).sum())
    yield _mean("nll", -np.log(likelihood), -math.log(_FLOOR), floor=_FLOOR, floored=floored)


def _calibration_error(confidence: NDArray[np.float64], correct: NDArray[np.float64]) -> Observation:
    n, bins = len(confidence), confidence_bins(confidence)
    # Scores that are no probabilities.
    if confidence.max() > 1 + _ROUNDING:
        gaps = np.bincount(bins, correct - confidence) / n
        return Observation("ece", float(np.abs(gaps).sum()), unit="fraction", n=n, details={"bins": BINS})
    error = calibration_error(np.minimum(confidence, 1.0), correct, bins)
    details = {
        "bins": BINS,
        "interval": "triangle inequality",
        "confidence": CONFIDENCE,
        "noise": error.noise,
        "debiased": error.debiased,
    }
    low, high = error.interval
    return Observation("ece", error.measured, unit="fraction", low=low, high=high, n=n, details=details)


def confidence_bins(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each confidence, from 0 to `BINS` − 1."""
    return np.minimum((confidence * BINS).astype(np.int64), BINS - 1)


def _mean(name: str, values: NDArray[np.float64], largest: float, **details: float) -> Observation:
    """A mean of numbers from 0 to `largest`. The interval of a bootstrap would be too narrow: a model that is sure and
    mostly right has not been wrong once among a few hundred inputs, and one wrong answer would change the mean."""
    n, mean = len(values), float(values.mean())
    # Scores that are no probabilities.
    if not (values.min() >= -_ROUNDING and values.max() <= largest + _ROUNDING):
        return Observation(name, mean, n=n, details=details)
    low, high = bounded_mean(values, largest, 1 - CONFIDENCE)
    about = {"interval": "betting", "confidence": CONFIDENCE, **details}
    return Observation(name, mean, low=min(low, mean), high=max(high, mean), n=n, details=about)
