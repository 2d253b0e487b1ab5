"""Image files with boxes: the boxes of all images in a few arrays, and what is checked whatever they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.present.figures import percent
from zoolens.inventory.datasets.dataset import Sample
from zoolens.inventory.datasets.imagefolder import ImageFolder
from zoolens.inventory.datasets.labelled_files import Entry
from zoolens.inventory.datasets.truth import Truth

# About 50 bytes each are in memory. All of COCO's training images have 860,000 boxes.
MAX_BOXES: Final = 1 << 23
_FEW: Final = 10  # boxes that say nothing yet of how all of them are written
_LARGEST: Final = 1 << 24  # pixels of a side
_MANY_OUTSIDE: Final = 0.2  # share of boxes that reach beyond their picture; of COCO's own it is below a thousandth

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BoxTable:
    """Boxes of all images, one image after the other; those of image i are from `starts[i]` up to `starts[i + 1]`."""

    starts: NDArray[np.int64]
    boxes: Floats
    classes: NDArray[np.int32]
    areas: Floats
    crowds: NDArray[np.bool_]

    def of_image(self, index: int) -> slice:
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def truth(self, index: int) -> Truth:
        rows = self.of_image(index)
        parts = {
            "boxes": self.boxes[rows].copy(),
            "classes": self.classes[rows].astype(np.int64),
            "areas": self.areas[rows].copy(),
            "crowds": self.crowds[rows].copy(),
        }
        return Truth("boxes", parts)

    def content(self) -> Iterator[bytes]:
        """What a fingerprint is made of."""
        for part, kind in ((self.starts, "<i8"), (self.boxes, "<f8"), (self.classes, "<i4"), (self.areas, "<f8")):
            yield np.ascontiguousarray(part, kind).tobytes()
        yield self.crowds.tobytes()


def sorted_by_image(
    image: NDArray[np.int64],
    images: int,
    parts: tuple[Floats, NDArray[Any], Floats, NDArray[Any]],
) -> BoxTable:
    """A table from boxes in any order. `image`: the number of each box's image; those of one image keep their order.
    `parts`: boxes, classes, areas and crowds."""
    order = np.argsort(image, kind="stable")
    starts = np.zeros(images + 1, np.int64)
    np.cumsum(np.bincount(image, minlength=images), out=starts[1:])
    boxes, classes, areas, crowds = (part[order] for part in parts)
    return BoxTable(starts, boxes.reshape(-1, 4), classes.astype(np.int32), areas, crowds.astype(bool))


class BoxedImages(ImageFolder):
    """`sizes`: width and height of each image as the annotations say; 0 where they say nothing."""

    truth_kind = "boxes"

    def __init__(
        self,
        entries: Iterable[Entry],
        table: BoxTable,
        sizes: NDArray[np.int64],
        *,
        name: str,
        classes: tuple[str, ...] | None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(entries, name=name, classes=classes, notes=notes)
        self.table = table
        self._sizes = sizes

    def read(self, index: int) -> Sample:
        sample = super().read(index)
        height, width = sample.value.shape[:2]
        declared = tuple(self._sizes[index].tolist())
        if all(declared) and declared != (width, height):
            turned = declared == (height, width)
            drawn_on = f"{declared[0]} × {declared[1]}"
            raise DatasetError(
                f"{sample.id} has {width} × {height} pixels, and its boxes were drawn on {drawn_on}.",
                hint="Its EXIF data may turn it: declare another decoder (opencv turns pictures, pillow does not)."
                if turned
                else "Take the pictures that were annotated, or scale the annotations as the pictures were scaled.",
            )
        if not all(declared):
            boxes = self.table.boxes[self.table.of_image(index)]
            sizes = np.full((len(boxes), 2), (width, height), np.int64)
            refuse_outside(boxes, sizes, lambda number: f"Box {number + 1} of {sample.id}")
        return sample

    def truth(self, index: int) -> Truth:
        return self.table.truth(range(len(self))[index])

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"boxes {super().fingerprint()};".encode())
        for part in self.table.content():
            digest.update(part)
        return digest.hexdigest()


def check_count(name: str, count: int) -> None:
    if count > MAX_BOXES:
        raise DatasetError(
            f"{name} has more than the {MAX_BOXES:,} boxes that are held in memory.",
            hint="Write a part of the images into a file of its own.",
        )


def refuse_impossible(boxes: Floats, where: Callable[[int], str]) -> None:
    """Refuses NaN, infinity and negative sides. `where`: what an error calls a box, from its number."""
    finite = np.isfinite(boxes).all(axis=1)
    if not finite.all():
        raise DatasetError(f"{where(int(finite.argmin()))} holds NaN or infinity.", hint="Correct or remove it.")
    large = (np.abs(boxes) > _LARGEST).any(axis=1)
    if large.any():
        number = int(large.argmax())
        raise DatasetError(f"{where(number)} is larger than any picture: {_numbers(boxes[number])}.")
    negative = (boxes[:, 2:] < 0).any(axis=1)
    if negative.any():
        number = int(negative.argmax())
        raise DatasetError(
            f"{where(number)} has a negative side: {_numbers(boxes[number])}.",
            hint="A box is its left, top, width and height; correct or remove it.",
        )


def refuse_outside(boxes: Floats, sizes: NDArray[np.int64], where: Callable[[int], str]) -> None:
    """Refuses boxes that lie wholly outside their picture; those that reach beyond it are kept, as COCO has them.
    `sizes`: width and height of each box's picture, 0 where it is not known."""
    known = (sizes > 0).all(axis=1)
    ends = boxes[:, :2] + boxes[:, 2:]
    # A box without width on the picture's edge lies in it.
    before = (ends < 0) | ((ends == 0) & (boxes[:, 2:] > 0))
    outside = known & ((boxes[:, :2] >= sizes) | before).any(axis=1)
    if outside.any():
        number = int(outside.argmax())
        raise DatasetError(
            f"{where(number)} lies outside its picture of {sizes[number, 0]} × {sizes[number, 1]} pixels: "
            f"{_numbers(boxes[number])} (left, top, width, height).",
            hint="Do the annotations belong to these pictures? Correct or remove the box.",
        )


def refuse_other_formats(boxes: Floats, sizes: NDArray[np.int64], name: str) -> None:
    """Refuses boxes that are shares of the picture, or corners, where all of them can only be that."""
    if not len(boxes):
        return
    ends = boxes[:, :2] + boxes[:, 2:]
    if ends.max() <= 1:
        raise DatasetError(
            f"All {len(boxes):,} boxes of {name} lie within one pixel: they seem to be shares of the picture.",
            hint="Write them in pixels: left, top, width, height.",
        )
    known = (sizes > 0).all(axis=1)
    boxes, sizes, ends = boxes[known], sizes[known], ends[known]
    if len(boxes) < _FEW:
        return
    beyond = (ends > sizes + 1).any(axis=1).mean()
    as_corners = ((boxes[:, 2:] > boxes[:, :2]) & (boxes[:, 2:] <= sizes + 1)).all()
    if as_corners and beyond > _MANY_OUTSIDE:
        raise DatasetError(
            f"{percent(beyond, 0)} of the boxes of {name} reach beyond their pictures, and all of them fit where they "
            "are taken for corners (left, top, right, bottom).",
            hint="Write them as left, top, width and height.",
        )


def said_of_boxes(table: BoxTable) -> Iterator[str]:
    """What whoever evaluates on such boxes should know."""
    empty = int((table.boxes[:, 2:] == 0).any(axis=1).sum())
    if empty:
        yield f"boxes without width or height, which no detection can match: {empty:,}"
    if copies := _copies(table):
        yield f"boxes that another one of the same class equals, which count like all others: {copies:,}"
    without = int((np.diff(table.starts) == 0).sum())
    if without:
        yield f"pictures without any box: {without:,} of {len(table.starts) - 1:,}"


def _copies(table: BoxTable) -> int:
    images = np.repeat(np.arange(len(table.starts) - 1), np.diff(table.starts))
    rows = np.concatenate([images[:, np.newaxis], table.classes[:, np.newaxis], table.boxes], axis=1)
    order = np.lexsort(rows.T)
    return int((rows[order[1:]] == rows[order[:-1]]).all(axis=1).sum()) if len(rows) else 0


def _numbers(box: Floats) -> str:
    return ", ".join(f"{side:g}" for side in box)
