"""The data that comes with zoolens: the first 2,000 images of the Fashion-MNIST test set, and 200 drawn pictures with
boxes (demo:shapes)."""

from __future__ import annotations

from typing import Final

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.coco import open_coco
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.idx import FASHION_MNIST, IdxDataset
from zoolens.inventory.zoos.demo import DATA_FOLDER, SHAPES_FOLDER

NAME: Final = "fashion-mnist/test[:2000]"
CLASSES: Final = FASHION_MNIST
SHAPES: Final = "shapes"


def open_demo(location: str = "", **options: str) -> Dataset:
    if location == SHAPES and not options:
        dataset = open_coco(str(SHAPES_FOLDER / "boxes.json"), images="images")
        dataset.name = SHAPES
        return dataset
    if location or options:
        given = ", ".join(filter(None, [location, *options]))
        raise DatasetError(
            f"The demo datasets are demo and demo:{SHAPES}, without options, but got {given}.",
            hint="Use the dataset kind idx for IDX files of your own, and coco for boxes.",
        )
    return IdxDataset(
        DATA_FOLDER / "t2k-images-idx3-ubyte.gz", DATA_FOLDER / "t2k-labels-idx1-ubyte.gz", name=NAME, classes=CLASSES
    )
