"""IDX files, the format of MNIST and its kin: images and labels, gzipped or plain."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import ArrayDataset, file_bytes
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Dataset
from zoolens.inventory.runtimes.runtime import shape_text

_UBYTE: Final = 0x08
FASHION_MNIST: Final = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_KNOWN_CLASSES: Final = {
    "mnist": tuple("0123456789"),
    "fashion_mnist": FASHION_MNIST,
    "fashion-mnist": FASHION_MNIST,
}
_PREFIXES: Final = {"test": ("t10k", "test"), "train": ("train",)}


class IdxDataset(ArrayDataset):
    """One images file and its labels file, if it has one. Plain files are mapped, gzipped ones unpacked into memory."""

    def __init__(self, images: Path, labels: Path | None, *, name: str, classes: tuple[str, ...] | None = None) -> None:
        values = read_idx(images)
        truth = np.full(len(values), UNLABELLED) if labels is None else read_idx(labels)
        if truth.ndim != 1 or values.ndim not in (3, 4):
            other = "no labels" if labels is None else labels.name
            raise DatasetError(
                f"{images.name} and {other} are not images and labels: they have "
                f"{values.ndim} and {truth.ndim} dimensions.",
                hint="Images have 3 (or 4, with channels last), labels 1.",
            )
        values = values[..., np.newaxis] if values.ndim == 3 else values
        super().__init__(values, truth, name=name, classes=classes)
        check_labels(name, self._label_list, classes)


def open_idx(location: str, *, labels: str | None = None, split: str = "test", classes: str | None = None) -> Dataset:
    """A folder with …-images-idx3-ubyte and …-labels-idx1-ubyte files (.gz or not), or one images file.

    labels: the labels file, where its name does not follow from the images file's, or "none" for data without labels,
    which is also what a folder without any labels file holds. split: test or train.
    classes: a file with class names, or the names with commas between them.
    """
    place = Path(location).expanduser()
    images = _find_images(place, split) if place.is_dir() else place
    if not images.is_file():
        raise DatasetError(f"There is no IDX file {images}.", hint="Give the images file or its folder.")
    folder = images.parent
    truth = None if labels == NO_LABELS else folder / labels if labels else _labels_beside(images)
    names = class_names(classes, folder, NAMES) or _KNOWN_CLASSES.get(folder.name.lower())
    return IdxDataset(images, truth, name=folder.name or "idx", classes=names)


def read_idx(path: Path) -> NDArray[Any]:
    """The array of unsigned bytes in an IDX file; its header must agree with its length."""
    data = file_bytes(path)
    if len(data) < 4 or data[0] or data[1]:
        raise DatasetError(f"{path} is not an IDX file.", hint="An IDX file starts with two zero bytes.")
    kind, dimensions = int(data[2]), int(data[3])
    if kind != _UBYTE:
        raise DatasetError(f"{path} holds IDX type 0x{kind:02x}.", hint="Only unsigned bytes (0x08) are read.")
    offset = 4 + 4 * dimensions
    if len(data) < offset:
        raise DatasetError(f"{path} ends inside its header.", hint="Fetch the file again.")
    shape = struct.unpack(f">{dimensions}I", data[4:offset].tobytes())
    if math.prod(shape) != len(data) - offset:
        raise DatasetError(
            f"{path} is declared as {shape_text(shape)} but holds {len(data) - offset:,} bytes.",
            hint="It is truncated or damaged: fetch it again.",
        )
    try:
        return data[offset:].reshape(shape)
    except ValueError as error:
        # Sides of 0 beside sides too large for numpy.
        raise DatasetError(f"{path} is declared with an impossible shape.", hint="Fetch it again.") from error


def find_idx_images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if "images" in path.name and "idx" in path.name)


def _find_images(folder: Path, split: str) -> Path:
    if split not in _PREFIXES:
        raise DatasetError(f"There is no split {split!r}.", hint="Choose test or train.")
    for path in find_idx_images(folder):
        if path.name.startswith(_PREFIXES[split]):
            return path
    raise DatasetError(
        f"{folder} has no IDX images of the {split} split.",
        hint=f"It should have {_PREFIXES[split][0]}-images-idx3-ubyte or the same with .gz.",
    )


def _labels_beside(images: Path) -> Path | None:
    stem = images.name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1").replace("idx4", "idx1")
    for name in (stem, f"{stem}.gz"):
        if name != images.name and (images.parent / name).is_file():
            return images.parent / name
    if not any("label" in path.name.lower() for path in images.parent.iterdir()):
        return None
    raise DatasetError(
        f"There are no labels for {images}: {stem} is absent.",
        hint="Name the labels file with the option labels=…, or write labels=none where there are none.",
    )
