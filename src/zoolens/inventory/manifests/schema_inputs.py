"""What an input of a manifest must fulfil: one kind of sample, and only the words that this kind has."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import Final, Literal, get_args

from zoolens.inventory.manifests.part import Part
from zoolens.inventory.manifests.schema_sound import SOUND_STEPS, Sound
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.manifests.tokenizer import Tokenizer

TOKEN_TYPES: Final = ("int64", "int32", "float32")

GIVEN: Final = ("constant", "size")  # inputs that are no part of a sample
Shape = tuple[int | None, ...]
SizeOf = Literal["image_hw", "image_wh", "content_hw", "content_wh", "scale_hw", "scale_wh"]


def check_text(modality: str, tokenizer: Tokenizer | None, shape: Shape, dtype: str, steps: Sequence[Part]) -> None:
    """ValueError unless a text, and nothing else, has a tokenizer that makes tokens of the declared shape."""
    if (modality == "text") != (tokenizer is not None):
        raise ValueError("modality: text and a tokenizer belong together")
    if tokenizer is None:
        return
    if len(shape) != 2:
        raise ValueError("the shape of a text is [batch, tokens]")
    if steps:
        raise ValueError("a text has no preprocess steps: its tokenizer does all of it")
    if dtype not in TOKEN_TYPES:
        raise ValueError(f"the numbers of tokens are {', '.join(TOKEN_TYPES)}, not {dtype}; say dtype: int64")
    length = shape[1]
    if length is not None and (length, "max_length") != (tokenizer.max_length, tokenizer.padding):
        raise ValueError(f"every text has {length} tokens by shape: say max_length: {length} and padding: max_length")


def check_sound(modality: str, sound: Sound | None, steps: Sequence[Part]) -> None:
    """ValueError unless a sound, and nothing else, has a rate and steps for sounds."""
    if (modality == "sound") != (sound is not None):
        raise ValueError("modality: sound and the part sound, with its rate, belong together")
    known = (*SOUND_STEPS, Normalize) if sound is not None else None
    for step in steps:
        name = getattr(step, "op", "")
        if known is not None and not isinstance(step, known):
            raise ValueError(f"{name} is a step for images, not for sounds")
        if known is None and isinstance(step, SOUND_STEPS):
            raise ValueError(f"{name} is a step for sounds: say modality: sound")


def check_given(
    modality: str, value: float | tuple[float, ...] | None, size: str | None, shape: Shape, steps: Sequence[Part]
) -> None:
    """ValueError unless a constant has its numbers, and a size says which one."""
    if (modality == "constant") != (value is not None):
        raise ValueError("modality: constant and a value belong together")
    if (modality == "size") != (size is not None):
        raise ValueError(f"modality: size and size, one of {', '.join(get_args(SizeOf))}, belong together")
    if modality in GIVEN and steps:
        raise ValueError(f"a {modality} has no preprocess steps")
    if value is not None:
        _check_value(value, shape)
    if size is not None and (not shape or shape[-1] not in (2, None)):
        raise ValueError("a size is two numbers: its shape is [batch, 2]")


def _check_value(value: float | tuple[float, ...], shape: Shape) -> None:
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(isfinite(number) for number in numbers):
        raise ValueError("a number of the value is NaN or infinite")
    wanted = prod(extent for extent in shape if extent is not None)
    if len(numbers) not in (1, wanted):
        raise ValueError(f"the value has {len(numbers)} numbers, but the shape {wanted}")


def check_inputs(modalities: Sequence[str]) -> None:
    """ValueError unless a sample comes first, and is an image where another input is its size."""
    if modalities[0] in GIVEN:
        raise ValueError(
            f"the first input takes the sample, and is no {modalities[0]}: put it first, whatever the file"
        )
    taking = [modality for modality in modalities if modality not in GIVEN]
    if "size" in modalities and taking != ["image"]:
        raise ValueError("an input of modality: size is about the only image that the model takes beside it")
