"""The padding modes of TensorFlow and Keras as explicit pads."""

from __future__ import annotations

from collections.abc import Iterable

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Shape
from zoolens.findings.graph.ir.sliding_windows import reach, same_pads


def explicit_pads(
    mode: str, extents: Iterable[int], kernel: Iterable[int], stride: Iterable[int], dilation: Iterable[int] = ()
) -> Shape:
    """The pads of "same", "valid" or "causal" in any case of letters: the begins of all spatial axes, then the ends."""
    window = tuple(kernel)
    rates = tuple(dilation) or (1,) * len(window)
    match mode.lower():
        case "valid":
            return (0,) * (2 * len(window))
        case "causal":
            return (*(reach(*axis) - 1 for axis in zip(window, rates, strict=True)), *(0 for _ in window))
        case "same":
            return same_pads(tuple(extents), window, tuple(stride), rates)
        case _:
            raise ModelError(f"The padding mode {mode[:40]!r} is not known.")
