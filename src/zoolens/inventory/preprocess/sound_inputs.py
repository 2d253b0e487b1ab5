"""From a decoded sound to the input of a model, as its manifest declares: one array, or one for each window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.datasets.sound.waveform import Samples, from_record, mono, scaled
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_sound import (
    LogMel,
    MelSteps,
    Mfcc,
    ScaleWaveform,
    Sound,
    SoundLength,
    SoundWindows,
    Standardize,
)
from zoolens.inventory.manifests.schema_steps import Normalize, Step
from zoolens.inventory.preprocess.array_inputs import Prepare, PrepareArray
from zoolens.inventory.preprocess.normalisation import normalized, split_steps
from zoolens.inventory.preprocess.sound.cepstrum import Cepstrum
from zoolens.inventory.preprocess.sound.features import (
    LIBROSA_MFCC,
    MLPERF_TINY_KEYWORDS,
    TORCHAUDIO_MFCC,
    Features,
    features,
)
from zoolens.inventory.preprocess.sound.levels import Log
from zoolens.inventory.preprocess.sound.mel import MelBands
from zoolens.inventory.preprocess.sound.resampling import resample
from zoolens.inventory.preprocess.sound.spectrum import Stft
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]
_Part = TypeVar("_Part", Stft, MelBands, Log, Cepstrum)

# tf.signal.linear_to_mel_weight_matrix has these edges; the logarithm is that of TensorFlow's own examples. Window, hop
# and bands are given by the manifest.
_TF_SIGNAL: Final = Features(
    Stft(1, 1, kind="magnitude"),
    MelBands(20, 125.0, 3800.0, library="tensorflow"),
    Log("natural", offset=1e-6),
    Cepstrum(13, norm="htk"),
)
_DEFAULTS: Final = {
    "librosa": LIBROSA_MFCC,
    "torchaudio": TORCHAUDIO_MFCC,
    "tf.signal": _TF_SIGNAL,
    "mlperf-tiny": MLPERF_TINY_KEYWORDS,
}
# The longest input that is made of one sound, in numbers: 256 MiB as float32.
_MOST_NUMBERS: Final = 1 << 26


@dataclass(frozen=True)
class SoundPlace:
    """Where an input begins in its file, negative where silence comes first, and how long the file is, in seconds."""

    begin: float
    seconds: float


class PrepareSound(Prepare):
    """A sample becomes one input without its batch axis; where the manifest cuts sounds into windows, all of them."""

    def __init__(self, spec: Input, tensor: TensorSpec) -> None:
        assert spec.sound is not None  # the schema sees to it
        self._sound = spec.sound
        # Without a declared length, a model that takes any number of samples gets each sound as it is.
        whole = spec.sound.windows is None and spec.sound.length is None and None in spec.shape[1:]
        self.uneven = spec.sound.windows is not None or whole
        self._steps, normalizing = split_steps(spec.preprocess)
        self._wanted = spec.shape[1:]
        self._finish = PrepareArray(spec.model_copy(update={"preprocess": normalizing}), tensor)
        for step in self._steps:
            if isinstance(step, MelSteps):
                mel_features(step)

    def __call__(self, value: Array) -> Array:
        samples = self._samples(value)
        declared = self._sound.windows
        if declared is None:
            return self._finish(self._shaped(self._features(samples)))
        ready = [self._shaped(self._features(window)) for window in cut_windows(samples, declared)]
        if len(ready) * ready[0].size > _MOST_NUMBERS:
            raise DatasetError(
                f"The windows of the sound have {len(ready):,} × {ready[0].size:,} numbers, more than "
                f"{_MOST_NUMBERS:,}.",
                hint="Cut it into shorter files.",
            )
        return self._finish.many(np.stack(ready))

    def many(self, values: Array) -> Array | None:
        return None

    def memo(self, value: Array) -> SoundPlace:
        sound = from_record(np.asarray(value))
        rate = self._sound.rate
        length = -(-len(sound.samples) * rate // sound.rate)
        front = lead_in(self._sound)
        if self._sound.length is not None:
            front += _moved(self._sound.length, self._sound.length.samples - front - length)
        return SoundPlace(-front / rate, len(sound.samples) / sound.rate)

    def _samples(self, value: Array) -> Samples:
        """One channel at the declared rate and length."""
        sound = from_record(np.asarray(value))
        samples = mono(sound, self._sound.mix)
        if sound.rate != self._sound.rate:
            if self._sound.resample is None:
                raise DatasetError(
                    f"The sound has {sound.rate:,} samples a second, but the model takes {self._sound.rate:,}.",
                    hint="Resample the file, or declare how: sound: {resample: scipy}.",
                )
            samples = resample(samples, sound.rate, self._sound.rate, self._sound.resample)
        samples = np.pad(samples, (lead_in(self._sound), 0))
        return samples if self._sound.length is None else at_declared_length(samples, self._sound.length)

    def _features(self, samples: Array) -> Array:
        for step in self._steps:
            samples = _apply(step, samples, self._sound.rate)
        return samples

    def _shaped(self, values: Array) -> Array:
        """Axes of one where the input has them: 49 × 10 features for an input of 49 × 10 × 1."""
        if values.ndim == len(self._wanted):
            return values
        places = [place for place, extent in enumerate(self._wanted) if extent == 1]
        if values.ndim + len(places) != len(self._wanted):
            raise DatasetError(
                f"The sound is {shape_text(values.shape)} after its steps, but the input takes "
                f"{shape_text(self._wanted)}.",
                hint="Correct shape in the manifest, or the steps under preprocess.",
            )
        return np.expand_dims(values, tuple(places))


def lead_in(sound: Sound) -> int:
    """Samples of silence before every sound."""
    return round(sound.lead_in * sound.rate)


def at_declared_length(samples: Samples, declared: SoundLength) -> Samples:
    missing = declared.samples - len(samples)
    front = _moved(declared, missing)
    if missing >= 0:
        return np.pad(samples, (front, missing - front))
    if declared.crop == "none":
        return samples
    return samples[-front : declared.samples - front]


def _moved(declared: SoundLength, missing: int) -> int:
    """Samples of silence in front of a sound that is too short; negative: samples cut off in front of a longer one."""
    if missing >= 0:
        return {"end": 0, "front": missing, "both": missing // 2}[declared.pad]
    return {"start": 0, "none": 0, "middle": -(-missing // 2), "end": missing}[declared.crop]


def cut_windows(samples: Samples, declared: SoundWindows) -> NDArray[np.float32]:
    """Windows × samples, without a copy beyond the silence at both ends."""
    after_first = max(0, len(samples) - declared.length)
    whole = after_first // declared.step + 1
    count = whole if declared.rest == "drop" else -(-after_first // declared.step) + 1
    if count > declared.most:
        raise DatasetError(
            f"The sound has {count:,} windows, more than the {declared.most:,} that the manifest allows.",
            hint="Cut it into shorter files, or raise most under sound: {windows: …}.",
        )
    needed = (count - 1) * declared.step + declared.length
    padded = np.pad(samples, (declared.context, max(0, needed - len(samples))))
    return np.lib.stride_tricks.sliding_window_view(padded, declared.context + declared.length)[:: declared.step][
        :count
    ]


def mel_features(step: MelSteps) -> Features:
    """The chain of a step: the defaults of the library that it names, with what the manifest replaces."""
    known = _DEFAULTS[step.semantics]
    assert known.mel is not None
    assert known.log is not None
    assert known.cepstrum is not None
    stft = _replaced(
        known.stft,
        window_length=step.window_length,
        hop=step.hop,
        fft_length=step.fft_length,
        window=step.window,
        padding=step.padding,
        kind=step.spectrum,
    )
    # A window of another length needs another FFT where the library's default is as long as the window.
    if step.window_length is not None and step.fft_length is None and known.stft.fft_length == known.stft.window_length:
        stft = replace(stft, fft_length=step.window_length)
    mel = _replaced(known.mel, bands=step.bands, low=step.low, high=step.high, scale=step.mel_scale, norm=step.mel_norm)
    log = _replaced(known.log, kind=step.log, offset=step.offset, floor=step.floor)
    if step.top_db is not None or log.kind != "decibel":
        log = replace(log, top_db=step.top_db if isinstance(step.top_db, float) else None)
    if not isinstance(step, Mfcc):
        return Features(stft, mel, log)
    kept = _replaced(known.cepstrum, count=step.coefficients, lifter=step.lifter)
    if kept.count > mel.bands:
        raise ManifestError(
            f"{kept.count} coefficients cannot be taken from {mel.bands} mel bands.", hint="Take at most as many."
        )
    return Features(stft, mel, log, kept)


def _replaced(known: _Part, **given: Any) -> _Part:
    return replace(known, **{name: value for name, value in given.items() if value is not None})


def _apply(step: Step, values: Array, rate: int) -> Array:
    if isinstance(step, ScaleWaveform):
        return scaled(_one_channel(values, step.op), step.scale)
    if isinstance(step, LogMel | Mfcc):
        made = features(_one_channel(values, step.op), rate, mel_features(step))
        return made.T if step.first == "features" else made
    if isinstance(step, Standardize):
        axis = None if step.over == "all" or values.ndim == 1 else 0
        wide = values.astype(np.float64)
        deviation = np.sqrt(wide.var(axis=axis) + step.epsilon)
        return np.asarray((wide - wide.mean(axis=axis)) / deviation, np.float32)
    assert isinstance(step, Normalize)  # the schema lets no other step through
    return normalized(step, values)


def _one_channel(values: Array, op: str) -> Samples:
    if values.ndim != 1:
        raise ManifestError(f"The step {op} needs samples, but a step before it made features of them.")
    return values
