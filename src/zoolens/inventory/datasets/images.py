"""Decoding: from an untrusted image file to uint8 height × width × channels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import open_regular, read_limited, read_small
from zoolens.inventory.datasets.jpeg import jpeg_decoder

SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
)
# Pictures that are not decoded here: whoever leaves them out of a dataset has to say so.
OTHER_SUFFIXES: Final = frozenset(
    {".heic", ".heif", ".avif", ".jp2", ".j2k", ".jxl", ".tga", ".dng", ".cr2", ".nef", ".arw", ".exr", ".psd", ".dcm"}
)
MAX_PIXELS: Final = 1 << 26  # 8192 × 8192: a file of a few kilobytes may claim far more and fill the memory
MAX_ENCODED: Final = 1 << 28  # bytes that are read at once for a library that cannot read from the file itself
_AT_ONCE: Final = 1 << 24  # bytes of a file that is read before anything in it is looked at
_BRIGHTEST: Final = 255
_ORIENTATION: Final = 0x0112  # of EXIF
_LYING: Final = frozenset({5, 6, 7, 8})  # orientations that exchange width and height
_WIDE: Final = frozenset({"I", "I;16", "I;16B", "I;16L", "I;16N", "F"})  # modes of one channel with more than 8 bits
_GREY: Final = frozenset({"1", "L", "LA", "La"}) | _WIDE
_NUMBERS: Final = frozenset({"1", "L", "P", "I", "I;16", "I;16B", "I;16L"})  # modes of PNG whose pixels are numbers
_PNG_DEPTH: Final = 24  # where in a PNG the bits of a sample stand
FORMATS: Final = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


# (encoded image, its format as in FORMATS, 1 or 3 channels) -> pixels; raises ValueError with the reason
Decode = Callable[[bytes, str, int], NDArray[np.uint8]]


def decode_image(
    source: str | bytes, name: str, *, keep_gray: bool = False, decode: Decode | None = None
) -> NDArray[np.uint8]:
    """RGB, or one channel where the file is grey and `keep_gray` is set. `name` is what an error calls the image.

    `decode`: another library's decoder. Pillow reads the header all the same, so that kind and size are known to be
    harmless before any pixel is decoded.
    """
    with _said_of(name):
        if isinstance(source, str):
            source = read_small(source, _AT_ONCE) or source
        quick = jpeg_decoder() if decode is None else None
        if quick is not None and isinstance(source, bytes):
            pixels = quick(source, keep_gray, MAX_PIXELS)
            if pixels is not None:
                return pixels
        return _decoded(source, name, keep_gray=keep_gray, decode=decode)


def _decoded(source: str | bytes, name: str, *, keep_gray: bool, decode: Decode | None) -> NDArray[np.uint8]:
    with _stream(source) as stream, _open(stream) as image:
        _check_size(image, name)
        gray = keep_gray and image.mode in _GREY
        if decode is not None:
            return decode(_content(stream), str(image.format), 1 if gray else 3)
        if image.mode in _WIDE:
            _refuse_brighter(image, name)
        if gray:
            return np.asarray(image.convert("L"))[:, :, np.newaxis]
        return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def image_size(source: str | bytes, name: str, *, turned: bool = False) -> tuple[int, int]:
    """Height and width, as the file's header says them. `turned`: after the picture was turned by its EXIF data."""
    with _said_of(name), _stream(source) as stream, _open(stream) as image:
        lying = turned and image.getexif().get(_ORIENTATION, 1) in _LYING
        return (image.width, image.height) if lying else (image.height, image.width)


def decode_mask(source: str | bytes, name: str) -> NDArray[Any]:
    """The numbers in a PNG of one channel, or of a palette: height × width, of 8 or 16 bits."""
    with _said_of(name), _stream(source) as stream, _open(stream) as image:
        _check_size(image, name)
        if image.format != "PNG" or image.mode not in _NUMBERS:
            raise DatasetError(
                f"{name} is a {image.format} of mode {image.mode}, not a PNG whose pixels are numbers of classes.",
                hint="Write masks as PNG of one channel (grey) or with a palette. Colours and lossy kinds do not keep "
                "numbers.",
            )
        pixels = np.asarray(image)
        stream.seek(_PNG_DEPTH)
        # Pillow stretches grey of 2 and 4 bits to 0 to 255; what was written are the numbers before.
        step = _BRIGHTEST // ((1 << ord(stream.read(1))) - 1) if image.mode == "L" else 1
    if pixels.dtype.kind == "i" and (pixels.min(initial=0) < 0 or pixels.max(initial=0) >= 1 << 16):
        raise DatasetError(f"{name} has pixels beyond 16 bits.", hint="Numbers of classes are 0 to 65,535.")
    return (pixels // step).astype(np.uint16 if pixels.dtype.itemsize > 1 else np.uint8)


@contextmanager
def _said_of(name: str) -> Iterator[None]:
    """What Pillow raises on files of strangers, in words."""
    try:
        yield
    except Image.DecompressionBombError as error:
        raise _too_large(name, "over 100 million") from error
    except UnidentifiedImageError as error:
        raise DatasetError(
            f"{name} is not an image of a known kind ({', '.join(FORMATS)}).", hint="Remove or convert it."
        ) from error
    except FileNotFoundError as error:
        raise DatasetError(f"{name} does not exist.", hint="Was it moved while the dataset was open?") from error
    # Pillow's decoders raise all of these on damaged files
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError, IndexError, TypeError) as error:
        raise DatasetError(
            f"{name} cannot be decoded: {error}.", hint="It is truncated or damaged: fetch it again or remove it."
        ) from error


def _check_size(image: Image.Image, name: str) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise _too_large(name, f"{image.width}×{image.height}")


def _refuse_brighter(image: Image.Image, name: str) -> None:
    """Pillow does not scale grey pixels of more than 8 bits: it cuts them off at 255, so that such pictures are white,
    and those of fractions black."""
    pixels = np.asarray(image)
    # Not so where some are NaN.
    within = pixels.min(initial=0) >= 0 and pixels.max(initial=0) <= _BRIGHTEST
    if within and not np.any(pixels % 1):
        return
    raise DatasetError(
        f"{name} has grey pixels from {pixels.min():g} to {pixels.max():g}, and Pillow would cut them to 0 to 255.",
        hint="Convert it to 8 bits, or declare decoder: opencv in the manifest, which scales 16 bits down.",
    )


def _stream(source: str | bytes) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else open_regular(source)


def _open(stream: BinaryIO) -> Image.Image:
    with warnings.catch_warnings():
        # our own limit below is lower than the one Pillow warns about
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(stream, formats=FORMATS)


def _content(stream: BinaryIO) -> bytes:
    stream.seek(0)
    return read_limited(stream, MAX_ENCODED)


def _too_large(name: str, pixels: str) -> DatasetError:
    return DatasetError(
        f"{name} claims {pixels} pixels, more than the {MAX_PIXELS:,} that are decoded.",
        hint="Scale it down, or remove it if it is not a real picture.",
    )
