"""What convolutions, pools and other spatial operators compute, on arrays of axes (N, C, *spatial)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array

_CHUNK: Final = 1 << 23  # numbers in one unfolded piece of a convolution's input
RESIZES: Final = ("asymmetric", "half_pixel", "align_corners")  # rules for where a resized place lies in the source


def padded(x: Array, pads: Sequence[int], value: float = 0.0) -> Array:
    """Pads or crops the last axes. `pads` has the begins of these axes, then the ends; a negative pad crops."""
    half = len(pads) // 2
    if not any(pads):
        return x
    untouched = [(0, 0)] * (x.ndim - half)
    pairs = untouched + list(zip(pads[:half], pads[half:], strict=True))
    crop = tuple(
        slice(max(0, -low), extent - max(0, -high)) for (low, high), extent in zip(pairs, x.shape, strict=True)
    )
    grow = [(max(0, low), max(0, high)) for low, high in pairs]
    return np.pad(x[crop], grow, constant_values=np.asarray(value, x.dtype))


def extents(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """How many windows fit along each spatial axis."""
    counts = []
    for extent, k, step, d in zip(x.shape[2:], kernel, stride, dilation, strict=True):
        reach = d * (k - 1) + 1
        counts.append((extent - reach) // step + 1)
    return tuple(counts)


def taps(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For every position in the kernel, what it sees in all windows at once."""
    out = extents(x, kernel, stride, dilation)
    for position in product(*(range(k) for k in kernel)):
        begins = [p * d for p, d in zip(position, dilation, strict=True)]
        cut = tuple(slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begins, out, stride, strict=True))
        yield position, x[(slice(None), slice(None), *cut)]


def conv(x: Array, kernel: Array, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    """Convolves `x`, which is padded already; `kernel` is (out, in/groups, *window)."""
    if kernel.shape[1] == 1 and groups > 1:
        return _depthwise(x, kernel, stride, dilation, groups)
    window = kernel.shape[2:]
    out = extents(x, window, stride, dilation)
    per_row = x.shape[0] * x.shape[1] * prod(window) * prod(out[1:])
    rows = max(1, _CHUNK // max(1, per_row))
    span = dilation[0] * (window[0] - 1) + 1
    pieces = []
    for first in range(0, out[0], rows):
        last = min(out[0], first + rows) - 1
        piece = x[:, :, first * stride[0] : last * stride[0] + span]
        pieces.append(_unfolded_conv(piece, kernel, stride, dilation, groups))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=2)


def _unfolded_conv(x: Array, kernel: Array, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    batch, channels = x.shape[:2]
    window = kernel.shape[2:]
    out = extents(x, window, stride, dilation)
    if prod(window) == 1:
        _, seen = next(taps(x, window, stride, dilation))
        columns = np.ascontiguousarray(seen)
    else:
        columns = np.empty((batch, channels, prod(window), *out), x.dtype)
        for index, (_, seen) in enumerate(taps(x, window, stride, dilation)):
            columns[:, :, index] = seen
    grouped = columns.reshape(batch, groups, -1, prod(out))
    result = np.matmul(kernel.reshape(groups, kernel.shape[0] // groups, -1), grouped)
    return np.asarray(result).reshape(batch, kernel.shape[0], *out)


def _depthwise(x: Array, kernel: Array, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    multiplier = kernel.shape[0] // groups
    spread = np.repeat(x, multiplier, axis=1) if multiplier > 1 else x
    ones = (1,) * (x.ndim - 2)
    total: Array | None = None
    for position, seen in taps(spread, kernel.shape[2:], stride, dilation):
        index: tuple[Any, ...] = (slice(None), 0, *position)
        part = seen * kernel[index].reshape(-1, *ones)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None  # a kernel has at least one position
    return total


def conv_transpose(
    x: Array,
    kernel: Array,
    *,
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
    output_pads: Sequence[int],
    groups: int,
) -> Array:
    """Convolves the input spread out with zeros with the kernel turned round; `kernel` is (in, out/groups, *window)."""
    window = kernel.shape[2:]
    spread_shape = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    spread = np.zeros((*x.shape[:2], *spread_shape), x.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = x
    reach = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
    rank = len(window)
    begins = [r - p for r, p in zip(reach, pads[:rank], strict=True)]
    ends = [r - p + o for r, p, o in zip(reach, pads[rank:], output_pads, strict=True)]
    per_group = kernel.reshape(groups, kernel.shape[0] // groups, kernel.shape[1], *window).swapaxes(1, 2)
    forward = per_group.reshape(groups * kernel.shape[1], kernel.shape[0] // groups, *window)
    turned = np.flip(forward, axis=tuple(range(2, 2 + rank)))
    return conv(padded(spread, begins + ends), np.ascontiguousarray(turned), (1,) * rank, dilation, groups)


def max_pool(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Sequence[int], value: float
) -> Array:
    best: Array | None = None
    for _, seen in taps(padded(x, pads, value), kernel, stride, dilation):
        best = seen.copy() if best is None else np.maximum(best, seen, out=best)
    assert best is not None
    return best


def avg_pool(x: Array, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], *, count_pad: bool) -> Array:
    ones = (1,) * len(kernel)
    total = sum(seen for _, seen in taps(padded(x, pads), kernel, stride, ones))
    if count_pad or not any(pads):
        return np.asarray(total / prod(kernel), x.dtype)
    inside = padded(np.ones((1, 1, *x.shape[2:]), x.dtype), pads)
    count = sum(seen for _, seen in taps(inside, kernel, stride, ones))
    return np.asarray(total / count, x.dtype)


def adaptive_pool(x: Array, size: Sequence[int], reduce: Callable[..., Array]) -> Array:
    """Cells from floor(i·n/m) to ceil((i+1)·n/m), one axis after the other."""
    for axis, cells in enumerate(size, start=2):
        extent = x.shape[axis]
        spans = [(i * extent // cells, -(-(i + 1) * extent // cells)) for i in range(cells)]
        parts = [reduce(np.take(x, range(low, high), axis), axis=axis, keepdims=True) for low, high in spans]
        x = np.concatenate(parts, axis=axis)
    return x


def lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Over `size` neighbouring channels; alpha is divided by size."""
    before = (size - 1) // 2
    after = size - 1 - before
    untouched = [(0, 0)] * (x.ndim - 2)
    squares = np.pad(np.square(x), [(0, 0), (before, after), *untouched])
    channels = x.shape[1]
    total = sum(squares[:, offset : offset + channels] for offset in range(size))
    scale = bias + alpha / size * total
    return np.asarray(x / scale**beta, x.dtype)


def depth_to_space(x: Array, block: int, mode: str) -> Array:
    n, c, h, w = x.shape
    if mode == "CRD":
        cells = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        cells = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return cells.reshape(n, c // block**2, h * block, w * block)


def space_to_depth(x: Array, block: int, mode: str) -> Array:
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // block, block, w // block, block)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return cells.transpose(order).reshape(n, c * block**2, h // block, w // block)


def channel_shuffle(x: Array, groups: int) -> Array:
    parts = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    return parts.swapaxes(1, 2).reshape(x.shape)


def resize(x: Array, size: Sequence[int], mode: str, coordinates: str) -> Array:
    """One axis after the other, as a weighted sum of neighbours (linear, cubic with a = -0.75) or a choice of one."""
    for axis, extent in enumerate(size, start=2):
        if extent != x.shape[axis]:
            weights = _resize_weights(x.shape[axis], extent, mode, coordinates).astype(x.dtype)
            x = np.moveaxis(np.tensordot(x, weights, axes=(axis, 1)), -1, axis)
    return x


def nearest_places(source: int, target: int, coordinates: str) -> Array:
    """Which place each one of the target is a copy of."""
    return np.floor(_source_places(source, target, "nearest", coordinates)).clip(0, source - 1).astype(int)


def _resize_weights(source: int, target: int, mode: str, coordinates: str) -> Array:
    places = _source_places(source, target, mode, coordinates)
    weights = np.zeros((target, source))
    rows = np.arange(target)
    base = np.floor(places).astype(int)
    for offset in _REACH[mode]:
        share = _KERNELS[mode](places - (base + offset))
        np.add.at(weights, (rows, np.clip(base + offset, 0, source - 1)), share)
    return weights


def _source_places(source: int, target: int, mode: str, coordinates: str) -> Array:
    if coordinates and coordinates not in RESIZES:
        raise ValueError(f"it resizes by the rule {coordinates!r}")
    rows = np.arange(target)
    if coordinates == "align_corners":
        return np.asarray(rows * ((source - 1) / max(1, target - 1)))
    if coordinates == "asymmetric" or (mode == "nearest" and not coordinates):
        return np.asarray(rows * (source / target))
    places: Array = (rows + 0.5) * (source / target) - 0.5
    if mode == "nearest":
        return np.asarray(np.ceil(places - 0.5))
    return np.asarray(np.clip(places, 0, None) if mode == "linear" else places)


def _cubic(distance: Array) -> Array:
    a = -0.75
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _linear(distance: Array) -> Array:
    return np.asarray(np.clip(1 - np.abs(distance), 0, None))


_REACH: Final[dict[str, Sequence[int]]] = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_KERNELS: Final[dict[str, Callable[[Array], Any]]] = {"nearest": np.ones_like, "linear": _linear, "cubic": _cubic}
