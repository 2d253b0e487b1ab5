"""YOLO's folders: a text file of boxes beside each image, its numbers shares of the image's sides, and a data.yaml.

Folders are read as Ultralytics reads them: an image without a text file has no objects. Polygons become the boxes
around them. A size in pixels is read from an image's header when its truth is asked for.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.boxed_images import BoxedImages, check_count, said_of_boxes, sorted_by_image
from zoolens.inventory.datasets.dataset import UNLABELLED, Sample
from zoolens.inventory.datasets.decoders.decoder import TURNING
from zoolens.inventory.datasets.imagefolder import ImageFolder
from zoolens.inventory.datasets.images import image_size
from zoolens.inventory.datasets.labelled_files import Entry, readable
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.datasets.yolo_folders import YoloFolders, find_folders

_MAX_LABELS: Final = 1 << 24  # bytes of the text file of one image
_MOST_DIGITS: Final = 9
_BOX: Final = 5  # numbers of a line: the class and the box
_POLYGON: Final = 7  # at least: the class and three points
_SLACK: Final = 0.01  # that a share may be below 0 or above 1, as Ultralytics allows


@dataclass
class _Boxes:
    """Boxes in shares (centre, width, height), with the number of their image."""

    image: array[int] = field(default_factory=lambda: array("q"))
    classes: array[int] = field(default_factory=lambda: array("q"))
    shares: array[float] = field(default_factory=lambda: array("d"))
    counts: Counter[str] = field(default_factory=Counter)


class YoloImages(BoxedImages):
    """The table's boxes are shares: centre, width and height."""

    def read(self, index: int) -> Sample:
        return ImageFolder.read(self, index)

    def truth(self, index: int) -> Truth:
        shares = self.table.truth(range(len(self))[index])
        entry = self._entries[index]
        height, width = image_size(entry.file, entry.id, turned=self._decoder in TURNING)
        sides = shares["boxes"][:, 2:] * (width, height)
        corners = shares["boxes"][:, :2] * (width, height) - sides / 2
        boxes = np.concatenate([corners, sides], axis=1)
        return Truth("boxes", {**shares.parts, "boxes": boxes, "areas": sides[:, 0] * sides[:, 1]})


def open_yolo(
    location: str, *, split: str | None = None, classes: str | None = None, root: str | None = None
) -> YoloImages:
    """A data.yaml, or a folder with one or with the folders images and labels. split: which part to read; otherwise
    val of a data.yaml. classes: a file with class names, or the names with commas between them, instead of those in
    data.yaml. root: the folder that the paths in data.yaml start from, instead of the one that it names.
    """
    folders = find_folders(Path(location).expanduser(), split, classes, root)
    pictures = list(folders.pictures())
    check_samples(folders.name, len(pictures))
    found = _Boxes()
    for number, picture in enumerate(pictures):
        labels = _labels_of(picture, folders.root)
        if not is_file(labels):
            found.counts["missing"] += 1
            continue
        for text, line in _lines(labels, found.counts).items():
            _add(found, number, _numbers(text, f"{labels} line {line}", folders))
        check_count(folders.name, len(found.image))
    if found.counts["missing"] == len(pictures):
        raise DatasetError(
            f"None of the {len(pictures):,} pictures of {folders.name} has a text file of boxes, such as "
            f"{_labels_of(pictures[0], folders.root)}.",
            hint="Labels lie in a folder labels beside images, each called like its picture.",
        )
    names = [readable(path.relative_to(folders.root).as_posix()) for path in pictures]
    entries = [Entry(name, str(path), UNLABELLED) for name, path in zip(names, pictures, strict=True)]
    shares = np.asarray(found.shares, np.float64).reshape(-1, 4)
    parts = (shares, np.asarray(found.classes, np.int64), shares[:, 2] * shares[:, 3], np.zeros(len(shares), bool))
    table = sorted_by_image(np.asarray(found.image, np.int64), len(pictures), parts)
    sizes = np.zeros((len(pictures), 2), np.int64)
    notes = (*folders.notes, *_said(found.counts, len(pictures)), *said_of_boxes(table))
    return YoloImages(entries, table, sizes, name=folders.name, classes=folders.classes, notes=notes)


def _labels_of(picture: Path, root: Path) -> Path:
    """The text file of a picture: the last folder images of its path is called labels there."""
    parts = list(picture.relative_to(root).parts)
    for place in range(len(parts) - 2, -1, -1):
        if parts[place] == "images":
            parts[place] = "labels"
            break
    return root.joinpath(*parts).with_suffix(".txt")


def _lines(path: Path, counts: Counter[str]) -> dict[str, int]:
    """The lines that are not empty with their numbers; of equal ones there is one, as Ultralytics keeps them."""
    try:
        lines = [" ".join(line.split()) for line in read_text(path, _MAX_LABELS).split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{path} cannot be read: {reason}.") from error
    numbered: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line in numbered:
            counts["twice"] += 1
        elif line:
            numbered[line] = number
    return numbered


def _numbers(text: str, where: str, folders: YoloFolders) -> tuple[int, Sequence[float], bool]:
    """The class, the box, and whether it was a polygon."""
    words = text.split()
    if re.fullmatch(r"\d+(\.0*)?", words[0]) is None or len(words[0].partition(".")[0]) > _MOST_DIGITS:
        raise DatasetError(f"{where} begins with {words[0][:40]!r}.", hint="A line begins with the number of a class.")
    label = int(words[0].partition(".")[0])
    if folders.classes is not None and label >= len(folders.classes):
        raise DatasetError(
            f"{where} has the class {label}, but there are only {len(folders.classes)} names of classes.",
            hint="Classes count from 0; is the list of names that of another dataset?",
        )
    try:
        numbers = [float(word) for word in words[1:]]
    except ValueError as error:
        raise DatasetError(f"{where} holds something that is no number: {text[:80]!r}.") from error
    box, polygon = _box(numbers, where, folders.key_points)
    low, high = min(numbers[: len(numbers) if polygon else 4]), max(numbers[: len(numbers) if polygon else 4])
    if not (low >= -_SLACK and high <= 1 + _SLACK):
        raise DatasetError(
            f"{where} holds {low if not low >= -_SLACK else high:g}, which is no share of a picture's side.",
            hint="Boxes are centre, width and height divided by the picture's width and height: between 0 and 1.",
        )
    if box[2] < 0 or box[3] < 0:
        raise DatasetError(f"{where} has a box with a negative side.", hint="Correct or remove it.")
    return label, box, polygon


def _box(numbers: list[float], where: str, key_points: int | None) -> tuple[list[float], bool]:
    if not all(np.isfinite(numbers)):
        raise DatasetError(f"{where} holds NaN or infinity.", hint="Correct or remove the line.")
    count = len(numbers) + 1
    if key_points is not None and count == _BOX + key_points:
        return numbers[:4], False
    if key_points is None and count == _BOX:
        return numbers, False
    # A line of six is what a model found: the last number is its confidence.
    if key_points is None and count >= _POLYGON and count % 2:
        points = np.array(numbers).reshape(-1, 2)
        (left, top), (right, bottom) = points.min(axis=0), points.max(axis=0)
        return [float((left + right) / 2), float((top + bottom) / 2), float(right - left), float(bottom - top)], True
    wanted = "a class, a box and the key points of data.yaml" if key_points is not None else "a class and a box"
    raise DatasetError(
        f"{where} has {count} numbers.",
        hint=f"A line is {wanted}, {_BOX + (key_points or 0)} numbers"
        f"{'' if key_points is not None else ', or a class and the points of a polygon'}.",
    )


def _add(found: _Boxes, image: int, read: tuple[int, Sequence[float], bool]) -> None:
    label, box, polygon = read
    found.image.append(image)
    found.classes.append(label)
    found.shares.extend(box)
    found.counts["polygons"] += polygon


def _said(counts: Counter[str], pictures: int) -> Iterator[str]:
    if counts["missing"]:
        yield f"pictures without a text file of boxes, taken to show no object: {counts['missing']:,} of {pictures:,}"
    if counts["polygons"]:
        yield f"polygons, of which the box around them is used: {counts['polygons']:,}"
    if counts["twice"]:
        yield f"lines that are in a file twice and count once: {counts['twice']:,}"
