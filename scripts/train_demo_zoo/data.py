"""Fashion-MNIST from its IDX files, and the subset of the test set that travels with the zoo."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEFAULT_FOLDER: Final = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it
SUBSET_SIZE: Final = 2000
SCALE: Final = 1 / 255
MEAN: Final = 0.2860
STD: Final = 0.3530


@dataclass(frozen=True)
class Split:
    """`images`: normalised, count × 28 × 28."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def load_split(folder: Path, prefix: str) -> Split:
    images = _read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
    labels = _read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
    normalised = (images.astype(np.float32) * np.float32(SCALE) - np.float32(MEAN)) / np.float32(STD)
    return Split(normalised, labels.astype(np.int64))


def write_subset(folder: Path, output: Path) -> None:
    """The first images of the test set, in the same format."""
    for kind in ("images-idx3", "labels-idx1"):
        array = _read_idx(folder / f"t10k-{kind}-ubyte.gz")[:SUBSET_SIZE]
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        # mtime 0: the same data give the same bytes
        (output / f"t2k-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes(), 9, mtime=0))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    content = gzip.decompress(path.read_bytes())
    dimensions = content[3]
    shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
