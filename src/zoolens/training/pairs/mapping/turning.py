"""How a tensor of one network becomes one of the other, in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from zoolens.training.pairs.mapping.origins import Origin, order_of_axes
from zoolens.training.pairs.networks.framework import Array


def turning(a: Origin, b: Origin, flattened: tuple[int, ...] = ()) -> str:
    """How a tensor of A becomes one of B, in words: as it is, with its axes in another order, reshaped, reordered."""
    if not (a.whole and b.whole):
        return "a part of it" if b.whole else "into a part of it" if a.whole else "part into part"
    places = np.empty(prod(b.shape), np.int64)  # for each place of B's tensor, flat, the place in A's
    places[b.places()] = a.places()
    axes = order_of_axes(a.shape, places, b.shape)
    if axes is not None:
        turned = tuple(a.shape[axis] for axis in axes)
        order = "" if axes == tuple(range(len(axes))) else f"axes {_numbers(axes)}"
        size = "" if turned == b.shape else f"as {_size(b.shape)}"
        return ", ".join(part for part in (order, size) if part) or "as it is"
    return _by_map(places, a.shape, b.shape, flattened) or "its numbers in another order"


def _by_map(places: Array, shape: tuple[int, ...], wanted: tuple[int, ...], flattened: tuple[int, ...]) -> str:
    """The kernel of a dense layer behind a flattened map: its inputs in another order of the map's axes."""
    if len(flattened) != 3 or len(shape) != 2 or prod(flattened) not in shape:
        return ""
    extents = dict(zip("CHW", flattened, strict=True))
    for given in ("CHW", "HWC"):
        inputs = tuple(extents[letter] for letter in given)
        for letters in ("O" + given, given + "O"):
            split = (shape[0], *inputs) if letters[0] == "O" else (*inputs, shape[1])
            axes = order_of_axes(split, places) if prod(split) == places.size else None
            if axes is not None:
                order = "".join(letters[axis] for axis in axes)
                turned = "transposed, " if order.startswith("O") != letters.startswith("O") else ""
                return f"{turned}its inputs from the order {given} to {order.replace('O', '')}"
    return ""


def _numbers(axes: Sequence[int]) -> str:
    return f"({', '.join(map(str, axes))})"


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "one number"
