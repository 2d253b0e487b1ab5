"""The calibration error of a model, its noise, and an interval that covers it.

Inputs are sorted into bins by confidence. The error is the sum over the bins of |mean of (right − confidence)|, each
mean taken over all inputs. Noise only ever adds to such a sum: a calibrated model shows 2.5 % on 2,000 inputs. So a
percentile bootstrap, which adds the noise a second time, covers a true error of 0 in none of the cases.

The interval is made of two inequalities instead. Let e be the noise of the bins, and θ the true error.

- The measured error exceeds θ by Σ |e| at most (triangle inequality), with equality for a calibrated model.
- θ exceeds the measured error by −Σ s·e at most, where s are the true signs of the bins. Bins share no input, so the
  variance of that sum is the sum of the variances, whatever the signs are.

Both tails have half of alpha. The interval covers at least as often as it says, and more often where the error is in
between: the price for not having to guess which bins are calibrated. What is covered is the error over these bins; an
error whose sign changes within a bin is not seen by any such figure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import CONFIDENCE, Interval

Floats = NDArray[np.float64]

_DRAWS: Final = 2000  # a 97.5 % quantile of so many is one between 97.2 and 97.8 %, in two of three cases
_HALF_NORMAL: Final = math.sqrt(2 / math.pi)  # mean |x| of a standard normal x
# Two right and two wrong answers are added to each bin (Agresti and Coull 1998): a bin of three inputs, all of them
# right, does not show that its accuracy has no noise.
_ADDED: Final = 2


@dataclass(frozen=True)
class CalibrationError:
    """The expected calibration error (ECE) with its confidence interval."""

    measured: float  # the plain sum over the bins
    noise: float  # what a calibrated model with these confidences shows on average
    # Less the noise of its own measurement (Kumar et al. 2019); a calibrated model still keeps some of it.
    debiased: float
    interval: Interval


def calibration_error(
    confidence: Floats, correct: Floats, bins: NDArray[np.int64], confidence_level: float = CONFIDENCE
) -> CalibrationError:
    """Returns the calibration error of predictions: `correct` is 1 or 0, `bins` the bin of each input."""
    n = len(confidence)
    gaps = np.bincount(bins, correct - confidence) / n
    errors = _standard_errors(confidence, correct, bins)
    measured = float(np.abs(gaps).sum())
    draws = _normal(len(gaps))
    tail = (1 - confidence_level) / 2
    below = float(np.quantile(np.abs(draws) @ errors, 1 - tail))
    above = NormalDist().inv_cdf(1 - tail) * float(np.sqrt((errors**2).sum()))
    bias = float(np.abs(gaps + draws * errors).sum(axis=1).mean()) - measured
    variances = np.bincount(bins, confidence * (1 - confidence))
    return CalibrationError(
        measured=measured,
        noise=_HALF_NORMAL * float(np.sqrt(variances).sum()) / n,
        debiased=max(0.0, measured - bias),
        interval=Interval(max(0.0, measured - below), min(1.0, measured + above)),
    )


def _standard_errors(confidence: Floats, correct: Floats, bins: NDArray[np.int64]) -> Floats:
    """The standard error of each bin's share of the sum."""
    inputs = np.bincount(bins)
    right = (np.bincount(bins, correct) + _ADDED) / (inputs + 2 * _ADDED)
    some = np.maximum(inputs, 1)
    mean = np.bincount(bins, confidence) / some
    spread = np.maximum(np.bincount(bins, confidence**2) / some - mean**2, 0.0)
    variance = inputs * (right * (1 - right) + spread)
    return np.asarray(np.sqrt(variance) / len(confidence))


@lru_cache(maxsize=16)
def _normal(bins: int) -> Floats:
    """Always the same draws, so that an interval is a function of its data."""
    return np.random.default_rng(0).normal(size=(_DRAWS, bins))
