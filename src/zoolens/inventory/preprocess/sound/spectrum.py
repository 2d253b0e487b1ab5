"""The short-time Fourier transform: how strong each frequency is in each frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.datasets.sound.waveform import MAX_SAMPLES, Samples
from zoolens.inventory.preprocess.sound.framing import frames, padded, window

_Real = NDArray[np.float64]

KINDS: Final = ("magnitude", "power")
MAX_FFT: Final = 1 << 16
_AT_ONCE: Final = 1 << 22  # numbers that are transformed at once


@dataclass(frozen=True)
class Stft:
    """How a sound is cut and transformed."""

    window_length: int
    hop: int
    # None is the next power of two, as tf.signal.stft takes it.
    fft_length: int | None = None
    window: str = "hann"
    # Of half an FFT at both ends.
    padding: str = "none"
    kind: str = "power"
    # librosa and torchaudio cut frames of `fft_length` and put the window into their middle; TensorFlow cuts frames of
    # `window_length` and adds zeros behind them. The last frames differ, and so do the moments that frames stand for.
    centred_window: bool = False

    @property
    def points(self) -> int:
        """Length of the FFT."""
        return self.fft_length or 1 << (self.window_length - 1).bit_length()

    @property
    def bins(self) -> int:
        return self.points // 2 + 1


def spectrum(samples: Samples, stft: Stft) -> _Real:
    """Frames × bins. librosa and torchaudio have the transposed matrix."""
    _check(stft)
    weights = window(stft.window, stft.window_length)
    if stft.centred_window:
        before = (stft.points - stft.window_length) // 2
        weights = np.pad(weights, (before, stft.points - stft.window_length - before))
    cut = frames(padded(samples.astype(np.float64), stft.points // 2, stft.padding), len(weights), stft.hop)
    if len(cut) * stft.bins > MAX_SAMPLES:
        raise DatasetError(
            f"The spectrum would have {len(cut):,} × {stft.bins:,} values, more than {MAX_SAMPLES:,}.",
            hint="Use a longer hop, or cut the sound into shorter files.",
        )
    result = np.empty((len(cut), stft.bins))
    step = max(1, _AT_ONCE // stft.points)
    for begin in range(0, len(cut), step):
        part = np.abs(np.fft.rfft(cut[begin : begin + step] * weights, stft.points))
        result[begin : begin + step] = part if stft.kind == "magnitude" else part**2
    return result


def _check(stft: Stft) -> None:
    if stft.kind not in KINDS:
        raise ManifestError(f"There is no spectrum of the kind {stft.kind!r}.", hint=f"Known: {', '.join(KINDS)}.")
    if not 1 <= stft.window_length <= stft.points <= MAX_FFT:
        raise ManifestError(
            f"A window of {stft.window_length:,} samples and an FFT of {stft.points:,} do not go together.",
            hint=f"The FFT must be at least as long as the window, and at most {MAX_FFT:,}.",
        )
