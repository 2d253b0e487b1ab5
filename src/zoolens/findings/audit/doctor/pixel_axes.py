"""The axes of a pixel's value: colour order, and the scale, mean and deviation it is normalised with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.audit.doctor.variants import Axis, AxisChoice, NotSwept, axis_or_none, with_input
from zoolens.inventory.manifests.schema import MODALITIES, Input, Manifest
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.runtimes.runtime import TensorSpec

SCALING, MEAN = "scaling", "mean and deviation"


@dataclass(frozen=True)
class PixelRecipe:
    """value = (pixel × scale − mean) / std, channels in the order red, green, blue."""

    name: str
    factor: str
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    rarity: int = 0  # how seldom models are trained with it: of recipes that do equally well, the commoner is meant

    def step(self, color: str) -> Normalize:
        turn = slice(None, None, -1 if color == "BGR" else 1)
        return Normalize(op="normalize", scale=self.scale, mean=self.mean[turn], std=self.std[turn])


_PLAIN: Final = (
    PixelRecipe("0 to 255", SCALING),
    PixelRecipe("0 to 1", SCALING, scale=1 / 255),
    PixelRecipe("−1 to 1", SCALING, mean=(127.5,), std=(127.5,)),
    PixelRecipe("(x − 127) / 128", SCALING, mean=(127.0,), std=(128.0,), rarity=1),
    PixelRecipe("(x − 128) / 128", SCALING, mean=(128.0,), std=(128.0,), rarity=1),
)
_COLOUR: Final = (
    PixelRecipe("ImageNet mean and deviation", MEAN, 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    PixelRecipe("ImageNet mean of Caffe", MEAN, 1.0, (123.68, 116.779, 103.939), rarity=1),
    PixelRecipe("CIFAR-10", MEAN, 1 / 255, (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616), rarity=2),
    PixelRecipe(
        "CLIP", MEAN, 1 / 255, (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711), rarity=2
    ),
)
_GRAY: Final = (
    PixelRecipe("1 to 0, inverted", SCALING, -1 / 255, (-1.0,)),
    PixelRecipe("MNIST", MEAN, 1 / 255, (0.1307,), (0.3081,)),
    PixelRecipe("Fashion-MNIST", MEAN, 1 / 255, (0.286,), (0.353,)),
)
_SCALES: Final = (("1", 1.0), ("1/255", 1 / 255), ("1/127.5", 1 / 127.5))


def colour_axis(manifest: Manifest) -> Axis | NotSwept:
    declared = manifest.inputs[0]
    if declared.modality != "image" or declared.color == "gray":
        kind = "grey" if declared.modality == "image" else MODALITIES[declared.modality]
        return NotSwept("colour order", f"the input is {kind} and has no colour order.")
    other = "BGR" if declared.color == "RGB" else "RGB"
    choice = AxisChoice("colour", "colour order", other, lambda manifest: with_input(manifest, color=other))
    return Axis("colour", declared.color, (choice,))


def normalisation_axis(manifest: Manifest, tensor: TensorSpec) -> Axis | NotSwept:
    declared = manifest.inputs[0]
    if declared.modality in ("text", "sound"):
        return NotSwept("scaling, mean and deviation", f"the input is {MODALITIES[declared.modality]}.")
    if np.dtype(tensor.dtype).kind in "iu" and not tensor.quantised:
        return NotSwept("scaling, mean and deviation", f"the input takes raw {tensor.dtype} values.")
    recipes = [recipe for recipe in _recipes(declared) if not _same(declared, (recipe.step(declared.color),))]
    choices = [*(_whole(recipe) for recipe in recipes), *_rescaled(declared), *_reversed(declared)]
    axis = axis_or_none("normalisation", describe(_steps(declared)), choices, manifest)
    assert axis is not None  # no declaration equals all of them
    return axis


def describe(steps: tuple[Normalize, ...]) -> str:
    return ", then ".join(_described(step) for step in steps) or "0 to 255"


def _described(step: Normalize) -> str:
    for name, scale in _SCALES:
        if abs(step.scale - scale) < 1e-9:
            return f"scale {name}, mean {_figures(step.mean)}, deviation {_figures(step.std)}"
    return f"scale {step.scale:.4g}, mean {_figures(step.mean)}, deviation {_figures(step.std)}"


def _figures(values: tuple[float, ...]) -> str:
    return "/".join(f"{value:.4g}" for value in values)


def _recipes(declared: Input) -> tuple[PixelRecipe, ...]:
    if declared.modality == "array":
        return _PLAIN
    return _PLAIN + (_GRAY if declared.color == "gray" else _COLOUR)


def _whole(recipe: PixelRecipe) -> AxisChoice:
    def change(manifest: Manifest) -> Manifest:
        return _renormalised(manifest, (recipe.step(manifest.inputs[0].color),))

    return AxisChoice("normalisation", recipe.factor, recipe.name, change, recipe.rarity)


def _rescaled(declared: Input) -> list[AxisChoice]:
    """The declared mean and deviation on pixels of another range: the forgotten (or doubled) division by 255."""
    steps = _steps(declared)
    if len(steps) != 1 or (set(steps[0].mean) == {0.0} and set(steps[0].std) == {1.0}):
        return []
    return [
        _fixed(SCALING, f"declared mean and deviation at scale {name}", steps[0].model_copy(update={"scale": scale}))
        for name, scale in _SCALES
        if abs(steps[0].scale - scale) > 1e-9
    ]


def _reversed(declared: Input) -> list[AxisChoice]:
    steps = _steps(declared)
    if len(steps) != 1 or (len(set(steps[0].mean)) == 1 and len(set(steps[0].std)) == 1):
        return []
    turned = steps[0].model_copy(update={"mean": steps[0].mean[::-1], "std": steps[0].std[::-1]})
    return [_fixed(MEAN, "declared, channels reversed", turned)]


def _fixed(factor: str, name: str, step: Normalize) -> AxisChoice:
    return AxisChoice("normalisation", factor, name, lambda manifest: _renormalised(manifest, (step,)), rarity=3)


def _renormalised(manifest: Manifest, steps: tuple[Normalize, ...]) -> Manifest:
    shaping = tuple(step for step in manifest.inputs[0].preprocess if not isinstance(step, Normalize))
    return with_input(manifest, preprocess=(*shaping, *steps))


def _steps(declared: Input) -> tuple[Normalize, ...]:
    return tuple(step for step in declared.preprocess if isinstance(step, Normalize))


def _same(declared: Input, steps: tuple[Normalize, ...]) -> bool:
    """Whether both make the same of every pixel, however they are written."""
    return bool(np.allclose(_ends(_steps(declared)), _ends(steps), rtol=1e-4, atol=1e-4))


def _ends(steps: tuple[Normalize, ...]) -> NDArray[Any]:
    """What black and white become, per channel."""
    values = np.array([[0.0] * 3, [255.0] * 3])
    for step in steps:
        mean, std = (_three(numbers) for numbers in (step.mean, step.std))
        values = (values * step.scale - mean) / std
    return values


def _three(numbers: tuple[float, ...]) -> NDArray[Any]:
    """The first three, one repeated: an array input may have more columns, and is then never the same."""
    return np.resize(np.array(numbers, np.float64), 3)
