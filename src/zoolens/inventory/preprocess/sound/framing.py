"""Cutting a sound into overlapping frames, and the windows that frames are multiplied by."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError

_Real = NDArray[np.float64]

# The mean and the first cosine of each window. A periodic window repeats after `length` samples, a symmetric one ends
# as it begins.
_COSINES: Final = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46)}
WINDOWS: Final = ("hann", "hann_symmetric", "hamming", "hamming_symmetric", "rectangular")
PADDINGS: Final = ("none", "constant", "reflect")


def window(name: str, length: int) -> _Real:
    """Weights of one frame. The plain names are periodic, as librosa, torchaudio and TensorFlow mean them."""
    if name not in WINDOWS:
        raise ManifestError(f"There is no window named {name!r}.", hint=f"Known: {', '.join(WINDOWS)}.")
    if name == "rectangular" or length == 1:
        return np.ones(length)
    shape, _, kind = name.partition("_")
    mean, cosine = _COSINES[shape]
    # tf.signal alone makes the periodic window of an odd length symmetric: there its name here is hann_symmetric.
    period = length - 1 if kind == "symmetric" else length
    return np.asarray(mean - cosine * np.cos(2 * np.pi * np.arange(length) / period), np.float64)


def padded(samples: _Real, by: int, padding: str) -> _Real:
    """`by` samples more at both ends, so that the first frame is centred at the first sample."""
    if padding not in PADDINGS:
        raise ManifestError(f"There is no padding named {padding!r}.", hint=f"Known: {', '.join(PADDINGS)}.")
    if padding == "none" or not by:
        return samples
    if padding == "constant":
        return np.pad(samples, by)
    # torchaudio refuses this as well
    if by >= len(samples):
        raise DatasetError(
            f"A sound of {len(samples):,} samples is too short to be reflected by {by:,}.",
            hint="Use padding: constant, a shorter frame or longer sounds.",
        )
    return np.pad(samples, by, mode="reflect")


def frames(samples: _Real, length: int, hop: int) -> _Real:
    """Frames × length, without a copy. Samples after the last whole frame are left out."""
    if length < 1 or hop < 1:
        raise ManifestError(f"Frames need a length and a hop of 1 or more; got {length} and {hop}.", hint="Correct it.")
    if len(samples) < length:
        raise DatasetError(
            f"A sound of {len(samples):,} samples is shorter than one frame of {length:,}.",
            hint="Pad it to the length that the model was trained with.",
        )
    return np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]
