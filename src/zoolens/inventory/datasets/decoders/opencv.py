"""OpenCV: `cv2.imdecode` with IMREAD_COLOR, as most scripts call it.

It turns a picture as its EXIF data say, which Pillow and TensorFlow leave to the caller. Of a JPEG that is damaged in
the middle it keeps what it could read; a truncated one is refused.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import first_line
from zoolens.inventory.datasets.images import MAX_PIXELS, Decode
from zoolens.inventory.runtimes.opencv.opencv_runtime import OpenCv


def load() -> Decode:
    # a second fence behind the header that Pillow has read; OpenCV looks at it once, when it is first imported
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MAX_PIXELS))
    cv2 = OpenCv().load_library()

    def decode(data: bytes, kind: str, channels: int) -> NDArray[np.uint8]:
        flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        try:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
        except cv2.error as error:
            raise ValueError(f"OpenCV says {first_line(error)}") from error
        if image is None:
            raise ValueError(f"OpenCV finds no complete {kind} image in it")
        pixels: NDArray[np.uint8] = image[:, :, np.newaxis] if channels == 1 else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return pixels

    return decode
