"""What a manifest says of a sound: its rate and length, how it is cut into windows, and which features are computed."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from zoolens.inventory.manifests.part import Part

MAX_SAMPLES: Final = 1 << 24  # of one input: 17 minutes at 16 kHz
MAX_WINDOWS: Final = 1 << 20
MAX_LEAD_IN: Final = 60.0  # seconds
_MAX_STATE: Final = 1 << 24  # numbers that are carried from one window to the next

Semantics = Literal["librosa", "torchaudio", "tf.signal", "mlperf-tiny"]


class SoundLength(Part):
    """One number of samples for all sounds."""

    samples: int = Field(ge=1, le=MAX_SAMPLES, description="At the declared rate.")
    pad: Literal["end", "front", "both"] = Field(
        default="end", description="Where silence is added to shorter sounds; both: half of it, rounded down, in front."
    )
    crop: Literal["start", "middle", "end", "none"] = Field(
        default="start", description="Which part of a longer sound is kept; none: all of it, for inputs cut in windows."
    )


class SoundWindows(Part):
    """A sound is cut into windows, and the model answers each. Silence is added behind the last window.

    A window has `context` more samples before its own `length`: the last ones before it, silence before the first.
    """

    length: int = Field(ge=1, le=MAX_SAMPLES)
    hop: int | None = Field(default=None, ge=1, description="Samples between the beginnings of windows; else length.")
    context: int = Field(default=0, ge=0, le=MAX_SAMPLES)
    join: Literal["mean", "frames"] = Field(
        description="mean: one answer, the mean of the model's outputs; frames: the outputs of all windows in one row."
    )
    rest: Literal["pad", "drop"] = Field(
        default="pad", description="The end that does not fill a window: with silence behind it, or left out."
    )
    most: int = Field(
        default=100_000, ge=1, le=MAX_WINDOWS, description="A sound with more windows is refused; each is a call."
    )

    @property
    def step(self) -> int:
        return self.hop or self.length


class Carried(Part):
    """An input that takes what an output gave for the window before; zeros for the first window of every sound."""

    output: str
    shape: tuple[int, ...] | None = Field(default=None, description="Needed where the file leaves dimensions free.")

    @model_validator(mode="after")
    def _sane(self) -> Self:
        numbers = 1
        for extent in self.shape or ():
            if extent < 1:
                raise ValueError(f"a dimension of a carried state is {extent}; it must be 1 or more")
            numbers *= extent
        if numbers > _MAX_STATE:
            raise ValueError(f"a carried state of {numbers:,} numbers is larger than any real one")
        return self


class Sound(Part):
    """From a decoded sound to samples of one channel at one rate; `preprocess` makes features of them."""

    rate: int = Field(ge=1, le=768_000, description="Samples a second that the model was trained with.")
    resample: Literal["scipy", "torchaudio", "soxr"] | None = Field(
        default=None,
        description="Whose filter changes the rate of other sounds; without it, sounds at another rate are refused.",
    )
    mix: Literal["mean", "first"] = Field(default="mean", description="How several channels become one.")
    lead_in: float = Field(
        default=0.0, ge=0, le=MAX_LEAD_IN, description="Seconds of silence before every sound, before it is cut."
    )
    length: SoundLength | None = None
    windows: SoundWindows | None = None
    carry: dict[str, Carried] = Field(
        default_factory=dict,
        description="State of a recurrent model: an output that this input takes with the next window.",
    )
    constants: dict[str, int | float | tuple[float, ...]] = Field(
        default_factory=dict, description="Inputs that are the same for every window, such as the rate."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.carry and self.windows is None:
            raise ValueError("carry feeds an output to the next window: say how the sound is cut, under windows")
        if self.length is not None and self.length.crop == "none" and self.windows is None:
            raise ValueError("crop: none leaves sounds of different lengths: say how they are cut, under windows")
        if twice := set(self.carry) & set(self.constants):
            raise ValueError(f"the input {min(twice)} is both carried and constant")
        return self


# --- steps, of samples to features; with windows, each window goes through them


class ScaleWaveform(Part):
    """Samples as the model takes them. Decoded samples lie between −1 and 1."""

    op: Literal["waveform"]
    scale: Literal["unit", "int16", "maximum"] = Field(
        description="unit: as decoded; int16: times 32,768; maximum: divided by the largest sample, as in MLPerf Tiny."
    )


class MelSteps(Part):
    """`semantics` names the library whose spectra, filters and defaults are meant; every other field replaces one of
    its defaults."""

    semantics: Semantics = Field(
        description="librosa.feature.melspectrogram, torchaudio.transforms.MelSpectrogram, tf.signal.stft with "
        "linear_to_mel_weight_matrix, or the features of MLPerf Tiny's keyword spotting."
    )
    window_length: int | None = Field(default=None, ge=1, description="Samples of a frame.")
    hop: int | None = Field(default=None, ge=1, description="Samples between frames.")
    bands: int | None = Field(default=None, ge=1, description="Mel bands.")
    fft_length: int | None = Field(default=None, ge=1)
    window: Literal["hann", "hann_symmetric", "hamming", "hamming_symmetric", "rectangular"] | None = None
    padding: Literal["none", "constant", "reflect"] | None = Field(
        default=None, description="Half an FFT at both ends, so that frames are centred; none: no padding."
    )
    spectrum: Literal["power", "magnitude"] | None = None
    low: float | None = Field(default=None, ge=0, description="Hz, where the lowest band begins.")
    high: float | None = Field(default=None, gt=0, description="Hz, where the highest band ends.")
    mel_scale: Literal["htk", "slaney"] | None = None
    mel_norm: Literal["none", "slaney"] | None = None
    log: Literal["natural", "decimal", "decibel"] | None = None
    offset: float | None = Field(default=None, ge=0, description="Added before the logarithm.")
    floor: float | None = Field(default=None, ge=0, description="Smaller values are raised to it before the logarithm.")
    top_db: float | Literal["none"] | None = Field(
        default=None, description="Decibels below the maximum at which values are cut off; none: they are not."
    )
    first: Literal["frames", "features"] = Field(
        default="frames", description="The first axis; librosa and torchaudio give features first."
    )

    @model_validator(mode="after")
    def _tf_signal_has_no_defaults(self) -> Self:
        if self.semantics == "tf.signal" and None in (self.window_length, self.hop, self.bands):
            raise ValueError("tf.signal has no defaults for window_length, hop and bands: give them")
        return self


class LogMel(MelSteps):
    """The logarithm of a mel spectrogram: frames × bands."""

    op: Literal["log_mel"]


class Mfcc(MelSteps):
    """Mel-frequency cepstral coefficients: frames × coefficients."""

    op: Literal["mfcc"]
    coefficients: int | None = Field(default=None, ge=1, description="The first ones are kept.")
    lifter: float | None = Field(default=None, ge=0)


class Standardize(Part):
    """Subtract the mean and divide by the standard deviation, over all numbers or of each feature over the frames."""

    op: Literal["standardize"]
    over: Literal["all", "frames"] = "all"
    epsilon: float = Field(default=1e-7, gt=0, description="Added to the variance.")


SOUND_STEPS: Final = (ScaleWaveform, LogMel, Mfcc, Standardize)
