"""From what a client of a service sends to what one of its models is fed.

A service takes tensors as its reference wants them, or images. Of a tensor another model's input can be made only where
nothing is lost: by another layout, another order of the colours, or another normalisation of the same pixels. A model
that wants another image size or another way of resizing would get something else than it was measured with, and is not
used for such a service. Images are prepared for each model as its manifest says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.services.sample_decoding import image_decoder
from zoolens.inventory.manifests.schema import MODALITIES, Input
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.preprocess.normalisation import declared_normalisation
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]
Convert = Callable[[Array], Array]


class NotConvertible(Exception):
    """Why a model cannot answer for a service: words that continue "because …", without a full stop."""


def image_conversion(spec: Input, tensor: TensorSpec) -> Convert:
    """Converts encoded images, one element each, into the model's input."""
    prepare = build_prepare(spec, tensor)
    decode = image_decoder(spec)

    def convert(images: Array) -> Array:
        return np.stack([_prepared(decode(image), prepare) for image in images.reshape(-1)])

    return convert


def pixel_conversion(spec: Input, tensor: TensorSpec) -> Convert:
    """Converts decoded images (N × height × width × channels, 8 bits, RGB or grey) into the model's input."""
    prepare = build_prepare(spec, tensor)

    def convert(images: Array) -> Array:
        at_once = prepare.many(images)
        return at_once if at_once is not None else np.stack([_prepared(image, prepare) for image in images])

    return convert


def _prepared(image: Array, prepare: Convert) -> Array:
    try:
        return prepare(image)
    except DatasetError as error:
        raise ServingError(Refusal.INVALID, str(error)) from error


def tensor_conversion(ours: Input, source: TensorSpec, theirs: Input, target: TensorSpec) -> Convert | None:
    """Converts the reference's input tensor into another model's. None: it is fed as it is."""
    _require_same_picture(ours, theirs)
    if source.quantised or target.quantised:
        if _same_input(ours, theirs) and (source.dtype, source.scale, source.zero_point) == (
            target.dtype, target.scale, target.zero_point,
        ):  # fmt: skip
            return None
        raise NotConvertible("one of the two inputs is quantised: pixels would be rounded otherwise than when measured")
    if _same_input(ours, theirs) and source.dtype == target.dtype:
        return None
    _require_exact_type(source, target)
    if ours.modality == "array":
        raise NotConvertible("the two prepare their arrays in different ways")
    return _pixelwise(ours, theirs, target)


def _same_input(ours: Input, theirs: Input) -> bool:
    return (ours.layout, ours.color, ours.preprocess) == (theirs.layout, theirs.color, theirs.preprocess)


def _require_same_picture(ours: Input, theirs: Input) -> None:
    """Raise NotConvertible unless decoding, resizing and cropping give both models the same pixels."""
    if ours.modality != theirs.modality:
        raise NotConvertible(f"it takes {MODALITIES[theirs.modality]} and the reference {MODALITIES[ours.modality]}")
    if "text" in (ours.modality, theirs.modality):
        raise NotConvertible("it takes tokens of a text, which models number each in its own way")
    if ours.modality == "array":
        if ours.shape[1:] != theirs.shape[1:]:
            raise NotConvertible(
                f"it takes {shape_text(theirs.shape[1:])} numbers and the reference {shape_text(ours.shape[1:])}"
            )
        return
    if ours.decoder != theirs.decoder:
        raise NotConvertible(f"it was measured on images decoded by {theirs.decoder}, the reference by {ours.decoder}")
    if (ours.color == "gray") != (theirs.color == "gray"):
        raise NotConvertible(f"its images are {theirs.color} and those of the reference {ours.color}")
    a, b = _picture(ours), _picture(theirs)
    if any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise NotConvertible(
            f"it takes {shape_text(theirs.shape[1:])} ({theirs.layout[1:]}) and the reference "
            f"{shape_text(ours.shape[1:])} ({ours.layout[1:]})"
        )
    shaping = declared_normalisation(ours).shaping
    if shaping != declared_normalisation(theirs).shaping:
        raise NotConvertible("its images are resized or cropped otherwise than those of the reference")
    early = any(isinstance(step, Normalize) and len({*step.mean}) + len({*step.std}) > 2 for step in shaping)
    if ours.color != theirs.color and early:
        raise NotConvertible("its colours are in another order and are normalised before the image is resized")


def _picture(spec: Input) -> tuple[int | None, int | None, int | None]:
    """Height, width and number of values of one image, where they are known."""
    extents = dict(zip(spec.layout, spec.shape, strict=True))
    if spec.layout == "NC":
        return None, None, extents["C"]
    height, width, channels = extents["H"], extents["W"], extents.get("C", 1)
    known = None if None in (height, width, channels) else (height or 0) * (width or 0) * (channels or 0)
    return height, width, known


def _require_exact_type(source: TensorSpec, target: TensorSpec) -> None:
    before, after = np.dtype(source.dtype), np.dtype(target.dtype)
    widening = before.kind == "f" and after.kind == "f" and before.itemsize >= 4
    from_pixels = before == np.uint8 and after.kind == "f"
    if not (widening or from_pixels):
        raise NotConvertible(f"it takes {target.dtype} and the reference {source.dtype}")


def _pixelwise(ours: Input, theirs: Input, target: TensorSpec) -> Convert:
    a, b = declared_normalisation(ours), declared_normalisation(theirs)
    swap = ours.color != theirs.color  # RGB and BGR
    order = slice(None, None, -1) if swap else slice(None)
    if (a.factor == 0).any():
        raise NotConvertible("the reference's normalisation loses the pixels")
    factor = b.factor / a.factor[order]
    offset = b.offset - a.offset[order] * factor
    size = _size(ours, theirs)
    scaled = bool((factor != 1).any() or (offset != 0).any())
    real_factor, real_offset = factor.astype(np.float32), offset.astype(np.float32)
    dtype = np.dtype(target.dtype)

    def convert(tensor: Array) -> Array:
        images = _channels_last(tensor, ours.layout, size, len(factor))[..., order]
        if scaled:
            images = images * real_factor + real_offset
        return np.ascontiguousarray(_in_layout(images, theirs.layout), dtype)

    return convert


def _size(ours: Input, theirs: Input) -> tuple[int, int] | None:
    """Height and width, which a flattened image does not tell."""
    for spec in (ours, theirs):
        if "H" in spec.layout:
            height, width, _ = _picture(spec)
            if height is not None and width is not None:
                return height, width
    if ours.layout == "NC" and theirs.layout != "NC":
        raise NotConvertible("the reference takes flattened images of unknown height and width")
    return None


def _channels_last(tensor: Array, layout: str, size: tuple[int, int] | None, channels: int) -> Array:
    if layout == "NCHW":
        return tensor.transpose(0, 2, 3, 1)
    if layout == "NHW":
        return tensor[..., np.newaxis]
    if layout == "NC":
        return tensor.reshape(len(tensor), *(size or (1, -1)), channels)
    return tensor


def _in_layout(images: Array, layout: str) -> Array:
    if layout == "NCHW":
        return images.transpose(0, 3, 1, 2)
    if layout == "NHW":
        return images[..., 0]
    return images.reshape(len(images), -1) if layout == "NC" else images
