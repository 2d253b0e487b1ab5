"""What a tensor of a file is while its graph is imported: the name of a node (live), or a constant.

A constant's values are loaded when someone needs them, and never when they are large and only the structure is
wanted. Views of a constant (reshaped, transposed) remember where they come from, so that a tensor that is turned
there and back is still the same tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.mask_values import HIDES_NOTHING, mask_words
from zoolens.findings.graph.ir.model import Array, Shape, check_shape

SMALL: Final = 4_096  # elements: shape arithmetic needs no more
MOST: Final = 1 << 20  # elements of one that was computed here, such as a mask


@dataclass(frozen=True)
class Constant:
    shape: Shape
    dtype: str
    key: str
    load: Callable[[], Array]
    origin: Constant | None = None  # what this is a view of
    perm: tuple[int, ...] | None = None  # how it was transposed; None: reshaped
    learned: bool = True  # kept in the file as numbers, not made by arithmetic

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_small(self) -> bool:
        return self.size <= (SMALL if self.learned else MOST)

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype

    @property
    def is_learned(self) -> bool:
        """Whether these are numbers that a training may have chosen: several real ones that the file keeps."""
        return self.is_float and self.learned and self.size > 1

    @property
    def mask(self) -> str:
        """Which places a mask hides, in words: it holds minus infinity, or as good as that, and zeros; or truth values.
        Empty for other tensors. Nobody learned a mask, and two networks with other masks are not the same."""
        is_matrix = len(self.shape) > 1 and 1 not in self.shape[-2:] and self.size <= MOST
        if not is_matrix or not (self.is_float or self.dtype == "bool"):
            return ""
        try:
            words = mask_words(self.load())
        except ModelError:  # its numbers are in a file that is not here
            return ""
        return "" if words == HIDES_NOTHING and self.learned else words  # a training may begin with zeros

    def values(self) -> Array:
        """ModelError unless it is small: what the importer computes with, it must be able to hold."""
        if not self.is_small:
            raise ModelError(f"{self.key[:60]!r} has {self.size:,} numbers where a shape or a setting belongs.")
        return self.load()

    def integers(self) -> list[int]:
        values = self.values().ravel()
        whole: list[int] = values.tolist() if values.dtype.kind in "iu" else [int(value) for value in values]
        return whole

    def reshaped(self, shape: Sequence[int]) -> Constant:
        wanted = tuple(shape)
        if wanted == self.shape:
            return self
        root = self.origin if self.origin is not None and self.perm is None else self
        if root.shape == wanted:
            return root
        return Constant(wanted, self.dtype, root.key, lambda: root.load().reshape(wanted), root, None, self.learned)

    def transposed(self, perm: Sequence[int]) -> Constant:
        order = tuple(perm)
        if order == tuple(range(len(self.shape))):
            return self
        if self.origin is not None and self.perm is not None:
            return self.origin.transposed([self.perm[axis] for axis in order])
        shape = tuple(self.shape[axis] for axis in order)
        key = f"{self.key}@{''.join(map(str, order))}"
        return Constant(shape, self.dtype, key, lambda: self.load().transpose(order), self, order, self.learned)

    def changed(self, mark: str, change: Callable[[Array], Array]) -> Constant:
        """Other values of the same shape, as float32."""

        def load() -> Array:
            return change(self.load()).astype(np.float32)

        return Constant(self.shape, "float32", f"{self.key}.{mark}", load)


def computed(values: Array, key: str) -> Constant:
    """A constant whose values are at hand."""
    return Constant(tuple(values.shape), _name(values.dtype), key, lambda: values, learned=False)


@cache
def _name(dtype: np.dtype[Any]) -> str:
    """numpy takes longer to say it than the rest of a constant takes."""
    return str(dtype)


def repeated(value: Array, shape: Sequence[int], key: str) -> Constant:
    """One number in every place, whatever the shape: nothing is allocated."""
    wanted = tuple(map(int, shape))
    check_shape(wanted, key, "The graph")
    return Constant(wanted, _name(value.dtype), key, lambda: np.broadcast_to(value, wanted), learned=False)


Tensor = str | Constant  # the name of a node, or a constant
