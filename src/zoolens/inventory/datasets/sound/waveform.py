"""A decoded sound, and how its samples are mixed to one channel and scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError

Samples = NDArray[np.float32]

MAX_SAMPLES: Final = 1 << 26  # of all channels together: 256 MiB as float32, 70 minutes of one channel at 16 kHz
MAX_CHANNELS: Final = 64
MAX_RATE: Final = 768_000  # Hz, the highest rate of studio converters
MIXES: Final = ("mean", "first")
SCALES: Final = ("unit", "int16", "maximum")
RECORD: Final = ("samples", "rate")  # the fields of a sample that is a sound
_INT16: Final = np.float32(32768)


@dataclass(frozen=True)
class Waveform:
    """Samples from −1 to 1 as moments × channels, and how many moments a second has."""

    samples: Samples
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def to_record(waveform: Waveform) -> NDArray[Any]:
    """A sound as datasets give it: a record with its samples and its rate, which belong together."""
    kind = np.dtype([(RECORD[0], np.float32, waveform.samples.shape), (RECORD[1], np.int32)])
    record = np.empty((), kind)
    record["samples"], record["rate"] = waveform.samples, waveform.rate
    return record


def from_record(value: NDArray[Any]) -> Waveform:
    """The sound of a dataset's sample; anything else is refused, above all samples without their rate."""
    if value.dtype.names != RECORD:
        what = "a text" if value.dtype == object else "an array without a sample rate"
        raise DatasetError(
            f"The sample is {what}, but the model takes sounds.", hint="Give a folder of sounds: --data sounds:FOLDER."
        )
    return Waveform(np.asarray(value["samples"]), int(value["rate"]))


def check_format(name: str, channels: int, rate: int) -> None:
    """Refuse channels and rates that no recording has, before anything of that size is allocated."""
    if not 1 <= channels <= MAX_CHANNELS:
        raise DatasetError(
            f"{name} claims {channels:,} channels; 1 to {MAX_CHANNELS} are decoded.", hint="Mix it down, or remove it."
        )
    if not 1 <= rate <= MAX_RATE:
        raise DatasetError(
            f"{name} claims {rate:,} samples a second; 1 to {MAX_RATE:,} are decoded.", hint="Resample or remove it."
        )


def check_length(name: str, samples: int) -> None:
    """Refuse what would fill the memory. `samples` are those of all channels."""
    if samples > MAX_SAMPLES:
        raise DatasetError(
            f"{name} has {samples:,} samples, more than the {MAX_SAMPLES:,} that are decoded.",
            hint="Cut it into shorter files.",
        )


def mono(waveform: Waveform, mix: str = "mean") -> Samples:
    """One channel: the mean of all, as librosa.to_mono computes it, or the first one."""
    if mix not in MIXES:
        raise ManifestError(f"There is no way to mix channels named {mix!r}.", hint=f"Known: {', '.join(MIXES)}.")
    if mix == "first" or waveform.samples.shape[1] == 1:
        return np.ascontiguousarray(waveform.samples[:, 0])
    return np.asarray(waveform.samples.mean(axis=1, dtype=np.float32), np.float32)


def scaled(samples: Samples, scale: str) -> Samples:
    """Samples as a model expects them.

    "unit": from −1 to 1, as decoded. "int16": the numbers of 16-bit PCM, still float32. "maximum": divided by the
    largest sample, as MLPerf Tiny trains its keyword spotting. That is not the largest magnitude, so that samples below
    −1 remain.
    """
    if scale not in SCALES:
        raise ManifestError(f"There is no scale of samples named {scale!r}.", hint=f"Known: {', '.join(SCALES)}.")
    if scale == "unit":
        return samples
    if scale == "int16":
        return samples * _INT16
    largest = samples.max(initial=-1.0)
    if largest <= 0:
        raise DatasetError(
            "A sound without a sample above zero cannot be divided by its maximum.",
            hint="Remove it, or use scale: unit.",
        )
    return np.asarray(samples / largest, np.float32)


def at_length(samples: Samples, length: int) -> Samples:
    """The first `length` samples; silence follows where there are fewer."""
    if len(samples) >= length:
        return samples[:length]
    return np.pad(samples, (0, length - len(samples)))
