"""Decoding: from an untrusted image file to uint8 height × width × channels."""

from __future__ import annotations

import io
import warnings
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from zoolens.errors import DatasetError

SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"})
MAX_PIXELS: Final = 1 << 26  # 8192 × 8192: a file of a few kilobytes may claim far more and fill the memory
FORMATS: Final = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


def decode_image(source: str | bytes, name: str, *, keep_gray: bool = False) -> NDArray[np.uint8]:
    """RGB, or one channel where the file is grey and `keep_gray` is set. `name` is what an error calls the image."""
    try:
        with _open(source) as image:
            if image.width * image.height > MAX_PIXELS:
                raise _too_large(name, f"{image.width}×{image.height}")
            if keep_gray and image.mode in ("1", "L"):
                return np.asarray(image.convert("L"))[:, :, np.newaxis]
            return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
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


def _open(source: str | bytes) -> Image.Image:
    with warnings.catch_warnings():
        # our own limit below is lower than the one Pillow warns about
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)


def _too_large(name: str, pixels: str) -> DatasetError:
    return DatasetError(
        f"{name} claims {pixels} pixels, more than the {MAX_PIXELS:,} that are decoded.",
        hint="Scale it down, or remove it if it is not a real picture.",
    )
