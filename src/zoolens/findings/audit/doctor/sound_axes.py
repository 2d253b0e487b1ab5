"""The axes of a sound: its rate, the range of its samples, and whose features are computed of it."""

from __future__ import annotations

from typing import Any, Final

from zoolens.findings.audit.doctor.pixel_axes import describe
from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, Change, NotSwept, axis_or_none, with_input
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.manifests.schema_sound import MelSteps, ScaleWaveform, Sound, Standardize
from zoolens.inventory.manifests.schema_steps import Normalize, Step
from zoolens.inventory.preprocess.sound_inputs import mel_features

RATES: Final = (8_000, 16_000, 22_050, 32_000, 44_100, 48_000)
_SCALES: Final = {"unit": "−1 to 1", "int16": "−32,768 to 32,767", "maximum": "divided by the largest"}
_MEL: Final = (("htk", "none"), ("slaney", "none"), ("htk", "slaney"), ("slaney", "slaney"))
_LOGS: Final = ("natural", "decimal", "decibel")
# Added before the logarithm, or the least value: TensorFlow's examples, librosa and torchaudio, kaldi, YAMNet.
_FLOORS: Final = (1e-6, 1e-10, 1e-12, 1e-3)


def sound_axes(manifest: Manifest) -> list[Axis | NotSwept]:
    """The axes of an input of modality sound; empty for all others."""
    declared = manifest.inputs[0]
    if declared.sound is None:
        return []
    mel = next((step for step in declared.preprocess if isinstance(step, MelSteps)), None)
    features: list[Axis | NotSwept] = [NotSwept("mel scale, logarithm", "the input takes samples, not features.")]
    if mel is not None:
        features = [_mel_scale(manifest, mel), _spectrum(manifest, mel), _logarithm(manifest, mel)]
    return [_rate(manifest, declared.sound), _waveform(manifest), *features, _feature_scale(manifest)]


def _rate(manifest: Manifest, declared: Sound) -> Axis:
    choices = [
        AxisChoice("rate", "sample rate", f"{rate:,} Hz", _sampled(rate), rarity=int(rate != 16_000))
        for rate in RATES
        if rate != declared.rate
    ]
    return Axis("rate", f"{declared.rate:,} Hz", tuple(choices))


def _sampled(rate: int) -> Change:
    def change(manifest: Manifest) -> Manifest:
        sound = manifest.inputs[0].sound
        assert sound is not None  # the axis is one of sounds
        moved = {"rate": rate, "resample": sound.resample or "scipy"}
        return with_input(manifest, sound=sound.model_copy(update=moved))

    return change


def _waveform(manifest: Manifest) -> Axis:
    declared = next((s.scale for s in manifest.inputs[0].preprocess if isinstance(s, ScaleWaveform)), "unit")

    def scaled(scale: str) -> Change:
        def change(manifest: Manifest) -> Manifest:
            others = tuple(step for step in manifest.inputs[0].preprocess if not isinstance(step, ScaleWaveform))
            step = ScaleWaveform.model_validate({"op": "waveform", "scale": scale})
            return with_input(manifest, preprocess=(step, *others))

        return change

    choices = [
        AxisChoice("waveform", "range of samples", words, scaled(scale))
        for scale, words in _SCALES.items()
        if scale != declared
    ]
    return Axis("waveform", _SCALES[declared], tuple(choices))


def _mel_scale(manifest: Manifest, declared: MelSteps) -> Axis | NotSwept:
    mel = mel_features(declared).mel
    assert mel is not None  # features of mel bands have them
    if mel.library == "tensorflow":
        return NotSwept("mel scale", "tf.signal has one.")
    choices = [
        AxisChoice("mel scale", "mel scale", _mel_words(scale, norm), _featured(mel_scale=scale, mel_norm=norm))
        for scale, norm in _MEL
        if (scale, norm) != (mel.scale, mel.norm)
    ]
    return Axis("mel scale", _mel_words(mel.scale, mel.norm), tuple(choices))


def _mel_words(scale: str, norm: str) -> str:
    return f"{scale}, {'bands of equal area' if norm == 'slaney' else 'bands of equal height'}"


def _spectrum(manifest: Manifest, declared: MelSteps) -> Axis:
    now = mel_features(declared).stft.kind
    other = "magnitude" if now == "power" else "power"
    return Axis("spectrum", now, (AxisChoice("spectrum", "spectrum", other, _featured(spectrum=other)),))


def _logarithm(manifest: Manifest, declared: MelSteps) -> Axis | NotSwept:
    log = mel_features(declared).log
    assert log is not None  # a manifest's features have one
    choices = [
        AxisChoice("logarithm", "logarithm", f"{base}, {_floor_words(log.offset, log.floor)}", _featured(log=base))
        for base in _LOGS
        if base != log.kind
    ]
    for number in _FLOORS:
        for offset, floor in ((number, 0.0), (0.0, number)):
            if (offset, floor) != (log.offset, log.floor):
                words = f"{log.kind}, {_floor_words(offset, floor)}"
                choices.append(AxisChoice("logarithm", "log floor", words, _featured(offset=offset, floor=floor), 1))
    words = f"{log.kind}, {_floor_words(log.offset, log.floor)}"
    return axis_or_none("logarithm", words, choices, manifest) or NotSwept("logarithm", "there is no other.")


def _floor_words(offset: float, floor: float) -> str:
    said = [f"{word} {number:g}" for word, number in (("offset", offset), ("floor", floor)) if number]
    return " and ".join(said) or "no floor"


def _featured(**changes: Any) -> Change:
    """Other features."""

    def change(manifest: Manifest) -> Manifest:
        steps = manifest.inputs[0].preprocess
        moved = [step.model_copy(update=changes) if isinstance(step, MelSteps) else step for step in steps]
        return with_input(manifest, preprocess=tuple(moved))

    return change


def _feature_scale(manifest: Manifest) -> Axis:
    """What is done to features at last: left as they are, or brought to mean 0 and deviation 1."""
    wanted: dict[str, tuple[Step, ...]] = {
        "as they come": (),
        "standardised over all numbers": (Standardize(op="standardize"),),
        "standardised over the frames": (Standardize(op="standardize", over="frames"),),
    }
    if not any(isinstance(step, MelSteps) for step in manifest.inputs[0].preprocess):
        # Samples have no frames: both ways would be the same, and neither could be told from the other.
        del wanted["standardised over the frames"]
    declared = _last(manifest.inputs[0])
    words = next((name for name, steps in wanted.items() if steps == declared), _scale_words(declared))
    choices = [
        AxisChoice("feature scale", "normalisation of features", name, _ended(steps))
        for name, steps in wanted.items()
        if steps != declared
    ]
    return Axis("feature scale", words, tuple(choices))


def _last(declared: Input) -> tuple[Step, ...]:
    return tuple(step for step in declared.preprocess if isinstance(step, Standardize | Normalize))


def _scale_words(steps: tuple[Step, ...]) -> str:
    normalising = tuple(step for step in steps if isinstance(step, Normalize))
    return describe(normalising) if normalising else "standardised"


def _ended(steps: tuple[Step, ...]) -> Change:
    def change(manifest: Manifest) -> Manifest:
        kept = [step for step in manifest.inputs[0].preprocess if not isinstance(step, Standardize | Normalize)]
        return with_input(manifest, preprocess=(*kept, *steps))

    return change
