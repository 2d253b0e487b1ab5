"""Mel-frequency cepstral coefficients: the cosine transform (DCT-II) of logarithmic mel bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError

_Real = NDArray[np.float64]

NORMS: Final = ("ortho", "htk", "none")


@dataclass(frozen=True)
class Cepstrum:
    """How many coefficients are kept, and how they are scaled."""

    count: int
    # "ortho": librosa and torchaudio. "htk": tf.signal, whose coefficient 0 is √2 times larger. "none": 2 Σ x cos.
    norm: str = "ortho"
    # librosa's liftering, which raises the middle coefficients; 0 is none.
    lifter: float = 0.0


def cepstrum(log_mel: _Real, chosen: Cepstrum) -> _Real:
    """Frames × bands to frames × coefficients."""
    bands = log_mel.shape[-1]
    if chosen.norm not in NORMS:
        raise ManifestError(f"There is no norm of the DCT named {chosen.norm!r}.", hint=f"Known: {', '.join(NORMS)}.")
    if not 1 <= chosen.count <= bands:
        raise ManifestError(
            f"{chosen.count} coefficients cannot be taken from {bands} mel bands.", hint="Take at most as many."
        )
    if chosen.lifter < 0:
        raise ManifestError(f"A lifter must be 0 or more; got {chosen.lifter:g}.", hint="Use 0 for none.")
    orders = np.arange(chosen.count)
    basis = 2.0 * np.cos(np.pi / bands * (np.arange(bands)[:, np.newaxis] + 0.5) * orders)
    if chosen.norm != "none":
        basis *= np.sqrt(0.5 / bands)
    if chosen.norm == "ortho":
        basis[:, 0] *= np.sqrt(0.5)
    if chosen.lifter:
        basis *= 1.0 + chosen.lifter / 2 * np.sin(np.pi * (orders + 1) / chosen.lifter)
    return np.asarray(log_mel @ basis, np.float64)
