"""Weights of one axis: what every output position takes from every input position, as a matrix wanted × given."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float32]
_Real = NDArray[np.float64]
OPENCV_STEPS: Final = 2048
_KEPT: Final = 64  # matrices; a dataset of photographs has many sizes


def _triangle(x: _Real) -> _Real:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(a: float) -> Callable[[_Real], _Real]:
    def kernel(x: _Real) -> _Real:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = a * (((x - 5) * x + 8) * x - 4)
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return kernel


def _lanczos(radius: int) -> Callable[[_Real], _Real]:
    def kernel(x: _Real) -> _Real:
        return np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)

    return kernel


_KERNELS: Final[dict[str, tuple[Callable[[_Real], _Real], int]]] = {  # with their radius
    "triangle": (_triangle, 1),
    "linear": (_triangle, 1),
    "cubic": (_cubic(-0.5), 2),
    "cubic75": (_cubic(-0.75), 2),
    "lanczos3": (_lanczos(3), 3),
    "lanczos4": (_lanczos(4), 4),
}


@lru_cache(maxsize=_KEPT)
def nearest(given: int, wanted: int, library: str) -> NDArray[np.intp]:
    """Index of the input each output copies. torch and OpenCV take the corner of the output pixel, TF its centre."""
    if library == "opencv":
        # Not given / wanted: the last bit decides.
        positions = np.arange(wanted) * (1 / (wanted / given))
    else:
        scale = np.float32(given) / np.float32(wanted)
        start = np.float32(0.5 if library == "tensorflow" else 0.0)
        positions = (np.arange(wanted, dtype=np.float32) + start) * scale
    indices: NDArray[np.intp] = np.minimum(np.floor(positions).astype(np.intp), given - 1)
    return indices


@lru_cache(maxsize=_KEPT)
def antialiased(given: int, wanted: int, kernel: str, widen: bool = True) -> Weights:
    """A kernel around the centre of every output pixel, as wide as that pixel; weights outside are dropped."""
    function, _ = _KERNELS[kernel]
    scale = given / wanted
    centres = (np.arange(wanted) + 0.5) * scale
    distances = (np.arange(given) + 0.5) - centres[:, np.newaxis]
    return _normalised(function(distances / (max(scale, 1.0) if widen else 1.0)))


@lru_cache(maxsize=_KEPT)
def interpolated(given: int, wanted: int, kernel: str) -> Weights:
    """The kernel at its own width, however much the image shrinks; the border repeats."""
    return _gathered(given, _float_positions(given, wanted), kernel).astype(np.float32)


@lru_cache(maxsize=_KEPT)
def area(given: int, wanted: int) -> Weights:
    """Every output is the mean of what it covers, parts of pixels included."""
    edges = np.arange(wanted + 1) * (given / wanted)
    pixels = np.arange(given)
    overlap = np.minimum(edges[1:, np.newaxis], pixels + 1) - np.maximum(edges[:-1, np.newaxis], pixels)
    return _normalised(np.maximum(overlap, 0.0))


def tensorflow(given: int, wanted: int, method: str, antialias: bool) -> Weights:
    if method == "area":
        return area(given, wanted)
    if method == "lanczos":
        return antialiased(given, wanted, "lanczos3", widen=antialias)
    if antialias:
        return antialiased(given, wanted, "triangle" if method == "bilinear" else "cubic")
    return interpolated(given, wanted, "linear") if method == "bilinear" else _tensorflow_cubic(given, wanted)


@lru_cache(maxsize=_KEPT)
def _tensorflow_cubic(given: int, wanted: int) -> Weights:
    """TensorFlow looks its weights up in 1/1024 steps, and drops those beyond the border."""
    positions = _float_positions(given, wanted)
    base = np.floor(positions)
    positions = base + np.rint((positions - base) * 1024) / 1024
    distances = np.arange(given) - positions[:, np.newaxis]
    return _normalised(_KERNELS["cubic"][0](distances))


@lru_cache(maxsize=_KEPT)
def torch_fixed_point(given: int, wanted: int, kernel: str, antialias: bool) -> Weights:
    """torch's weights for bytes: 16-bit integers, with as many binary places as the largest of them leaves."""
    if antialias:
        weights = antialiased(given, wanted, kernel).astype(np.float64)
    else:
        weights = _gathered(given, _centres(given, wanted), kernel)
    largest = float(weights.max())
    places = next((p for p in range(22) if int(0.5 + largest * (1 << (p + 1))) >= 1 << 15), 22)
    return _stepped(weights, 1 << places).astype(np.float32)


@lru_cache(maxsize=_KEPT)
def opencv(given: int, wanted: int, method: str, shrinks: bool, fixed_point: bool) -> Weights:
    """`shrinks`: neither axis grows. `fixed_point`: the input is bytes."""
    if method == "area" and shrinks:
        return area(given, wanted)
    kernel = {"bilinear": "linear", "area": "linear", "bicubic": "cubic75", "lanczos": "lanczos4"}[method]
    # bytes are interpolated in 1/2048 steps, except that cubic goes to a vendor's routine that is exact
    steps = OPENCV_STEPS if fixed_point and method != "bicubic" else None
    return _gathered(given, _opencv_positions(given, wanted, method), kernel, steps).astype(np.float32)


@lru_cache(maxsize=_KEPT)
def opencv_rows(given: int, wanted: int, method: str) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The two rows that every output row is between, and their weights in 1/2048 steps (both wanted × 2)."""
    positions = _opencv_positions(given, wanted, method)
    base = np.floor(positions)
    fraction = positions - base
    weights = np.rint(np.stack([1 - fraction, fraction], axis=1) * OPENCV_STEPS).astype(np.int32)
    rows = np.stack([base, base + 1], axis=1)
    return np.clip(rows, 0, given - 1).astype(np.intp), weights


def _centres(given: int, wanted: int) -> _Real:
    """Output centres in input pixels."""
    return np.asarray((np.arange(wanted) + 0.5) * (given / wanted) - 0.5, np.float64)


def _opencv_positions(given: int, wanted: int, method: str) -> _Real:
    if method != "area":
        return _centres(given, wanted)
    # growing by "area": the nearest pixel, blended with the next only where an output straddles both
    outputs = np.arange(wanted, dtype=np.float64)
    growth = wanted / given
    base = np.floor(outputs * (1 / growth))
    fraction = ((outputs + 1) - (base + 1) * growth).astype(np.float32)
    return np.asarray(base + np.where(fraction <= 0, 0.0, fraction - np.floor(fraction)), np.float64)


def _float_positions(given: int, wanted: int) -> _Real:
    """Output centres with the rounding of float32 that torch and TensorFlow compute them in."""
    scale = np.float32(given) / np.float32(wanted)
    positions = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)
    return np.asarray(positions, np.float64)


def _gathered(given: int, positions: _Real, kernel: str, steps: int | None = None) -> _Real:
    """Taps around fractional positions; those beyond the border fall on the border pixel."""
    function, radius = _KERNELS[kernel]
    if radius == 1:
        positions = np.clip(positions, 0, given - 1)
    base = np.floor(positions)
    taps = base[:, np.newaxis] + np.arange(1 - radius, radius + 1)
    weights = function(taps - positions[:, np.newaxis])
    weights /= weights.sum(axis=1, keepdims=True)
    if steps is not None:
        weights = _stepped(weights, steps)
    matrix = np.zeros((len(positions), given))
    rows = np.broadcast_to(np.arange(len(positions))[:, np.newaxis], taps.shape)
    np.add.at(matrix, (rows, np.clip(taps, 0, given - 1).astype(np.intp)), weights)
    return matrix


def _stepped(weights: _Real, steps: int) -> _Real:
    stepped: _Real = np.rint(weights * steps) / steps
    return stepped


def _normalised(weights: _Real) -> Weights:
    normalised: _Real = weights / weights.sum(axis=1, keepdims=True)
    return normalised.astype(np.float32)
