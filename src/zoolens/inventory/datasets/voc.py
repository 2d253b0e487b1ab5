"""Pascal VOC: one XML file of boxes for each image, in the folders Annotations, JPEGImages and ImageSets.

VOC counts pixels from 1 and includes the last one: a box from 1 to 1 is one pixel wide. Objects marked as difficult are
regions that count neither for nor against a model, as crowds do in COCO's evaluation.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_bytes, read_text
from zoolens.base.safety.xml_tree import parse_xml
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.boxed_images import (
    BoxedImages,
    check_count,
    refuse_impossible,
    refuse_outside,
    said_of_boxes,
    sorted_by_image,
)
from zoolens.inventory.datasets.classes import NAMES, class_names
from zoolens.inventory.datasets.dataset import UNLABELLED
from zoolens.inventory.datasets.images import SUFFIXES
from zoolens.inventory.datasets.labelled_files import Entry, readable

CLASSES: Final = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_ANNOTATIONS: Final = ("Annotations", "annotations", ".")
_IMAGES: Final = ("JPEGImages", "images", "Images", ".")
_CORNERS: Final = ("xmin", "ymin", "xmax", "ymax")
_MAX_XML: Final = 1 << 20  # bytes; a file of VOC has about a thousand
_MAX_LIST: Final = 1 << 27


@dataclass
class _Boxes:
    """Boxes as the files have them, with the number of their image."""

    image: array[int] = field(default_factory=lambda: array("q"))
    corners: array[float] = field(default_factory=lambda: array("d"))
    word: array[int] = field(default_factory=lambda: array("q"))  # place of the class in `words`
    words: dict[str, int] = field(default_factory=dict)  # classes in the order in which they occur
    difficult: array[int] = field(default_factory=lambda: array("b"))


def open_voc(
    location: str, *, split: str | None = None, classes: str | None = None, difficult: str = "ignore", origin: str = "1"
) -> BoxedImages:
    """A folder such as VOCdevkit/VOC2007. split: which list of ImageSets/Main to read, such as val. classes: a file
    with class names, or the names with commas between them; otherwise VOC's twenty, or the alphabet. difficult:
    "ignore", or "count" to judge difficult objects like all others. origin: the number of the first pixel, "1" as in
    VOC (the last pixel of a box belongs to it), or "0" where boxes end before their last number.
    """
    for option, given, known in (("difficult", difficult, ("ignore", "count")), ("origin", origin, ("0", "1"))):
        if given not in known:
            raise DatasetError(f"The option {option} is {known[0]!r} or {known[1]!r}, not {given[:80]!r}.")
    folder = _folder(Path(location).expanduser())
    files = _annotation_files(folder, split)
    check_samples(str(folder), len(files))
    pictures = _pictures(folder)
    found, sizes, entries = _Boxes(), array("q"), []
    for number, path in enumerate(files):
        root = _parse(path)
        sizes.extend(_whole(root.findtext(f"size/{side}")) for side in ("width", "height"))
        for thing in root.findall("object"):
            _add(found, number, thing, path)
        check_count(str(folder), len(found.word))
        picture = _picture(pictures, path, root)
        entries.append(Entry(readable(picture.name), str(picture), UNLABELLED))
    chosen = "" if split is None else f" {split}"
    names = class_names(classes, folder, NAMES) or (CLASSES if _is_vocs_own(folder) else None)
    dataset = _dataset(found, files, sizes, entries, names, int(origin))
    dataset.name = f"{readable(folder.resolve().name)}{chosen}"
    if difficult == "count":
        dataset.table.crowds[:] = False
    dataset.notes = (*dataset.notes, *_said(found, difficult, int(origin)))
    return dataset


def _dataset(
    found: _Boxes,
    files: Sequence[Path],
    sizes: array[int],
    entries: list[Entry],
    names: tuple[str, ...] | None,
    origin: int,
) -> BoxedImages:
    words = list(found.words)
    known = names or _classes(words, str(files[0].parent))
    numbers = {name: number for number, name in enumerate(known)}
    unknown = next((word for word in words if word not in numbers), None)
    if unknown is not None:
        first = files[found.image[found.word.index(found.words[unknown])]]
        raise DatasetError(
            f"{first} has the class {unknown[:80]!r}, which is not among the names of classes.",
            hint="Add it to the class file, or to classes=….",
        )
    corners = np.asarray(found.corners, np.float64).reshape(-1, 4)
    boxes = np.concatenate([corners[:, :2] - origin, corners[:, 2:] - corners[:, :2] + origin], axis=1)
    image, all_sizes = np.asarray(found.image, np.int64), np.asarray(sizes, np.int64).reshape(-1, 2)

    def where(number: int) -> str:
        return f"The box of {words[found.word[number]][:80]!r} in {files[image[number]]}"

    refuse_impossible(boxes, where)
    refuse_outside(boxes, all_sizes[image], where)
    labels = np.array([numbers[word] for word in words], np.int64)[np.asarray(found.word, np.int64)]
    difficult = np.asarray(found.difficult, np.int8)
    parts = (boxes, labels, boxes[:, 2] * boxes[:, 3], difficult)
    table = sorted_by_image(image, len(files), parts)
    dataset = BoxedImages(entries, table, all_sizes, name="", classes=known, notes=tuple(said_of_boxes(table)))
    dataset.alphabetical = names is None and known != CLASSES
    return dataset


def _is_vocs_own(folder: Path) -> bool:
    """Whether it is one of VOC's own years, and not another dataset in its form, which may have some of its classes."""
    lists = folder / "ImageSets" / "Main"
    return folder.resolve().name.startswith("VOC20") or all(any(lists.glob(f"{name}_*.txt")) for name in CLASSES)


def _classes(words: Sequence[str], where: str) -> tuple[str, ...]:
    if not words:
        raise DatasetError(
            f"No file in {where} has an object, so that no class is known.", hint="Name them: classes=…."
        )
    return tuple(sorted(words))


def _said(found: _Boxes, difficult: str, origin: int) -> Iterator[str]:
    marked = sum(found.difficult)
    if marked and difficult == "ignore":
        yield f"objects marked as difficult count neither for nor against a model: {marked:,} of {len(found.word):,}"
    corners = np.asarray(found.corners, np.float64).reshape(-1, 4)
    before = int((corners[:, :2] < 1).any(axis=1).sum())
    if origin and before:
        yield (
            f"boxes that begin at pixel 0, where VOC counts from 1: {before:,}; if whoever wrote them counts from 0, "
            "open the dataset with origin=0"
        )


# --- files


def _folder(place: Path) -> Path:
    if not place.is_dir():
        raise DatasetError(f"There is no folder {place}.", hint="Give a folder such as VOCdevkit/VOC2007.")
    if _first_folder(place, _ANNOTATIONS[:2]) is not None or any(place.glob("*.xml")):
        return place
    inside = sorted(path for path in place.iterdir() if _first_folder(path, _ANNOTATIONS[:2]) is not None)
    if len(inside) == 1:
        return inside[0]
    names = ", ".join(path.name for path in inside[:8])
    raise DatasetError(
        f"{place} holds several datasets: {names}." if inside else f"{place} has no folder Annotations.",
        hint="Name one of them." if inside else "Give a folder such as VOCdevkit/VOC2007.",
    )


def _first_folder(base: Path, names: Sequence[str]) -> Path | None:
    return next((base / name for name in names if (base / name).is_dir()), None)


def _annotation_files(folder: Path, split: str | None) -> list[Path]:
    annotations = _first_folder(folder, _ANNOTATIONS) or folder
    lists = folder / "ImageSets" / "Main"
    if split is None:
        # Beside the lists of images there is one for each class, such as cat_val.
        splits = sorted(path.stem for path in lists.glob("*.txt"))
        plain = [name for name in splits if "_" not in name]
        if len(plain or splits) > 1:
            raise DatasetError(
                f"{folder} has the splits {', '.join((plain or splits)[:8])}.", hint="Say which: split=NAME."
            )
        split = next(iter(plain or splits), None)
    if split is None:
        files = sorted(annotations.glob("*.xml"))
        if not files:
            raise DatasetError(f"{annotations} holds no XML files.", hint="Give a folder such as VOCdevkit/VOC2007.")
        return files
    listed = lists / f"{split}.txt"
    if "/" in split or "\\" in split or not is_file(listed):
        raise DatasetError(f"There is no list {split[:80]!r} in {lists}.", hint="It is a file such as val.txt.")
    return [_listed(annotations, name, listed) for name in _names(listed)]


def _names(listed: Path) -> list[str]:
    """The first word of each line: in lists of one class, 1 or -1 follows."""
    try:
        lines = read_text(listed, _MAX_LIST).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{listed} cannot be read: {reason}.") from error
    names = [line.split()[0] for line in lines if line.strip()]
    if not names:
        raise DatasetError(f"{listed} lists no images.")
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in set(names[:place]))
        raise DatasetError(f"{listed} lists {twice[:80]!r} twice.", hint="Remove one of the lines.")
    return names


def _listed(annotations: Path, name: str, listed: Path) -> Path:
    path = annotations / f"{name}.xml"
    if "/" in name or "\\" in name or not is_file(path):
        raise DatasetError(
            f"{listed} lists {name[:200]!r}, and {annotations} has no file {name[:200]}.xml.",
            hint="Fetch the annotations of this split.",
        )
    return path


def _pictures(folder: Path) -> dict[str, list[Path]]:
    """The image files by their names without suffix."""
    images = _first_folder(folder, _IMAGES) or folder
    found: dict[str, list[Path]] = {}
    for path in sorted(images.iterdir()):
        if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            found.setdefault(path.stem, []).append(path)
    return found


def _picture(pictures: dict[str, list[Path]], path: Path, root: Element) -> Path:
    fitting = pictures.get(path.stem, [])
    said = (root.findtext("filename") or "").strip()
    if len(fitting) > 1:
        fitting = [picture for picture in fitting if picture.name == said]
    if len(fitting) == 1:
        return fitting[0]
    raise DatasetError(
        f"{path} describes {said[:200] or path.stem!r}, and no picture of this name lies in the dataset's folder.",
        hint="The pictures lie in JPEGImages, and are called like the XML files.",
    )


# --- XML


def _parse(path: Path) -> Element:
    try:
        root = parse_xml(read_bytes(path, _MAX_XML))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(f"{path} cannot be read as XML: {reason}.", hint="Write or fetch it again.") from error
    if root.tag != "annotation":
        raise DatasetError(f"{path} is XML, but no annotation of Pascal VOC.", hint="Its outermost part is annotation.")
    return root


def _add(found: _Boxes, image: int, thing: Element, path: Path) -> None:
    word = (thing.findtext("name") or "").strip()
    if not word:
        raise DatasetError(f"{path} has an object without a name.", hint="Which class is it?")
    corners = [_number(thing.findtext(f"bndbox/{corner}")) for corner in _CORNERS]
    if None in corners:
        raise DatasetError(
            f"The object {word[:80]!r} in {path} has no bndbox with numbers for {', '.join(_CORNERS)}.",
            hint="Polygons and turned boxes are not read.",
        )
    found.image.append(image)
    found.corners.extend(corner for corner in corners if corner is not None)
    found.word.append(found.words.setdefault(word, len(found.words)))
    found.difficult.append((thing.findtext("difficult") or "0").strip() in ("1", "true", "True"))


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _whole(text: str | None) -> int:
    """A side of a picture; 0 where it is not said."""
    side = _number(text)
    return int(side) if side is not None and 0 < side < 1 << 31 else 0
