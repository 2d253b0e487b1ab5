"""Resizing as four libraries do it, each with its own idea of pixel centres, kernels, borders and rounding.

PIL is Pillow itself. The others are re-created here, so that a manifest means the same where they are not installed:
every axis is one matrix of weights (`kernels`), and a resize is two matrix products.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.base.errors import ManifestError
from zoolens.inventory.preprocess import kernels

Array = NDArray[Any]

METHODS: Final = {
    "pil": ("nearest", "bilinear", "bicubic", "lanczos", "area"),
    "torchvision": ("nearest", "bilinear", "bicubic"),
    "tensorflow": ("nearest", "bilinear", "bicubic", "lanczos", "area"),
    "opencv": ("nearest", "bilinear", "bicubic", "lanczos", "area"),
}
PIL_METHODS: Final = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "area": Image.Resampling.BOX,
}
_TORCH_PLAIN: Final = {"bilinear": "linear", "bicubic": "cubic75"}


def check_resize(method: str, library: str, antialias: bool | None) -> None:
    """Refuse what the named library itself cannot do."""
    if library not in METHODS:
        raise ManifestError(f"There is no resize library {library!r}.", hint=f"Known: {', '.join(METHODS)}.")
    if method not in METHODS[library]:
        raise ManifestError(
            f"{library} does not resize tensors by {method!r}.", hint=f"It has {', '.join(METHODS[library])}."
        )
    if library == "opencv" and antialias:
        raise ManifestError("OpenCV never antialiases.", hint="Leave antialias out, or use method: area.")
    if library == "pil" and antialias is False and method != "nearest":
        raise ManifestError("PIL always antialiases.", hint="Leave antialias out, or choose another library.")


def target_size(height: int, width: int, size: tuple[int, int] | int) -> tuple[int, int]:
    """Height and width after a resize; one number is the shorter side, rounded as torchvision does."""
    if not isinstance(size, int):
        return size
    if height <= width:
        return size, int(size * width / height)
    return int(size * height / width), size


def resize(image: Array, size: tuple[int, int], method: str, library: str, antialias: bool | None = None) -> Array:
    """Height × width × channels in and out. uint8 stays uint8, except where TensorFlow turns it into float32."""
    check_resize(method, library, antialias)
    if image.shape[:2] == size:
        return image
    if library == "pil":
        return _pil(image, size, method)
    if method == "nearest":
        rows, columns = (kernels.nearest(have, want, library) for have, want in zip(image.shape[:2], size, strict=True))
        return image[rows[:, np.newaxis], columns]
    if library == "torchvision":
        return _torchvision(image, size, method, antialias is not False)
    if library == "tensorflow":
        return _tensorflow(image, size, method, bool(antialias))
    return _opencv(image, size, method)


def _pil(image: Array, size: tuple[int, int], method: str) -> Array:
    shape = (size[1], size[0])
    channels = image.shape[2]
    if image.dtype == np.uint8 and channels in (1, 3):
        source = Image.fromarray(image[:, :, 0] if channels == 1 else np.ascontiguousarray(image))
        return np.asarray(source.resize(shape, PIL_METHODS[method])).reshape(*size, channels)
    planes = [
        np.asarray(Image.fromarray(image[:, :, channel].astype(np.float32)).resize(shape, PIL_METHODS[method]))
        for channel in range(channels)
    ]
    return np.stack(planes, axis=2)


def _torchvision(image: Array, size: tuple[int, int], method: str, antialias: bool) -> Array:
    kernel = ("triangle" if method == "bilinear" else "cubic") if antialias else _TORCH_PLAIN[method]
    if image.dtype == np.uint8:
        vertical, horizontal = (
            kernels.torch_fixed_point(have, want, kernel, antialias)
            for have, want in zip(image.shape[:2], size, strict=True)
        )
        # between the two passes torch, like PIL, goes through uint8
        return _to_uint8(_rows(vertical, _to_uint8(_columns(horizontal, image)).astype(np.float32)))
    weights = kernels.antialiased if antialias else kernels.interpolated
    vertical, horizontal = (weights(have, want, kernel) for have, want in zip(image.shape[:2], size, strict=True))
    return _rows(vertical, _columns(horizontal, image))


def _tensorflow(image: Array, size: tuple[int, int], method: str, antialias: bool) -> Array:
    vertical = kernels.tensorflow(image.shape[0], size[0], method, antialias)
    horizontal = kernels.tensorflow(image.shape[1], size[1], method, antialias)
    return _rows(vertical, _columns(horizontal, image))


def _opencv(image: Array, size: tuple[int, int], method: str) -> Array:
    (height, width), (new_height, new_width) = image.shape[:2], size
    # shrinking one axis and growing the other is no area average in OpenCV
    shrinks = height >= new_height and width >= new_width
    fixed_point = image.dtype == np.uint8
    across = _columns(kernels.opencv(width, new_width, method, shrinks, fixed_point), image)
    if fixed_point and (method == "bilinear" or (method == "area" and not shrinks)):
        return _opencv_blend(across, *kernels.opencv_rows(height, new_height, method))
    values = _rows(kernels.opencv(height, new_height, method, shrinks, fixed_point), across)
    if not fixed_point:
        return values
    # means are rounded half to even, except those of 2 × 2 pixels
    halved = (height, width) == (2 * new_height, 2 * new_width)
    return np.rint(values).astype(np.uint8) if method == "area" and not halved else _to_uint8(values)


def _opencv_blend(across: NDArray[np.float32], rows: NDArray[np.intp], weights: NDArray[np.int32]) -> Array:
    """OpenCV's own shifts: they cut where others round, so that one value in eight is smaller by one."""
    scaled = np.rint(across * kernels.OPENCV_STEPS).astype(np.int32) >> 4
    upper = weights[:, 0, np.newaxis] * scaled[:, rows[:, 0]] >> 16
    lower = weights[:, 1, np.newaxis] * scaled[:, rows[:, 1]] >> 16
    blended = upper + lower + 2 >> 2
    return blended.astype(np.uint8).transpose(1, 2, 0)


def _columns(weights: NDArray[np.float32], image: Array) -> NDArray[np.float32]:
    """Apply weights (wanted × given width) along the width. The result lies in planes: channels × height × width."""
    height, width, channels = image.shape
    planes = image.transpose(2, 0, 1).astype(np.float32, order="C")
    result: NDArray[np.float32] = planes.reshape(channels * height, width) @ weights.T
    return result.reshape(channels, height, -1)


def _rows(weights: NDArray[np.float32], planes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Apply weights (wanted × given height) along the height of planes; back to height × width × channels."""
    result: NDArray[np.float32] = weights @ planes
    return result.transpose(1, 2, 0)


def _to_uint8(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    rounded: NDArray[np.float32] = np.clip(np.floor(values + np.float32(0.5)), 0, 255)
    return rounded.astype(np.uint8)
