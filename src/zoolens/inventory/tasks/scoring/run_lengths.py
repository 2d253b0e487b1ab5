"""Masks as COCO writes them: lengths of runs of 0 and 1 in turn, column by column, beginning with 0.

COCO's JSON has them as a list of numbers (crowd regions) or as text that pycocotools makes. In the text, each number
beyond the third is the difference to the one two places before; numbers are written five bits a character, the lowest
first, with a sixth bit that says whether more follow, and with 48 added, so that all characters are printable.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError

Runs = NDArray[np.int64]

MAX_PIXELS: Final = 1 << 28  # of one mask
_FIRST: Final = 48  # the character 0
_MORE: Final = 32
_SIGN: Final = 16
_LONGEST: Final = 7  # characters of a number: 35 bits, more than MAX_PIXELS


def encode(mask: NDArray[Any]) -> Runs:
    """Lengths of runs of a mask, height × width; every value but 0 is inside."""
    if mask.ndim != 2 or mask.size > MAX_PIXELS:
        raise DatasetError(f"A mask has height and width, and at most {MAX_PIXELS:,} pixels; got shape {mask.shape}.")
    flat = (mask != 0).ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    starts_inside = [0] if len(flat) and flat[0] else []
    return np.diff(np.concatenate([[0], starts_inside, changes, [len(flat)]])).astype(np.int64)


def decode(runs: ArrayLike, size: tuple[int, int]) -> NDArray[np.bool_]:
    """The mask, height × width."""
    height, width = size
    if min(size) < 0 or height * width > MAX_PIXELS:
        raise DatasetError(f"A mask of {width} × {height} pixels cannot be made; at most {MAX_PIXELS:,} pixels.")
    lengths = np.asarray(runs)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise DatasetError("Lengths of runs must be a list of integers.")
    # Each is checked before the sum, which could otherwise wrap around.
    if ((lengths < 0) | (lengths > height * width)).any() or int(lengths.sum()) != height * width:
        raise DatasetError(f"The runs of a mask do not add up to its {width} × {height} pixels.")
    inside = np.arange(len(lengths)) % 2 == 1
    return np.repeat(inside, lengths.astype(np.int64)).reshape(size, order="F")


def area(runs: ArrayLike) -> int:
    """Pixels inside the mask."""
    return int(np.asarray(runs, np.int64)[1::2].sum())


def to_text(runs: ArrayLike) -> str:
    """Runs as pycocotools writes them into JSON."""
    lengths = [int(length) for length in np.asarray(runs, np.int64)]
    text = []
    for place, length in enumerate(lengths):
        value = length - lengths[place - 2] if place > 2 else length
        more = True
        while more:
            bits = value & (_MORE - 1)
            value >>= 5
            more = value != (-1 if bits & _SIGN else 0)
            text.append(chr(_FIRST + bits + (_MORE if more else 0)))
    return "".join(text)


def from_text(text: str) -> Runs:
    """Runs from the text of pycocotools."""
    lengths: list[int] = []
    value, shift = 0, 0
    for character in text:
        bits = ord(character) - _FIRST
        if not 0 <= bits < 2 * _MORE or shift >= 5 * _LONGEST:
            raise DatasetError(f"The text of a mask is damaged near run {len(lengths)}.")
        value |= (bits & (_MORE - 1)) << shift
        shift += 5
        if bits & _MORE:
            continue
        if bits & _SIGN:
            value -= 1 << shift
        lengths.append(value + lengths[-2] if len(lengths) > 2 else value)
        if not 0 <= lengths[-1] <= MAX_PIXELS:
            raise DatasetError(f"The text of a mask has a run of {lengths[-1]} pixels.")
        value, shift = 0, 0
    if shift:
        raise DatasetError("The text of a mask ends inside a number.")
    return np.array(lengths, np.int64)
