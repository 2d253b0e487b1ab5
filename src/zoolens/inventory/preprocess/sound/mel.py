"""Mel filterbanks: weights that gather the bins of a spectrum into bands as wide as people hear them.

librosa and torchaudio draw triangles over hertz, TensorFlow draws them over mel and leaves out the first bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError

_Real = NDArray[np.float64]

LIBRARIES: Final = ("librosa", "torchaudio", "tensorflow")
SCALES: Final = ("htk", "slaney")
NORMS: Final = ("none", "slaney")
MAX_BANDS: Final = 4096
# Slaney's scale is linear up to 1000 Hz, which are 15 mel, and logarithmic above: 27 steps for a factor of 6.4.
_SLANEY_HZ: Final = 1000.0
_SLANEY_MEL: Final = 15.0
_SLANEY_STEP: Final = float(np.log(6.4)) / 27.0
_HTK_MEL: Final = 2595.0
_HTK_HZ: Final = 700.0


@dataclass(frozen=True)
class MelBands:
    """Which bands there are, and after which library their weights are computed."""

    bands: int
    low: float = 0.0
    # None is half the sample rate.
    high: float | None = None
    scale: str = "htk"
    norm: str = "none"
    library: str = "librosa"


def to_mel(hertz: _Real, scale: str) -> _Real:
    if scale == "htk":
        return np.asarray(_HTK_MEL * np.log10(1.0 + hertz / _HTK_HZ), np.float64)
    linear = hertz * (_SLANEY_MEL / _SLANEY_HZ)
    above = np.log(np.maximum(hertz, _SLANEY_HZ) / _SLANEY_HZ) / _SLANEY_STEP
    return np.where(hertz < _SLANEY_HZ, linear, _SLANEY_MEL + above)


def to_hertz(mel: _Real, scale: str) -> _Real:
    if scale == "htk":
        return np.asarray(_HTK_HZ * (10.0 ** (mel / _HTK_MEL) - 1.0), np.float64)
    linear = mel * (_SLANEY_HZ / _SLANEY_MEL)
    above = _SLANEY_HZ * np.exp(_SLANEY_STEP * np.maximum(0.0, mel - _SLANEY_MEL))
    return np.where(mel < _SLANEY_MEL, linear, above)


@lru_cache(maxsize=16)
def filters(mel: MelBands, fft_length: int, rate: int) -> _Real:
    """Bins × bands, so that a spectrum of frames × bins is multiplied from the left."""
    high = _check(mel, rate)
    edges = to_mel(np.array([mel.low, high]), mel.scale)
    points = np.linspace(edges[0], edges[1], mel.bands + 2)
    bins = _bin_frequencies(mel.library, fft_length, rate)
    if mel.library == "tensorflow":
        weights = _triangles(to_mel(bins, mel.scale), points)
        weights[0] = 0.0
        return weights
    corners = to_hertz(points, mel.scale)
    weights = _triangles(bins, corners)
    if mel.norm == "slaney":
        weights *= 2.0 / (corners[2:] - corners[:-2])
    return weights


def _triangles(positions: _Real, corners: _Real) -> _Real:
    """Triangles of height 1 from each corner to the next but one."""
    distances = corners - positions[:, np.newaxis]
    widths = np.diff(corners)
    rising = -distances[:, :-2] / widths[:-1]
    falling = distances[:, 2:] / widths[1:]
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)), np.float64)


def _bin_frequencies(library: str, fft_length: int, rate: int) -> _Real:
    if library == "librosa":
        return np.asarray(np.fft.rfftfreq(fft_length, 1.0 / rate), np.float64)
    # The others put the last bin at half the rate also where the FFT is odd; torchaudio rounds an odd rate down first.
    half = rate // 2 if library == "torchaudio" else rate / 2
    return np.linspace(0.0, half, fft_length // 2 + 1)


def _check(mel: MelBands, rate: int) -> float:
    """Refuse what the named library itself cannot do. Returns the highest frequency."""
    for value, known, what in (
        (mel.library, LIBRARIES, "mel library"),
        (mel.scale, SCALES, "mel scale"),
        (mel.norm, NORMS, "norm of mel bands"),
    ):
        if value not in known:
            raise ManifestError(f"There is no {what} {value!r}.", hint=f"Known: {', '.join(known)}.")
    if mel.library == "tensorflow" and (mel.scale, mel.norm) != ("htk", "none"):
        raise ManifestError("tf.signal has the mel scale htk and no norm.", hint="Use library: librosa for others.")
    if not 1 <= mel.bands <= MAX_BANDS:
        raise ManifestError(f"Mel bands must be 1 to {MAX_BANDS:,}; got {mel.bands:,}.", hint="Correct their number.")
    half = rate // 2 if mel.library == "torchaudio" else rate / 2
    high = half if mel.high is None else mel.high
    if not 0 <= mel.low < high <= rate / 2:
        raise ManifestError(
            f"Mel bands from {mel.low:g} to {high:g} Hz do not fit {rate:,} samples a second.",
            hint=f"They must lie between 0 and {rate / 2:g} Hz.",
        )
    return float(high)
