"""TensorFlow: `tf.io.decode_jpeg` with its own defaults, which on a CPU is libjpeg's fast integer DCT.

Pillow and OpenCV use the accurate one: the same JPEG differs by one or two grey levels on average and by twenty at the
worst pixel. Other formats are decoded by `tf.io.decode_image`, which has no TIFF and no PPM.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import first_line
from zoolens.inventory.datasets.images import Decode
from zoolens.inventory.runtimes.tensorflow.tensorflow_runtime import TensorFlow

_PLACES: Final = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:.*")  # where in its graph TensorFlow was


def load() -> Decode:
    library = TensorFlow().load_library()

    def decode(data: bytes, kind: str, channels: int) -> NDArray[np.uint8]:
        try:
            if kind == "JPEG":
                image = library.io.decode_jpeg(data, channels=channels)
            else:
                image = library.io.decode_image(data, channels=channels, expand_animations=False)
        except library.errors.OpError as error:
            raise ValueError(f"TensorFlow says {_reason(error)}") from error
        pixels: NDArray[np.uint8] = image.numpy()
        return pixels

    return decode


def _reason(error: Exception) -> str:
    return _PLACES.sub("", first_line(error)).rstrip(". ") or type(error).__name__
