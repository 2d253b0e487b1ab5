"""The data that comes with zoolens: the first 2,000 images of the Fashion-MNIST test set, 200 drawn pictures with boxes
(demo:shapes), and a few passages of text (demo:passages)."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.coco import open_coco
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.idx import FASHION_MNIST, read_idx
from zoolens.inventory.datasets.passages import open_passages
from zoolens.inventory.zoos.demo import DATA_FOLDER, SHAPES_FOLDER

NAME: Final = "fashion-mnist/test[:2000]"
CLASSES: Final = FASHION_MNIST
SHAPES: Final = "shapes"
PASSAGES: Final = "passages"
_PASSAGE_BYTES: Final = "500"


def open_demo(location: str = "", **options: str) -> Dataset:
    if location == SHAPES and not options:
        dataset = open_coco(str(SHAPES_FOLDER / "boxes.json"), images="images")
        dataset.name = SHAPES
        return dataset
    if location == PASSAGES and not options:
        return open_passages(str(DATA_FOLDER / "passages.txt"), size=_PASSAGE_BYTES)
    if location or options:
        given = ", ".join(filter(None, [location, *options]))
        raise DatasetError(
            f"The demo datasets are demo, demo:{SHAPES} and demo:{PASSAGES}, without options, but got {given}.",
            hint="Use the dataset kind idx for IDX files of your own, coco for boxes, and passages for text.",
        )
    return ArrayDataset(*_arrays(), name=NAME, classes=CLASSES)


@cache
def _arrays() -> tuple[NDArray[Any], NDArray[Any]]:
    """Unpacked once: that takes longer than the answers of a small model."""
    images, labels = (read_idx(DATA_FOLDER / f"t2k-{name}-ubyte.gz") for name in ("images-idx3", "labels-idx1"))
    return images[..., np.newaxis], labels
