"""The manifest's input steps, compiled once per model into a function from a decoded sample to one input.

Nearly every manifest first shapes the image (resize, crop) and then normalises it. All normalising steps, and the
quantisation of an 8-bit input, then depend on nothing but a pixel's value and channel: they become one multiplication
and one addition, or a table of 256 entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, ResizeHeight, Step
from zoolens.inventory.preprocess.array_inputs import Prepare, PrepareArray, number_type, refuse_text
from zoolens.inventory.preprocess.letterbox import Framing, Size, declared_framing, framing, place_image
from zoolens.inventory.preprocess.normalisation import (
    affine,
    cast_to,
    channel_count,
    normalized,
    per_channel,
    pixel_tables,
    quantised,
    split_steps,
)
from zoolens.inventory.preprocess.resize import PIL_METHODS, check_resize, resize, target_size
from zoolens.inventory.preprocess.sound_inputs import PrepareSound
from zoolens.inventory.preprocess.text_lines import place_line
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]
_BRIGHTEST: Final = 255
_FEWEST_LEVELS: Final = 8  # different values of a pixel after rounding; scales to 0…1 and −1…1 leave 2 and 3
_GRAY: Final = (19595, 38470, 7471)  # PIL's weights of red, green and blue, in 1/65536


def build_prepare(spec: Input, tensor: TensorSpec) -> Prepare:
    """What the manifest declares, ready to run. Images come as uint8 height × width × channels.

    The result has the tensor's dtype and the manifest's layout. A grey image becomes RGB by repetition, an RGB one
    grey by PIL's weights; layout NC is the flattened image.
    """
    if spec.modality == "text":
        raise ManifestError("A text fills all inputs of a model at once, and is not prepared as one of them.")
    if spec.modality == "sound":
        return PrepareSound(spec, tensor)
    return PrepareArray(spec, tensor) if spec.modality == "array" else _PrepareImage(spec, tensor, number_type(tensor))


class _PrepareImage(Prepare):
    def __init__(self, spec: Input, tensor: TensorSpec, dtype: np.dtype[Any]) -> None:
        _check(spec)
        self._color = spec.color
        self._channels = channel_count(spec)
        self._shaping, normalizing = split_steps(spec.preprocess)
        # swapping red and blue costs least at the very end, but a normalisation must find the channels in place
        bgr = spec.color == "BGR"
        self._swap_first = bgr and any(isinstance(step, Normalize) for step in self._shaping)
        last = next((step for step in reversed(self._shaping) if not isinstance(step, Normalize)), None)
        self.uneven = isinstance(last, ResizeHeight) and last.width[0] < last.width[1]
        first = self._shaping[0] if self._shaping else None
        by_pil = first if isinstance(first, Resize) and first.library == "pil" else None
        self._gray_resize = by_pil if spec.color == "gray" else None
        self._finish = _Finish(spec, tensor, dtype, normalizing, swap=bgr and not self._swap_first)

    def __call__(self, value: Array) -> Array:
        refuse_text(value)
        shaping = self._shaping
        if self._gray_resize is not None and value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3:
            image, shaping = _gray_and_resized(value, self._gray_resize), shaping[1:]
        else:
            image = _to_color(value, self._color)
        if self._swap_first:
            image = image[:, :, ::-1]
        for step in shaping:
            image = _apply(step, image)
        result: Array = self._finish(image[np.newaxis])[0]
        return result

    def framing(self, size: Size) -> Framing:
        return declared_framing(self._shaping, size)

    def many(self, values: Array) -> Array | None:
        refuse_text(values)
        if self._shaping or values.ndim != 4 or values.shape[3] != self._channels:
            return None
        return self._finish(values)


def center_crop(image: Array, step: CenterCrop) -> Array:
    """Crop by size as torchvision does (small images are padded with zeros), by fraction as tf.image.central_crop."""
    height, width = image.shape[:2]
    if step.fraction is not None:
        top = int((height - height * step.fraction) / 2)
        left = int((width - width * step.fraction) / 2)
        return image[top : height - top, left : width - left]
    assert step.size is not None  # the schema sees to it
    wanted_height, wanted_width = step.size
    if height < wanted_height or width < wanted_width:
        rows = max(wanted_height - height, 0)
        columns = max(wanted_width - width, 0)
        image = np.pad(image, [(rows // 2, (rows + 1) // 2), (columns // 2, (columns + 1) // 2), (0, 0)])
        height, width = image.shape[:2]
    top = round((height - wanted_height) / 2)
    left = round((width - wanted_width) / 2)
    return image[top : top + wanted_height, left : left + wanted_width]


class _Finish:
    """The last stage: normalise, quantise and lay out images (N × height × width × channels) of final shape."""

    def __init__(
        self, spec: Input, tensor: TensorSpec, dtype: np.dtype[Any], steps: Sequence[Normalize], *, swap: bool
    ) -> None:
        factor, offset = affine(steps, channel_count(spec))
        if dtype.kind != "f" and not tensor.quantised:
            _check_levels(tensor, factor)
        self._tables = pixel_tables(steps, len(factor), tensor, dtype) if dtype in (np.uint8, np.int8) else None
        if tensor.quantised:
            factor, offset = quantised(tensor, factor, offset)
        self._spec = spec
        self._dtype = dtype
        self._factor = factor.astype(np.float32)
        self._offset = offset.astype(np.float32)
        self._swap = swap
        self._planar = spec.layout == "NCHW"
        self._fits: set[tuple[int, ...]] = set()
        self._rows: dict[int, tuple[Array, Array]] = {}

    def __call__(self, images: Array) -> Array:
        shape = images.shape[1:]
        if shape not in self._fits:
            _check_shape(self._spec, shape)
            self._fits.add(shape)
        if self._swap:
            images = images[:, :, :, ::-1]
        if self._planar:
            images = images.transpose(0, 3, 1, 2)
        by_table = self._tables is not None and images.dtype == np.uint8
        result = self._look_up(images) if by_table else self._compute(images)
        if self._spec.layout == "NHW":
            return result[:, :, :, 0]
        return result.reshape(len(result), -1) if self._spec.layout == "NC" else result

    def _look_up(self, images: Array) -> Array:
        tables = self._tables
        assert tables is not None
        if len(tables) == 1:
            return np.frombuffer(images.tobytes().translate(tables[0]), self._dtype).reshape(images.shape)
        result = np.empty(images.shape, self._dtype)
        for channel, table in enumerate(tables):
            place = np.s_[:, channel] if self._planar else np.s_[:, :, :, channel]
            plane = images[place]
            result[place] = np.frombuffer(plane.tobytes().translate(table), self._dtype).reshape(plane.shape)
        return result

    def _compute(self, images: Array) -> Array:
        images = np.ascontiguousarray(images)
        if self._planar:
            real = np.multiply(images, self._factor[:, np.newaxis, np.newaxis], dtype=np.float32)
            real += self._offset[:, np.newaxis, np.newaxis]
        else:
            factor, offset = self._row(images.shape[2])
            real = np.multiply(images.reshape(*images.shape[:2], -1), factor, dtype=np.float32)
            real += offset
            real = real.reshape(images.shape)
        return cast_to(real, self._dtype)

    def _row(self, width: int) -> tuple[Array, Array]:
        """Factors and offsets of a whole row: numpy is slow on an innermost axis of three."""
        if len(self._factor) == 1:
            return self._factor, self._offset
        if width not in self._rows:
            self._rows[width] = np.tile(self._factor, width), np.tile(self._offset, width)
        return self._rows[width]


def _check_levels(tensor: TensorSpec, factor: NDArray[np.float64]) -> None:
    """Refuse steps that leave next to nothing of a picture: an input of integers rounds what they give."""
    reach = _BRIGHTEST * float(np.abs(factor).max())
    if reach < _FEWEST_LEVELS:
        raise ManifestError(
            f"Input {tensor.name!r} takes integers ({tensor.dtype}), but the declared steps bring pixels into a "
            f"range of {reach:.3g}: rounding would destroy the image.",
            hint="Remove the normalize step, if the network scales pixels by itself.",
        )


def _check(spec: Input) -> None:
    """Refuse a declaration that is wrong for every image, when the model is opened."""
    channels = channel_count(spec)
    declared = 1 if spec.layout == "NHW" else None if spec.layout == "NC" else spec.channels
    if declared is not None and declared != channels:
        raise ManifestError(
            f"The input has {declared} channel{'s' if declared > 1 else ''} but its colour is {spec.color}.",
            hint=f"Set color to {'gray' if declared == 1 else 'RGB or BGR'}, or correct layout and shape.",
        )
    for step in spec.preprocess:
        if isinstance(step, Resize):
            check_resize(step.method, step.library, step.antialias)
        if isinstance(step, Letterbox | ResizeHeight):
            check_resize(step.method, step.library, None)
        if isinstance(step, Normalize):
            per_channel(step.mean, channels), per_channel(step.std, channels)


def _to_color(image: Array, color: str) -> Array:
    if image.ndim == 2:
        image = image[:, :, np.newaxis]
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        planar = image.ndim == 3 and image.shape[0] in (1, 3)
        raise DatasetError(
            f"The sample is {shape_text(image.shape)}, but an image is height × width × 1 or 3.",
            hint=("Where channels come first, say so: --data 'npz:FILE?layout=NCHW'. " if planar else "")
            + "For other data, declare the input with modality: array.",
        )
    channels = image.shape[2]
    if color == "gray":
        return image if channels == 1 else _gray(image)
    return np.repeat(image, 3, axis=2) if channels == 1 else image


def _gray_and_resized(image: Array, step: Resize) -> Array:
    """Make grey and resize in one go where PIL does both: going between numpy and PIL costs as much as the work."""
    height, width = target_size(image.shape[0], image.shape[1], step.size)
    gray = Image.fromarray(image).convert("L").resize((width, height), PIL_METHODS[step.method])
    return np.asarray(gray)[:, :, np.newaxis]


def _gray(image: Array) -> Array:
    if image.dtype != np.uint8:
        weights = (np.array(_GRAY, np.float64) / 65536).astype(np.float32)
        return (image @ weights)[:, :, np.newaxis]
    # PIL itself: exact, and far quicker.
    gray = Image.fromarray(image).convert("L")
    return np.asarray(gray)[:, :, np.newaxis]


def _apply(step: Step, image: Array) -> Array:
    if isinstance(step, Resize):
        size = target_size(image.shape[0], image.shape[1], step.size)
        return resize(image, size, step.method, step.library, step.antialias)
    if isinstance(step, CenterCrop):
        return center_crop(image, step)
    if isinstance(step, Letterbox):
        frame = framing(step.fit, (image.shape[0], image.shape[1]), step.size, step.rounding)
        return place_image(image, frame, step.fill, step.method, step.library)
    if isinstance(step, ResizeHeight):
        return place_line(image, step)
    assert isinstance(step, Normalize)  # the schema keeps the steps of sounds out
    return normalized(step, image)


def _check_shape(spec: Input, shape: tuple[int, ...]) -> None:
    height, width, channels = shape
    sizes = {"H": height, "W": width, "C": height * width * channels if spec.layout == "NC" else channels}
    for axis, wanted in zip(spec.layout[1:], spec.shape[1:], strict=True):
        if wanted is not None and wanted != sizes[axis]:
            raise DatasetError(
                f"The image is {height}×{width} with {channels} channel{'s' if channels > 1 else ''} after "
                f"preprocessing, but the input takes {shape_text(spec.shape[1:])} ({spec.layout[1:]}).",
                hint="Add a resize, letterbox or center_crop step to the manifest's preprocess.",
            )
