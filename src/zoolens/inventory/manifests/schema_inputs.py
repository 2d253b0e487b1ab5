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
    """ValueError unless a sample comes first, alone where it is a sound, and an image where an input is its size."""
    if modalities[0] in GIVEN:
        raise ValueError(
            f"the first input takes the sample, and is no {modalities[0]}: put it first, whatever the file"
        )
    if "sound" in modalities and len(modalities) > 1:
        raise ValueError("a sound fills all inputs by itself: name the others under sound, in carry or in constants")
    taking = [modality for modality in modalities if modality not in GIVEN]
    if "size" in modalities and taking != ["image"]:
        raise ValueError("an input of modality: size is about the only image that the model takes beside it")


_Named = tuple[str | None, Tokenizer | None]  # an input, and what makes tokens of it where it is a text


def check_texts(inputs: Sequence[_Named], with_tokenizer: Sequence[bool], *, pooled: bool, coded: bool) -> None:
    """ValueError unless texts fit a manifest. `with_tokenizer`: whether each asset has a file of this role."""
    texts = sum(tokenizer is not None for _, tokenizer in inputs)
    if pooled and texts != 1:
        raise ValueError("pool is for models that take one text: it is the mean over the tokens of that text")
    if not texts and any(with_tokenizer):
        raise ValueError("a file has the role tokenizer, but no input is of modality: text")
    if not texts:
        return
    if len(inputs) > 1:
        _check_beside_others(inputs)
    if coded:
        raise ValueError("a text is prepared by its tokenizer: code.preprocess is for images and arrays")
    if not all(with_tokenizer):
        raise ValueError("an input is text: every asset lists its tokenizer.json as a file of role: tokenizer")


def _check_beside_others(inputs: Sequence[_Named]) -> None:
    """ValueError unless each of several inputs, one of them a text, has a name, and each text tensors of its own."""
    if any(name is None for name, _ in inputs):
        raise ValueError("beside a text, every input has a name: that of a part of the sample")
    filled = [name for name, tokenizer in inputs if tokenizer is None]
    for name, tokenizer in inputs:
        if tokenizer is None:
            continue
        if not tokenizer.tensors.names:
            raise ValueError(
                f"the text {name} has other inputs beside it: say under tokenizer which ones it fills, "
                "tensors: {input_ids: …}"
            )
        if tokenizer.pair is not None:
            raise ValueError(f"the text {name} has other inputs beside it, and pair is for a text alone")
        filled += tokenizer.tensors.names.values()
    twice = next((name for name in filled if filled.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the input {twice} is filled twice")
