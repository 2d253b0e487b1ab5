"""What rounding to a precision does to numbers, and by how much rounding alone may move what is computed from them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ONE_ROUNDING: Final = 2.0**-24  # relative, of float32: no floor lies below it
ROUNDINGS: Final = 16  # by so many are numbers disturbed where a floor is measured
COARSE_ROUNDINGS: Final = 2  # of float16 and bfloat16, whose sums are kept in float32
FACTOR: Final = 4.0  # a floor is so many times the farthest that disturbed computations got

# Bits of the fraction that each precision keeps; float32 has 23.
FRACTION_BITS: Final = {"bfloat16": 7, "float16": 10, "tf32": 10}


def disturbed(array: Array, generator: np.random.Generator, precision: str = "float32") -> Array:
    """Every number by up to `ROUNDINGS` roundings of float32, up or down, or `COARSE_ROUNDINGS` of a coarser type."""
    size = 2 * ROUNDINGS * ONE_ROUNDING
    if precision in FRACTION_BITS:
        size = 2 * COARSE_ROUNDINGS * 2.0 ** -(FRACTION_BITS[precision] + 1)
    moved = np.asarray(generator.uniform(-1, 1, array.shape))
    moved *= size  # in place: there are as many as a network has weights
    moved += 1
    moved *= array
    return moved.astype(np.float32)


def rounded(array: Array, precision: str) -> Array:
    """The numbers as this precision keeps them, as float32, rounded to the nearest and on a tie to the even one."""
    single = np.asarray(array, np.float32)
    if precision == "float32":
        return single
    if precision == "float16":
        with np.errstate(over="ignore"):
            return single.astype(np.float16).astype(np.float32)
    dropped = 23 - FRACTION_BITS[precision]
    bits = np.ascontiguousarray(single).view(np.uint32)
    half = np.uint32((1 << (dropped - 1)) - 1)
    odd = (bits >> np.uint32(dropped)) & np.uint32(1)
    kept = (bits + half + odd) & np.uint32(~((1 << dropped) - 1) & 0xFFFFFFFF)
    return np.where(np.isfinite(single), kept.view(np.float32), single)


def is_representable(array: Array, precision: str) -> bool:
    """Whether every number is one that this precision can hold."""
    single = np.asarray(array, np.float32)
    return bool(np.array_equal(rounded(single, precision), single, equal_nan=True))
