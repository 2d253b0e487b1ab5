"""Any picture for any model: how its manifest has it resized, and what is done where the manifest says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_steps import CenterCrop, Resize, ResizeHeight
from zoolens.inventory.preprocess.resize import resize

Pixels = NDArray[np.uint8]


def fitted(declared: Input, pixels: Pixels, *, located: bool) -> tuple[Pixels, str]:
    """The picture as the model's own preprocessing can take it, and how it is resized, in words.

    Where the manifest declares no step that changes the size, a picture of another size is squeezed to the one that the
    input takes. Not where an answer lies at places of the picture (`located`): they would be told of the squeezed one.
    """
    if words := list(_declared(declared.preprocess)):
        return pixels, f"{'; '.join(words)}, as its manifest declares"
    wanted = _fixed_size(declared)
    have = (pixels.shape[0], pixels.shape[1])
    if wanted is None or wanted == have:
        return pixels, "not resized"
    if located:
        return pixels, ""
    squeezed = resize(pixels, wanted, "bilinear", "pil")
    stretched = "" if wanted[0] * have[1] == wanted[1] * have[0] else ", which changes its proportions"
    return (
        np.asarray(squeezed, np.uint8),
        f"resized here to {_size(wanted)} (bilinear){stretched}: its manifest declares no resizing",
    )


def _fixed_size(declared: Input) -> tuple[int, int] | None:
    sizes = dict(zip(declared.layout, declared.shape, strict=True))
    height, width = sizes.get("H"), sizes.get("W")
    return None if height is None or width is None else (height, width)


def _declared(steps: Sequence[Any]) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Resize):
            size = f"its shorter side to {step.size}" if isinstance(step.size, int) else f"to {_size(step.size)}"
            yield f"resized {size} ({step.method}, {step.library})"
        elif isinstance(step, CenterCrop):
            cut = f"{100 * step.fraction:g} %" if step.fraction is not None else _size(step.size or (0, 0))
            yield f"the middle {cut} cut out"
        elif isinstance(step, Letterbox):
            yield f"fitted into {_size(step.size)} with its proportions, the rest filled"
        elif isinstance(step, ResizeHeight):
            yield f"resized to a height of {step.height}"


def _size(size: tuple[int, int]) -> str:
    """Width × height, as pictures are told of."""
    return f"{size[1]} × {size[0]}"
