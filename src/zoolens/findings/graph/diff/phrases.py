"""Values of layers as they are written by hand: windows, paddings, numbers."""

from __future__ import annotations

from collections.abc import Sequence


def window(extents: Sequence[int]) -> str:
    return "×".join(map(str, extents)) if extents else "dense"


def number(value: float) -> str:
    """The number with four digits, written as 1.001e-5 and not as 1.001e-05."""
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e+")


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def amount(value: int) -> str:
    """A count with its sign, shortened: +4.09 G."""
    for factor, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:+.3g} {unit}"
    return f"{value:+d}"


def unsigned(value: int) -> str:
    """A count, shortened: 4.09 G."""
    return amount(value).removeprefix("+")


def pad_words(pads: Sequence[int]) -> str:
    half = len(pads) // 2
    begins = pads[:half]
    ends = pads[half:]
    if not any(pads):
        return "no padding"
    if begins == ends:
        return f"padding {begins[0] if len(set(begins)) == 1 else window(begins)} on every side"
    if not any(begins):
        return f"padding {ends[0] if len(set(ends)) == 1 else window(ends)} at bottom and right only"
    return f"padding {window(begins)} at top and left, {window(ends)} at bottom and right"


def pool_word(op: str) -> str:
    return {"max_pool": "max-pool", "avg_pool": "average pool"}.get(op, op.replace("_", " "))


def norm_word(norm: str) -> str:
    words = {"": "no norm", "batch": "batch norm", "affine": "a norm folded to scale and shift"}
    return words.get(norm, norm.replace("_", " "))
