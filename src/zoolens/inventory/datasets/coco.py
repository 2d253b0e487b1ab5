"""COCO's JSON of boxes: images, categories and annotations in one file, and the image files in a folder.

The file is read element by element and its boxes are held in arrays. Masks, key points and captions are passed over.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.boxed_images import (
    BoxedImages,
    check_count,
    refuse_impossible,
    refuse_other_formats,
    refuse_outside,
    said_of_boxes,
    sorted_by_image,
)
from zoolens.inventory.datasets.dataset import UNLABELLED
from zoolens.inventory.datasets.file_list import FileList
from zoolens.inventory.datasets.imagefolder import ImageFolder
from zoolens.inventory.datasets.json_arrays import array_elements
from zoolens.inventory.datasets.labelled_files import Entry, readable
from zoolens.inventory.datasets.picture_names import locate_pictures, name_parts

_PARTS: Final = ("images", "annotations", "categories")
_IMAGES: Final = "images"  # usual name of a folder
_MISSING: Final = ("refuse", "skip")
_MOST_CATEGORIES: Final = 1 << 16
_SHOWN: Final = 3  # names in a sentence


@dataclass
class Annotations:
    """What a file says, in the order in which it says it. Ids are texts: some writers put 139 here and "139" there."""

    path: Path
    names: list[str] = field(default_factory=list)  # of image files
    sizes: array[int] = field(default_factory=lambda: array("q"))  # width and height in turn
    image_ids: dict[str, int] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)  # supercategory of each class
    category_ids: dict[str, int] = field(default_factory=dict)
    # Of each box. Images and categories may stand behind the annotations, so that their ids are looked up afterwards.
    box_image: array[int] = field(default_factory=lambda: array("q"))
    box_category: array[int] = field(default_factory=lambda: array("q"))
    sides: array[float] = field(default_factory=lambda: array("d"))
    areas: array[float] = field(default_factory=lambda: array("d"))
    crowds: array[int] = field(default_factory=lambda: array("b"))
    named_images: dict[str, int] = field(default_factory=dict)  # numbers of ids in the order in which boxes name them
    named_categories: dict[str, int] = field(default_factory=dict)
    ids: array[int] = field(
        default_factory=lambda: array("q")
    )  # of boxes that have one, as far as they tell them apart
    without_area: int = 0
    parts: set[str] = field(default_factory=set)  # names of all that the file has

    def add_image(self, image: Any) -> None:
        if not isinstance(image, dict):
            raise self._wrong("Image", len(self.names), image, "is not a JSON object.")
        if "neg_category_ids" in image or "not_exhaustive_category_ids" in image:
            raise DatasetError(
                f"{self.path} is annotated as LVIS is: in each image only some of the classes were looked for.",
                hint="COCO's average precision would count detections of all others as wrong; it is not computed here.",
            )
        key = _key(image.get("id"))
        if key is None:
            raise self._wrong("Image", len(self.names), image, "has no id.")
        if key in self.image_ids:
            raise DatasetError(f"{self.path} has two images with the id {key[:80]!r}.", hint="Ids tell images apart.")
        name = image.get("file_name")
        if not isinstance(name, str) or not name_parts(name) or "\0" in name:
            raise self._wrong("Image", len(self.names), image, "has no file_name.", "Which picture is meant?")
        self.image_ids[key] = len(self.names)
        self.names.append(name)
        self.sizes.extend(_size(image.get(side)) for side in ("width", "height"))
        check_samples(str(self.path), len(self.names))

    def add_category(self, category: Any) -> None:
        if not isinstance(category, dict) or not isinstance(category.get("name"), str):
            example = 'A category is {"id": 1, "name": "person"}.'
            raise self._wrong("Category", len(self.classes), category, "has no name.", example)
        key = _key(category.get("id"))
        if key is None:
            raise self._wrong("Category", len(self.classes), category, "has no id.")
        if key in self.category_ids:
            raise DatasetError(f"{self.path} has two categories with the id {key[:80]!r}.")
        if len(self.classes) == _MOST_CATEGORIES:
            raise DatasetError(f"{self.path} has more than {_MOST_CATEGORIES:,} categories.")
        self.category_ids[key] = len(self.classes)
        self.classes.append(_storable(category["name"]))
        above = category.get("supercategory")
        self.above.append(_storable(above) if isinstance(above, str) else "")

    def add_box(self, annotation: Any) -> None:
        if not isinstance(annotation, dict):
            raise self._wrong_box(annotation, "is not a JSON object.")
        box = annotation.get("bbox")
        if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
            others = "Captions, panoptic segments and masks without boxes are not read; name the file of instances."
            raise self._wrong_box(annotation, "has no bbox of four numbers.", others)
        image, category = _key(annotation.get("image_id")), _key(annotation.get("category_id"))
        if image is None or category is None:
            raise self._wrong_box(annotation, f"has no {'image_id' if image is None else 'category_id'}.")
        crowd, area = annotation.get("iscrowd", 0), annotation.get("area")
        if crowd not in (0, 1):
            raise self._wrong_box(annotation, f"has an iscrowd of {str(crowd)[:40]!r}.", "It is 0 or 1.")
        if area is None:
            self.without_area += 1
        elif not _is_number(area) or not 0 <= area < float("inf"):
            raise self._wrong_box(annotation, f"has an area of {str(area)[:40]!r}.", "It is a number of pixels.")
        try:
            self.sides.extend(box)
            self.areas.append(box[2] * box[3] if area is None else area)
        except OverflowError as error:
            raise self._wrong_box(annotation, "has a number that is too large for a picture.") from error
        self.box_image.append(self.named_images.setdefault(image, len(self.named_images)))
        self.box_category.append(self.named_categories.setdefault(category, len(self.named_categories)))
        self.crowds.append(int(crowd))
        if (own := _key(annotation.get("id"))) is not None:
            self.ids.append(hash(own))
        check_count(str(self.path), len(self.areas))

    def called(self, number: int) -> str:
        return f"Annotation {number + 1:,} of {self.path}"

    def _wrong_box(self, annotation: Any, what: str, hint: str | None = None) -> DatasetError:
        return self._wrong("Annotation", len(self.crowds), annotation, what, hint)

    def _wrong(self, part: str, number: int, element: Any, what: str, hint: str | None = None) -> DatasetError:
        given = element.get("id") if isinstance(element, dict) else None
        known = f" (id {str(given)[:40]!r})" if given is not None else ""
        return DatasetError(f"{part} {number + 1:,} of {self.path}{known} {what}", hint=hint)


def open_coco(location: str, *, images: str | None = None, missing: str = "refuse") -> ImageFolder:
    """The annotation file, or a folder with one. images: the folder of the image files, from the annotation file's
    folder on; otherwise a folder beside it that has them. missing: "refuse", or "skip" to leave out images whose file
    is not there.
    """
    if missing not in _MISSING:
        raise DatasetError(f"The option missing is 'refuse' or 'skip', not {missing[:80]!r}.")
    path = _annotation_file(Path(location).expanduser())
    found = _read(path)
    root = _given_folder(path, images) if images is not None else _folder_of_images(path, found.names)
    files, shortened = locate_pictures(found.names, root)
    kept = [number for number, file in enumerate(files) if file is not None]
    if len(kept) < len(files) and (missing == "refuse" or not kept):
        raise _absent(found, files, root)
    _refuse_twice(files, found)
    entries = FileList(Entry(readable(str(files[number])), f"{root}/{files[number]}", UNLABELLED) for number in kept)
    notes = tuple(_notes(found, len(files) - len(kept), shortened))
    # Of COCO's own test images nobody says what is on them, which is something else than that nothing is.
    if "annotations" not in found.parts:
        return ImageFolder(entries, name=path.stem, classes=tuple(found.classes), notes=notes)
    return _boxed(found, kept, entries, notes)


def _boxed(found: Annotations, kept: list[int], entries: FileList, notes: tuple[str, ...]) -> BoxedImages:
    image = _positions(found.box_image, found.named_images, found.image_ids, found, "image")
    classes = _positions(found.box_category, found.named_categories, found.category_ids, found, "category")
    boxes = np.asarray(found.sides, np.float64).reshape(-1, 4)
    areas, crowds = np.asarray(found.areas, np.float64), np.asarray(found.crowds, np.int8)
    sizes = np.asarray(found.sizes, np.int64).reshape(-1, 2)

    def where(number: int) -> str:
        return f"{found.called(number)}, a box of {found.names[image[number]][:200]!r},"

    refuse_impossible(boxes, where)
    refuse_other_formats(boxes, sizes[image], str(found.path))
    refuse_outside(boxes, sizes[image], where)
    place = np.full(len(found.names), -1, np.int64)
    place[kept] = np.arange(len(kept))
    here = place[image] >= 0
    parts = (boxes[here], classes[here], areas[here], crowds[here])
    table = sorted_by_image(place[image[here]], len(kept), parts)
    return BoxedImages(
        entries,
        table,
        sizes[kept],
        name=found.path.stem,
        classes=tuple(found.classes),
        notes=(*notes, *_placeholders(found, np.unique(classes).tolist()), *said_of_boxes(table)),
    )


def _read(path: Path) -> Annotations:
    found = Annotations(path)
    add = {"images": found.add_image, "annotations": found.add_box, "categories": found.add_category}
    try:
        for part, element in array_elements(path, _PARTS, found.parts):
            add[part](element)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        said = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason
        raise DatasetError(
            f"{path} cannot be read as COCO's JSON: {said}.",
            hint="It is an object with the lists images, annotations and categories.",
        ) from error
    if not found.names or not found.classes:
        lacking = "images" if not found.names else "categories"
        raise DatasetError(
            f"{path} lists no {lacking}.", hint="COCO's JSON has the lists images, annotations and categories."
        )
    return found


def _key(value: Any) -> str | None:
    """An id as a text; None where there is none. A whole number with a point is one that a table program wrote."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        return None
    return str(value)


def _storable(name: str) -> str:
    """A name without the halves of characters that JSON can write and nothing can store."""
    return name.strip().encode("utf-8", "backslashreplace").decode()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _size(value: Any) -> int:
    """A side of an image in pixels; 0 where it is not said."""
    return int(value) if _is_number(value) and 0 < value < 1 << 31 else 0


def _positions(
    numbers: array[int], named: dict[str, int], known: dict[str, int], found: Annotations, what: str
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place of each box's image or category in the file's list of them."""
    places = np.array([known.get(key, -1) for key in named], np.int64)
    if (places < 0).any():
        unknown = int((places < 0).argmax())
        number = numbers.index(unknown)
        key = list(named)[unknown]
        raise DatasetError(
            f"{found.called(number)} names the {what} {key[:80]!r}, which the file does not list.",
            hint="Was the file cut? Keep images, annotations and categories together.",
        )
    return places[np.asarray(numbers, np.int64)]


# --- where the files lie


def _annotation_file(place: Path) -> Path:
    if not place.is_dir():
        if not is_file(place):
            raise DatasetError(
                f"There is no file {place}.", hint="Give COCO's JSON file, such as instances_val2017.json."
            )
        return place
    inside = [path for folder in (place, place / "annotations") if folder.is_dir() for path in folder.glob("*.json")]
    files = sorted(inside)
    instances = [path for path in files if path.name.startswith("instances_") or "coco" in path.name.lower()]
    for some in (instances, files):
        if len(some) == 1:
            return some[0]
    if not files:
        raise DatasetError(f"{place} has no JSON file.", hint="Name the file of annotations itself.")
    likely = instances or files
    names = ", ".join(str(path.relative_to(place)) for path in likely[:8])
    raise DatasetError(
        f"{place} has {len(likely)} JSON files that may hold the annotations: {names}.", hint="Name one of them."
    )


def _given_folder(path: Path, images: str) -> Path:
    for folder in (path.parent / Path(images).expanduser(), Path(images).expanduser()):
        if folder.is_dir():
            return folder
    raise DatasetError(f"There is no folder of images {images[:200]!r}.", hint="It is named from the JSON file on.")


def _folder_of_images(path: Path, names: Sequence[str]) -> Path:
    """The folder that has the first image of the file. Folders named like the file come first, such as val2017 of
    instances_val2017; of others that hold a file of this name there may be only one."""
    around = [path.parent, path.parent.parent] if path.parent.name == "annotations" else [path.parent]
    words = [word for word in re.split(r"[_.\-]+", path.stem) if word]
    named = [folder / word for word in words[::-1] for base in around for folder in (base, base / _IMAGES)]
    first = name_parts(names[0])
    for folder in named:
        if folder.is_dir() and _holds(folder, first):
            return folder
    others = [*around, *(below for base in around for below in _folders(base))]
    others += [below for base in around for below in _folders(base / _IMAGES)]
    fitting = [folder for folder in dict.fromkeys(others) if _holds(folder, first)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = ", ".join(str(folder) for folder in fitting[:_SHOWN])
        raise DatasetError(
            f"{path} names {names[0][:200]!r}, which several folders have: {listed}.",
            hint="Say which is meant: images=FOLDER.",
        )
    raise DatasetError(
        f"{path} names {names[0][:200]!r}, which lies in no folder beside it.",
        hint="Say where the pictures are: images=FOLDER.",
    )


def _folders(base: Path) -> Iterator[Path]:
    if base.is_dir():
        yield from sorted(path for path in base.iterdir() if path.is_dir() and not path.name.startswith("."))


def _holds(folder: Path, parts: tuple[str, ...]) -> bool:
    return any(is_file(folder.joinpath(*parts[start:])) for start in range(len(parts)))


def _absent(found: Annotations, files: Sequence[str | None], root: Path) -> DatasetError:
    absent = [name for name, file in zip(found.names, files, strict=True) if file is None]
    names = ", ".join(repr(name[:200]) for name in absent[:_SHOWN])
    return DatasetError(
        f"{len(absent):,} of {len(files):,} images of {found.path} are not in {root}: {names}"
        f"{', …' if len(absent) > _SHOWN else ''}.",
        hint="Fetch them, say images=FOLDER if they lie elsewhere, or leave them out with missing=skip.",
    )


def _refuse_twice(files: Sequence[str | None], found: Annotations) -> None:
    (file, times), *_ = Counter(file for file in files if file is not None).most_common(1)
    if times > 1:
        raise DatasetError(
            f"{found.path} has {times} images that are the file {file}.",
            hint="Give each picture one entry, or keep the sub-folders that tell them apart.",
        )


# --- what to say


def _notes(found: Annotations, absent: int, shortened: int) -> Iterator[str]:
    if absent:
        yield f"images whose file is not there are left out: {absent:,} of {len(found.names):,}"
    if shortened:
        yield f"images found by the last parts of their file_name, which has folders that are not here: {shortened:,}"
    if found.without_area:
        yield f"boxes without an area of their own, for which that of the box stands: {found.without_area:,}"
    if repeated := len(found.ids) - len(np.unique(np.asarray(found.ids, np.int64))):
        yield f"annotations that have the id of another one, and count as boxes of their own: {repeated:,}"
    for name, times in Counter(found.classes).items():
        if times > 1:
            yield f"{times} categories are called {name[:80]!r}"


def _placeholders(found: Annotations, used: list[int]) -> Iterator[str]:
    """Exporters such as Roboflow's write a category 0 that is only the heading of all others."""
    for number, name in enumerate(found.classes):
        if number not in used and name in found.above:
            yield f"category {name[:80]!r} (class {number}) has no boxes: it seems to be a heading of the others"
