"""Whole chains from samples to features, with the defaults of the libraries that people train with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.inventory.datasets.sound.waveform import Samples
from zoolens.inventory.preprocess.sound.cepstrum import Cepstrum, cepstrum
from zoolens.inventory.preprocess.sound.levels import Log, levels
from zoolens.inventory.preprocess.sound.mel import MelBands, filters
from zoolens.inventory.preprocess.sound.spectrum import Stft, spectrum


@dataclass(frozen=True)
class Features:
    """Steps in their order; one that is None is left out, and so must be those after it."""

    stft: Stft
    mel: MelBands | None = None
    log: Log | None = None
    cepstrum: Cepstrum | None = None


# librosa.feature.mfcc(y=samples, sr=rate)
LIBROSA_MFCC: Final = Features(
    Stft(2048, 512, 2048, padding="constant", centred_window=True),
    MelBands(128, scale="slaney", norm="slaney"),
    Log("decibel", floor=1e-10, top_db=80.0),
    Cepstrum(20),
)
# torchaudio.transforms.MFCC(rate)
TORCHAUDIO_MFCC: Final = Features(
    Stft(400, 200, 400, padding="reflect", centred_window=True),
    MelBands(128, library="torchaudio"),
    Log("decibel", floor=1e-10, top_db=80.0),
    Cepstrum(40),
)
# MLPerf Tiny's keyword spotting, as its get_dataset.py computes it with tf.signal from one second at 16,000 Hz that was
# divided by its maximum: 49 frames of 10 coefficients
MLPERF_TINY_KEYWORDS: Final = Features(
    Stft(480, 320, kind="magnitude"),
    MelBands(40, 20.0, 4000.0, library="tensorflow"),
    Log("natural", offset=1e-6),
    Cepstrum(10, norm="htk"),
)


def features(samples: Samples, rate: int, chain: Features) -> Samples:
    """Frames × features of one channel. All steps are computed in float64; the libraries round each to float32."""
    values = spectrum(samples, chain.stft)
    if chain.mel is not None:
        values = values @ filters(chain.mel, chain.stft.points, rate)
    if chain.log is not None:
        values = levels(values, chain.log)
    if chain.cepstrum is not None:
        values = cepstrum(values, chain.cepstrum)
    return values.astype(np.float32)
