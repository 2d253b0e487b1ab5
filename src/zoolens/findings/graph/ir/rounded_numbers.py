"""Numbers that a file keeps in half precision: float16, with 11 significant bits, or bfloat16, with 8."""

from __future__ import annotations

from math import frexp, isclose, isfinite, ldexp
from typing import Final

import numpy as np

_CLOSE: Final = 1e-5  # numbers that were once float32


def as_float16(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float16(number))


def as_bfloat16(number: float) -> float:
    if not isfinite(number):
        return number
    fraction, exponent = frexp(number)
    return ldexp(round(ldexp(fraction, 8)), exponent - 8)


def is_same_number(a: float, b: float) -> bool:
    """Whether two numbers are equal but for the precision that one of them was kept in. 1.41 is not the root of 2 in
    half precision, which is 1.4140625."""
    return isclose(a, b, rel_tol=_CLOSE, abs_tol=1e-12) or _is_rounded(a, b) or _is_rounded(b, a)


def _is_rounded(rounded: float, exact: float) -> bool:
    return rounded in (as_float16(exact), as_bfloat16(exact)) and not _is_written(rounded)


def _is_written(number: float) -> bool:
    """Whether somebody has probably written this number: it has at most three digits. Rounding hardly ever leaves so
    few, and the limit of a ReLU6 is not what became of 6.01. Zero is what becomes of numbers that are too small."""
    return number != 0 and float(f"{number:.3g}") == number
