"""How pixels become the numbers of an input: from a file's metadata, or from the range that its quantisation covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.inventory.catalog.drafted import UNCHECKED
from zoolens.inventory.manifests.guesses import IMAGENET_NORMALIZE
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.runtimes.litert.tflite_metadata import TensorNotes
from zoolens.inventory.runtimes.runtime import TensorSpec

_LOWEST: Final = {"uint8": 0, "int8": -128}
_RANGES: Final = {"−1…1": (-1.0, 1.0), "0…1": (0.0, 1.0), "0…255": (0.0, 255.0), "−128…127": (-128.0, 127.0)}
_NEAR: Final = 0.02  # of the range: converters compute it from samples, or add half a step
# The darkest and brightest pixels of any channel after ImageNet's mean and deviation, with room for what samples reach.
_IMAGENET: Final = ((-2.3, -1.7), (2.0, 2.8))


@dataclass(frozen=True)
class PixelSteps:
    steps: tuple[Normalize, ...]
    why: str


def stated_normalisation(spec: TensorSpec, notes: TensorNotes, channels: int | None) -> PixelSteps | None:
    """What the metadata say; None: nothing that fits the input."""
    mean, deviation = notes.mean, notes.deviation
    if len(mean) not in (1, channels) or len(deviation) not in (1, channels) or 0 in deviation:
        return None
    numbers = f"mean {_listed(mean)} and deviation {_listed(deviation)} of the metadata"
    step = Normalize(op="normalize", mean=mean, std=deviation)
    if spec.dtype in _LOWEST and not spec.quantised:
        # TFLite's Task Library gives pixels as they are to inputs of whole numbers.
        shifted = (Normalize(op="normalize", mean=(128.0,)),) if spec.dtype == "int8" else ()
        return PixelSteps(shifted, f"raw pixels go in: {numbers} are those of a version with floats")
    unchanged = _unchanged(spec)
    if unchanged is not None and _keeps_pixels(step, spec):
        return PixelSteps((unchanged,), f"{numbers}, which the input's quantisation takes back: pixels go in unchanged")
    return PixelSteps((step,), numbers)


def quantised_range(spec: TensorSpec) -> PixelSteps | None:
    """A guess from the range of a quantised input; None: it has no such range."""
    unchanged = _unchanged(spec)
    if unchanged is None or spec.scale is None:
        return None
    low = spec.scale * (_LOWEST[spec.dtype] - (spec.zero_point or 0))
    high = low + 255 * spec.scale
    for name, (first, last) in _RANGES.items():
        slack = _NEAR * (last - first)
        if abs(low - first) <= slack and abs(high - last) <= slack:
            return PixelSteps((unchanged,), f"pixels are scaled to {name}, the range of the input's quantisation")
    (least, most), (lower, upper) = _IMAGENET
    if least <= low <= most and lower <= high <= upper:
        why = f"ImageNet mean and deviation, by the range {low:.2f}…{high:.2f} of the input's quantisation"
        return PixelSteps((IMAGENET_NORMALIZE,), why)
    if low <= -1 and high >= 1:
        # Of a converter that saw larger numbers than pixels give.
        within = f"within the range {low:.2f}…{high:.2f} of the input's quantisation ({UNCHECKED})"
        usual = Normalize(op="normalize", scale=1 / 127.5, mean=(1.0,))
        return PixelSteps((usual,), f"pixels are scaled to −1…1, {within}")
    why = f"pixels are scaled to {low:.4g}…{high:.4g}, all that the input's quantisation covers ({UNCHECKED})"
    return PixelSteps((unchanged,), why)


def _unchanged(spec: TensorSpec) -> Normalize | None:
    """The step after which quantisation gives the numbers of the pixels again (of int8 less 128)."""
    if spec.dtype not in _LOWEST or not spec.scale:
        return None
    start = (spec.zero_point or 0) - _LOWEST[spec.dtype]
    return Normalize(op="normalize", scale=spec.scale, mean=(start * spec.scale,))


def _keeps_pixels(step: Normalize, spec: TensorSpec) -> bool:
    """Whether no pixel becomes another one by more than rounding."""
    start, scale = (spec.zero_point or 0) - _LOWEST[spec.dtype], spec.scale or 1.0
    longest = max(len(step.mean), len(step.std))
    means, deviations = (numbers * longest if len(numbers) == 1 else numbers for numbers in (step.mean, step.std))
    ends = [
        ((pixel - mean) / deviation / scale + start, pixel)
        for pixel in (0, 255)
        for mean, deviation in zip(means, deviations, strict=True)
    ]
    return all(abs(found - pixel) <= 1 for found, pixel in ends)


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
