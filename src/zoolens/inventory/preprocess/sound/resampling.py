"""Changing the sample rate as three libraries do it.

scipy's and torchaudio's filters are re-created here: an output is the sum of the inputs around it, weighted by one
kernel. soxr's filters are designed by its own library, which is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError, MissingDependency
from zoolens.inventory.datasets.sound.waveform import MAX_RATE, MAX_SAMPLES, Samples

_Real = NDArray[np.float64]

LIBRARIES: Final = {
    "scipy": "scipy.signal.resample_poly with its default, a Kaiser window with beta 5",
    "torchaudio": "torchaudio.transforms.Resample with its default, sinc_interp_hann",
    "soxr": 'soxr with quality "HQ", which is the default soxr_hq of librosa.resample',
}
_KAISER_BETA: Final = 5.0
_SCIPY_ZEROS: Final = 10  # zero crossings of the kernel on each side
_TORCH_ZEROS: Final = 6
_TORCH_ROLLOFF: Final = 0.99  # of the lower Nyquist frequency
_AT_ONCE: Final = 1 << 20  # products that are in memory at once


def resample(samples: Samples, given: int, wanted: int, library: str) -> Samples:
    """One channel at another rate. The length is that of the library: rounded up."""
    if library not in LIBRARIES:
        raise ManifestError(f"There is no resampling library {library!r}.", hint=f"Known: {', '.join(LIBRARIES)}.")
    if not 1 <= min(given, wanted) <= max(given, wanted) <= MAX_RATE:
        raise ManifestError(
            f"Sample rates must be 1 to {MAX_RATE:,}; got {given:,} and {wanted:,}.", hint="Correct the rate."
        )
    if given == wanted or not len(samples):
        return samples
    divisor = math.gcd(given, wanted)
    up, down = wanted // divisor, given // divisor
    length = -(-len(samples) * up // down)
    if length > MAX_SAMPLES:
        raise DatasetError(
            f"At {wanted:,} samples a second the sound has {length:,} samples, more than {MAX_SAMPLES:,}.",
            hint="Cut it into shorter files.",
        )
    if library == "soxr":
        return _soxr(samples, given, wanted, length)
    if library == "scipy":
        return _interpolate(samples, up, down, _scipy_kernel(up, down), np.zeros(up))
    # torchaudio rounds the place of an output within its period to float32
    places = np.arange(up) / up
    rounding = (places.astype(np.float32) - places) * up * down
    return _interpolate(samples, up, down, _torch_kernel(up, down), rounding)


@dataclass(frozen=True)
class _Kernel:
    """Weights over distances, which are in steps of 1 / up inputs, and how many inputs they reach to each side."""

    weigh: Callable[[_Real], _Real]
    reach: int


def _scipy_kernel(up: int, down: int) -> _Kernel:
    larger = max(up, down)
    half = _SCIPY_ZEROS * larger
    at_ends = np.i0(_KAISER_BETA)

    def design(distance: _Real) -> _Real:
        inside = np.abs(distance) <= half
        window = np.i0(_KAISER_BETA * np.sqrt(np.maximum(0.0, 1 - (distance / half) ** 2))) / at_ends
        return np.where(inside, np.sinc(distance / larger) * window, 0.0)

    # firwin scales its filter so that a constant passes unchanged; resample_poly multiplies it by `up`.
    gain = up / design(np.arange(-half, half + 1, dtype=np.float64)).sum()
    return _Kernel(lambda distance: gain * design(distance), -(-half // up))


def _torch_kernel(up: int, down: int) -> _Kernel:
    cutoff = min(up, down) * _TORCH_ROLLOFF

    def weigh(distance: _Real) -> _Real:
        t = np.clip(distance * (cutoff / (up * down)), -_TORCH_ZEROS, _TORCH_ZEROS)
        window = np.cos(t * (math.pi / _TORCH_ZEROS / 2)) ** 2
        return np.asarray(np.sinc(t) * window * (cutoff / down), np.float64)

    return _Kernel(weigh, math.ceil(_TORCH_ZEROS * down / cutoff))


def _interpolate(samples: Samples, up: int, down: int, kernel: _Kernel, rounding: _Real) -> Samples:
    """Output j lies at input j × down / up. Only `up` different sets of weights exist; they are made once.

    Work and memory grow with the length of the sound and of the kernel alone: a matrix of all outputs and inputs of one
    period, as torchaudio builds it, takes gigabytes between 44,101 and 16,000 Hz.
    """
    length = -(-len(samples) * up // down)
    taps = np.arange(-kernel.reach, kernel.reach + 2)
    step = max(1, _AT_ONCE // len(taps))
    weights = np.empty((min(up, length), len(taps)))
    for begin in range(0, len(weights), step):
        outputs = np.arange(begin, min(begin + step, len(weights)))
        distances = outputs * down % up + rounding[outputs]
        weights[outputs] = kernel.weigh(distances[:, np.newaxis] - taps * float(up))
    padded = np.pad(samples.astype(np.float64), (kernel.reach, kernel.reach + 2))
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps))
    result = np.empty(length, np.float32)
    for begin in range(0, length, step):
        outputs = np.arange(begin, min(begin + step, length))
        inputs = windows[outputs * down // up]
        result[outputs] = np.einsum("ij,ij->i", inputs, weights[outputs % up])
    return result


def _soxr(samples: Samples, given: int, wanted: int, length: int) -> Samples:
    try:
        import soxr
    except ImportError as error:
        raise MissingDependency("Resampling as soxr", "soxr", "sound") from error
    result: Samples = np.asarray(soxr.resample(samples, given, wanted, quality="HQ"), np.float32)
    # librosa.resample cuts or pads what soxr returns to the length that it computes itself
    return np.pad(result[:length], (0, max(0, length - len(result))))
