"""What `zoolens show` says of a model that takes sounds."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_sound import MelSteps, ScaleWaveform, Sound, Standardize
from zoolens.inventory.runtimes.runtime import shape_text

_SCALES = {"unit": "from −1 to 1", "int16": "as numbers of 16 bits", "maximum": "divided by the largest sample"}


def describe_sound(item: Input, sound: Sound) -> str:
    said = "; ".join(_said_of(sound))
    return f"{item.name or 'the input'}: {shape_text(item.shape)} {item.dtype}, sound at {sound.rate:,} Hz; {said}"


def _said_of(sound: Sound) -> Iterator[str]:
    yield "other rates are refused" if sound.resample is None else f"other rates are resampled as {sound.resample} does"
    yield "channels are averaged" if sound.mix == "mean" else "the first channel is taken"
    if sound.lead_in:
        yield f"{sound.lead_in:g} s of silence come first"
    if sound.length is not None:
        longer = "longer ones are kept" if sound.length.crop == "none" else f"the {sound.length.crop} of longer ones"
        yield f"{sound.length.samples:,} samples: silence at the {sound.length.pad} of shorter ones, {longer}"
    if sound.windows is not None:
        context = f" after {sound.windows.context:,} of context" if sound.windows.context else ""
        joined = "mean of their answers" if sound.windows.join == "mean" else "one answer for each"
        yield f"windows of {sound.windows.length:,} samples{context} every {sound.windows.step:,}, {joined}"
    for name, carried in sound.carry.items():
        yield f"{name} takes {carried.output} of the window before"
    for name, value in sound.constants.items():
        yield f"{name} is {value}"


def describe_sound_step(step: ScaleWaveform | MelSteps | Standardize) -> str:
    if isinstance(step, ScaleWaveform):
        return f"samples {_SCALES[step.scale]}"
    if isinstance(step, Standardize):
        each = "" if step.over == "all" else " of each feature over the frames"
        return f"standardise: mean 0 and deviation 1{each}"
    given = step.model_dump(exclude_defaults=True, exclude={"op", "semantics"})
    changed = ", ".join(f"{name} {value}" for name, value in given.items())
    return f"{step.model_dump()['op'].replace('_', ' ')} as {step.semantics}{f' with {changed}' if changed else ''}"
