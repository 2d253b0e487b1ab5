"""Sliding windows: how many fit, and what padding the modes SAME and "ceil" come to.

All functions work on one entry per spatial axis; pads are the begins of all axes, then the ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Shape


def reach(kernel: int, dilation: int) -> int:
    """How many positions a window spans."""
    return (kernel - 1) * dilation + 1


def slid(extents: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Shape) -> Shape:
    """The output extents of a window that slides over `extents`."""
    check(len(extents), kernel, stride, dilation, pads)
    count = len(extents)
    counts = []
    for i, extent in enumerate(extents):
        room = extent + pads[i] + pads[count + i] - reach(kernel[i], dilation[i])
        if room < 0:
            raise ModelError(f"A window of {reach(kernel[i], dilation[i])} does not fit into an extent of {extent}.")
        counts.append(room // stride[i] + 1)
    return tuple(counts)


def check(count: int, kernel: Shape, stride: Shape, dilation: Shape, pads: Shape) -> None:
    """ModelError unless there is one positive entry per axis and two pads."""
    lengths = {len(kernel), len(stride), len(dilation)}
    if lengths != {count} or len(pads) != 2 * count:
        raise ModelError(f"A window over {count} axes has {len(kernel)} extents and {len(pads)} pads.")
    if any(number < 1 for number in (*kernel, *stride, *dilation)):
        raise ModelError(f"A window has the extents {kernel}, the strides {stride} and the dilations {dilation}.")


def grown(extents: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Shape, extra: Shape) -> Shape:
    """The output extents of a transposed convolution."""
    check(len(extents), kernel, stride, dilation, pads)
    count = len(extents)
    return tuple(
        (extent - 1) * stride[i] - pads[i] - pads[count + i] + reach(kernel[i], dilation[i]) + extra[i]
        for i, extent in enumerate(extents)
    )


def same_pads(extents: Shape, kernel: Shape, stride: Shape, dilation: Shape, *, lower: bool = False) -> Shape:
    """Pads that make the output ceil(extent / stride); the odd one goes to the end, or to the begin if `lower`."""
    check(len(extents), kernel, stride, dilation, (0,) * (2 * len(extents)))
    totals = []
    for extent, size, step, spacing in zip(extents, kernel, stride, dilation, strict=True):
        windows = -(-extent // step)
        covered = (windows - 1) * step + reach(size, spacing)
        totals.append(max(covered - extent, 0))
    return _halved(totals, lower=lower)


def _halved(totals: Sequence[int], *, lower: bool = False) -> Shape:
    """Pads at the begins and ends of axes; the odd one goes to the end, or to the begin if `lower`."""
    begins = [(total + 1) // 2 if lower else total // 2 for total in totals]
    ends = [total - begin for total, begin in zip(totals, begins, strict=True)]
    return (*begins, *ends)


def same_transposed_pads(
    kernel: Shape, stride: Shape, dilation: Shape, extra: Shape, *, lower: bool = False
) -> tuple[int, ...]:
    """Pads that make the output of a transposed convolution extent × stride."""
    axes = zip(kernel, stride, dilation, extra, strict=True)
    return _halved([reach(size, spacing) - step + added for size, step, spacing, added in axes], lower=lower)


def fitted_transposed_pads(
    extents: Shape, wanted: Shape, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Shape]:
    """The pads and output pads with which a transposed convolution makes the `wanted` extents of `extents`: what it
    makes too much is cut off evenly, the odd one at the end, and what it makes too little is added at the end."""
    axes = zip(extents, wanted, kernel, stride, dilation, strict=True)
    surplus = [(given - 1) * step + reach(size, spacing) - target for given, target, size, step, spacing in axes]
    pads = _halved([max(number, 0) for number in surplus])
    return pads, tuple(max(-number, 0) for number in surplus)


def covering_ends(
    extents: Shape, windows: Shape, kernel: Shape, stride: Shape, dilation: Shape, begins: Shape
) -> Shape:
    """Pads at the ends: as many as at the begins, or more where so many `windows` hang over."""
    axes = zip(extents, windows, kernel, stride, dilation, begins, strict=True)
    return tuple(
        max(begin, (count - 1) * step + reach(size, spacing) - extent - begin)
        for extent, count, size, step, spacing, begin in axes
    )


def ceil_pads(extents: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Shape) -> Shape:
    """The pads that let the plain rule make as many windows as "ceil" does.

    A last window that would start in the padding behind the input is not made, as in Caffe, torch and ONNX.
    """
    check(len(extents), kernel, stride, dilation, pads)
    count = len(extents)
    ends = []
    for i, extent in enumerate(extents):
        begin = pads[i]
        end = pads[count + i]
        windows = -(-(extent + begin + end - reach(kernel[i], dilation[i])) // stride[i]) + 1
        if (windows - 1) * stride[i] >= extent + begin:
            windows -= 1
        needed = (windows - 1) * stride[i] + reach(kernel[i], dilation[i]) - extent - begin
        ends.append(end if needed <= end < needed + stride[i] else max(needed, 0))
    return (*pads[:count], *ends)


def spread(values: Sequence[int] | None, count: int, default: int) -> Shape:
    """One entry per axis of what a source gives once, per axis, or not at all."""
    if not values:
        return (default,) * count
    return tuple(values) * count if len(values) == 1 else tuple(values)
