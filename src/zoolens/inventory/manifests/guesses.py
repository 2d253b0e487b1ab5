"""What a tensor's name, shape and type suggest about how images go in; every assumption is written down.

Model files and server configurations say nothing about normalisation, colour order and resizing. The guesses made here
are listed in the drafted manifest's description, so that nobody takes them for facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from zoolens.inventory.manifests.schema import DType, Input
from zoolens.inventory.manifests.schema_steps import Normalize, Resize, Step

_IMAGE_CHANNELS: Final = (1, 3, 4)
# What most networks trained on ImageNet expect, in the order red, green, blue.
IMAGENET_NORMALIZE: Final = Normalize(
    op="normalize", scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)
_CAFFE_MEAN: Final = (104.0, 117.0, 123.0)  # blue, green, red
_CHANNELS_LAST: Final = ("tflite", "keras", "keras-h5", "tf-savedmodel", "tf-frozen")

GUESSED: Final = "guessed"  # the attribute of a manifest that lists what nobody has checked yet

# Rounding leaves nothing of pixels between 0 and 1, so that such an input takes them as they are.
_WHOLE: Final = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")

Shape = tuple[int | None, ...]


def guesses_in(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """What a manifest with these attributes only assumes. Whoever checks a guess removes it from the list."""
    listed = attributes.get(GUESSED) or ()
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else (str(listed),)


class Guesses:
    """Turns shapes and types into manifest parts; `said` lists what was only assumed."""

    def __init__(self, format_: str) -> None:
        self._format = format_
        self.said: list[str] = []
        self.stated: list[str] = []  # what the file, or one beside it, says itself

    def summary(self) -> str:
        stated = f"Read from the file or its folder: {'; '.join(self.stated)}." if self.stated else ""
        guessed = f"Guessed, please check: {'; '.join(self.said)}." if self.said else ""
        return " ".join(filter(None, (stated, guessed)))

    @property
    def attributes(self) -> dict[str, Any]:
        return {GUESSED: list(self.said)} if self.said else {}

    def image_or_array(
        self, name: str | None, extents: Shape, dtype: str, *, quantised: bool = False, layout: str | None = None
    ) -> Input:
        """An input of this shape: an image where the layout is known or the shape looks like one, else an array."""
        layout = layout or self._layout(extents)
        shape = tuple(extent if extent and extent > 0 else None for extent in extents)
        if layout is None:
            return Input(name=name, modality="array", shape=shape or (None,), dtype=_known_dtype(dtype))
        channels = shape[layout.index("C")] if "C" in layout else 1
        color = "gray" if channels == 1 else "BGR" if self._format == "caffe" else "RGB"
        if color != "gray":
            self._color(color)
        return Input(
            name=name,
            shape=shape,
            layout=layout,  # type: ignore[arg-type]
            color=color,  # type: ignore[arg-type]
            dtype=_known_dtype(dtype),
            preprocess=tuple(self._steps(shape, dtype, quantised, layout, channels)),
        )

    def _layout(self, shape: Shape) -> str | None:
        if len(shape) == 3:
            if shape[1] != shape[2] or not shape[1] or shape[1] <= 4:
                return None
            if shape[0] in (3, 4):
                self.said.append("the input may be one colour image without a batch axis: it is an array")
                return None
            self.said.append("grey images without a channel axis")
            return "NHW"
        if len(shape) != 4:
            return None
        # 49×10×1 is audio far more often than a picture.
        if _grey_and_not_square(shape):
            self.said.append("the input may be audio features or a grey image that is not square: it is an array")
            return None
        first, last = shape[1] in _IMAGE_CHANNELS, shape[3] in _IMAGE_CHANNELS
        if first and last:
            self.said.append("the layout fits both ways")
            return "NHWC" if self._format in _CHANNELS_LAST else "NCHW"
        return "NCHW" if first else "NHWC" if last else None

    def _color(self, color: str) -> None:
        self.said.append(f"{color} order")

    def _steps(self, shape: Shape, dtype: str, quantised: bool, layout: str, channels: int | None) -> Iterable[Step]:
        height, width = shape[layout.index("H")], shape[layout.index("W")]
        if height and width:
            self.said.append(f"images are resized to {height}×{width} without a crop")
            yield Resize(op="resize", size=(height, width))
        else:
            self.said.append("the size of images is open, and they are not resized")
        yield from self._normalising(dtype, quantised, channels)

    def _normalising(self, dtype: str, quantised: bool, channels: int | None) -> Iterable[Step]:
        if dtype in _WHOLE and not quantised:
            if dtype == "int8":
                self.said.append("raw pixels less 128 go in")
                yield Normalize(op="normalize", mean=(128.0,))
            else:
                self.said.append("raw pixels go in")
            return
        if quantised or self._format in _CHANNELS_LAST:
            self.said.append("pixels are scaled to −1…1")
            yield Normalize(op="normalize", scale=1 / 127.5, mean=(1.0,))
        elif self._format == "caffe" and channels == 3:
            self.said.append("ImageNet mean is subtracted, as Caffe does")
            yield Normalize(op="normalize", mean=_CAFFE_MEAN)
        elif channels == 3:
            self.said.append("ImageNet mean and deviation")
            yield IMAGENET_NORMALIZE
        else:
            self.said.append("pixels are scaled to 0…1")
            yield Normalize(op="normalize", scale=1 / 255)


def _known_dtype(name: str) -> Any:
    return name if name in get_args(DType) else "float32"


def _grey_and_not_square(shape: Shape) -> bool:
    if shape[1] == 1:
        sides = shape[2:]
    elif shape[3] == 1:
        sides = shape[1:3]
    else:
        return False
    return len(sides) == 2 and None not in sides and sides[0] != sides[1]
