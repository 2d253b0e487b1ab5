"""Images with a mask of classes for each: pairs of files in two folders."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.phrases import first_few
from zoolens.base.safety.untrusted import parse_json, read_text
from zoolens.inventory.datasets import truth
from zoolens.inventory.datasets.classes import MAX_BYTES, NAMES, class_names
from zoolens.inventory.datasets.dataset import UNLABELLED, DatasetView
from zoolens.inventory.datasets.file_list import FileList
from zoolens.inventory.datasets.imagefolder import ImageFolder
from zoolens.inventory.datasets.images import SUFFIXES, decode_mask, image_size
from zoolens.inventory.datasets.labelled_files import Entry, Kinds, file_digest, files_under, readable
from zoolens.inventory.datasets.truth import Truth

IMAGES: Final = "images"
MASKS: Final = "masks"
_NUMBERS: Final = 1 << 16  # that a pixel of a mask can have
_UNJUDGED: Final = truth.UNJUDGED["uint16"]
_UNLISTED: Final = _UNJUDGED - 1  # in a table of numbers: none of the classes
_MOST_CLASSES: Final = _UNLISTED
_USUAL_UNJUDGED: Final = 255
_NONE: Final = "none"
_IGNORE: Final = "ignore"
_SHOWN: Final = 3


class MaskFolder(DatasetView):
    """Images of a folder, each with a mask. `table`: the class of every number that a pixel can have."""

    def __init__(
        self,
        images: FileList,
        masks: FileList,
        name: str,
        classes: tuple[str, ...] | None,
        table: NDArray[np.uint16],
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(ImageFolder(images, name=name, classes=None, notes=notes))
        self.classes, self.truth_kind = classes, "mask"
        self._images, self._masks, self._table = images, masks, table
        self._fingerprint: str | None = None

    def truth(self, index: int) -> Truth | None:
        """The mask of one image; None where it judges no pixel."""
        image, mask = self._images[index].file, self._masks[index].file
        name = readable(mask)
        numbers = decode_mask(mask, name)
        size = image_size(image, readable(image))
        if numbers.shape != size:
            raise DatasetError(
                f"{name} has {numbers.shape[1]} × {numbers.shape[0]} pixels, but its image has {size[1]} × {size[0]}.",
                hint="A mask has a pixel for every pixel of its image.",
            )
        classes = self._table[numbers]
        if (unlisted := classes == _UNLISTED).any():
            raise DatasetError(
                f"{name} has pixels of number {int(numbers[unlisted][0])}, which is no class"
                f"{f' (there are {len(self.classes)})' if self.classes else ''}.",
                hint=f"Numbers that are not judged: ignore=0,255. Those that ids does not list: others=CLASS or "
                f"others={_IGNORE}.",
            )
        unjudged = classes == _UNJUDGED
        if unjudged.all():
            return None
        kind = "uint8" if classes[~unjudged].max() < truth.UNJUDGED["uint8"] else "uint16"
        return Truth("mask", {"mask": np.where(unjudged, truth.UNJUDGED[kind], classes).astype(kind)})

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(f"masks;{self.parent.fingerprint()};".encode())
            digest.update(self._table.astype("<u2").tobytes())
            for mask in self._masks:
                digest.update(f"{file_digest(mask.file)};".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def open_mask_folder(
    location: str,
    *,
    images: str = IMAGES,
    masks: str = MASKS,
    classes: str | None = None,
    ids: str | None = None,
    others: str | None = None,
    ignore: str | None = None,
) -> MaskFolder:
    """A folder with images and, for each, a PNG whose pixels are numbers of classes (grey, or with a palette).

    images, masks: folders inside it; an image and its mask have the same name but for the suffix. Or names with one *,
    which stands for what the two have in common, also over several folders: images/*_leftImg8bit.png.
    classes: a file with class names, or the names with commas between them; FILE.json#NAME is a part of a JSON file.
    ids: a JSON file, or a part of one, that gives the class of each number in the masks, by number or name.
    others: the class of numbers that ids does not list, or "ignore"; without it they are refused.
    ignore: numbers that are not judged, with commas, or "none"; 255 without it.
    """
    folder = Path(location).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"There is no folder {folder}.", hint="Give a folder with images and masks.")
    names = _class_names(folder, classes)
    table = _table(names, _listed_ids(folder, ids), others, ignore)
    pictures, truths, notes = _pairs(folder, images, masks)
    return MaskFolder(pictures, truths, readable(folder.resolve().name), names, table, notes)


# --- classes


def _class_names(folder: Path, option: str | None) -> tuple[str, ...] | None:
    if option is None or "#" not in option:
        names = class_names(option, folder, NAMES)
    else:
        names = _names_of(_json_part(folder, option, "classes"), option)
    if names is not None and len(names) > _MOST_CLASSES:
        raise DatasetError(f"There are {len(names):,} class names; masks have at most {_MOST_CLASSES:,} classes.")
    return names


def _names_of(content: Any, option: str) -> tuple[str, ...]:
    if not isinstance(content, list) or not content or not all(isinstance(name, str) for name in content):
        raise DatasetError(f"{option[:200]!r} is no list of class names.", hint='Write ["background", "cat"].')
    return tuple(content)


def _listed_ids(folder: Path, option: str | None) -> Mapping[str, Any] | None:
    if option is None:
        return None
    content = _json_part(folder, option, "ids")
    if not isinstance(content, dict) or not content:
        raise DatasetError(
            f"{option[:200]!r} gives no classes of numbers.", hint='Write {"17": 8, "18": 12}: number in a mask, class.'
        )
    return content


def _json_part(folder: Path, option: str, name: str) -> Any:
    """What a JSON file holds, or the part of it that is named behind "#"."""
    file, _, part = option.partition("#")
    try:
        content = parse_json(read_text(_inside(folder, file, name), MAX_BYTES))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DatasetError(f"The file {file[:200]!r} of the option {name} cannot be read: {reason}.") from error
    if not part:
        return content
    if not isinstance(content, dict) or part not in content:
        known = f"It has {', '.join(content)}." if isinstance(content, dict) else "It is no mapping."
        raise DatasetError(f"{file[:200]!r} has no part {part[:80]!r}.", hint=known[:300])
    return content[part]


def _table(
    names: tuple[str, ...] | None, ids: Mapping[str, Any] | None, others: str | None, ignore: str | None
) -> NDArray[np.uint16]:
    """The class of every number that a pixel can have."""
    table = np.full(_NUMBERS, _UNLISTED, np.uint16)
    if ids is not None:
        for number, wanted in ids.items():
            table[_number(number, "ids")] = _class_number(wanted, names, "ids")
    else:
        if others is not None:
            raise DatasetError("The option others is for numbers that ids does not list; there is no ids.")
        listed = _MOST_CLASSES if names is None else len(names)
        table[:listed] = np.arange(listed)
    if ignore is None:
        # Not where 255 is a class that somebody named.
        if (names is None and ids is None) or table[_USUAL_UNJUDGED] == _UNLISTED:
            table[_USUAL_UNJUDGED] = _UNJUDGED
    elif ignore != _NONE:
        table[[_number(number, "ignore") for number in ignore.split(",")]] = _UNJUDGED
    if others is not None:
        rest = _UNJUDGED if others == _IGNORE else _class_number(others, names, "others")
        table[table == _UNLISTED] = rest
    return table


def _number(text: str, option: str) -> int:
    word = text.strip()
    if not word.isdecimal() or len(word) > 5 or int(word) >= _NUMBERS:
        raise DatasetError(f"The option {option} has {text[:80]!r}, which is no number from 0 to {_NUMBERS - 1:,}.")
    return int(word)


def _class_number(wanted: Any, names: tuple[str, ...] | None, option: str) -> int:
    """A class by its number, or by its name."""
    if isinstance(wanted, str) and names is not None and wanted in names:
        return names.index(wanted)
    number = int(wanted) if isinstance(wanted, str) and wanted.isdecimal() and len(wanted) < 6 else wanted
    end = _MOST_CLASSES if names is None else len(names)
    if type(number) is not int or not 0 <= number < end:
        raise DatasetError(f"The option {option} has the class {str(wanted)[:80]!r}; classes are 0 to {end - 1:,}.")
    return number


# --- files


def _pairs(folder: Path, images: str, masks: str) -> tuple[FileList, FileList, tuple[str, ...]]:
    """The images that have a mask, their masks in the same order, and what is left out."""
    found = _by_name(folder, images, Kinds(SUFFIXES), "images")
    truths = _by_name(folder, masks, Kinds((".png",)), "masks")
    names = sorted(set(found) & set(truths))
    if not names:
        raise DatasetError(
            f"No image of {folder} has a mask: images are called {_some(found)}, masks {_some(truths)}.",
            hint="The two have the same name but for the suffix; masks are PNG. Say with one * what they have in "
            "common: images=images/*.jpg&masks=masks/*_labels.png",
        )
    counts = ((len(found), "image", "mask"), (len(truths), "mask", "image"))
    left_out = [_left_out(count - len(names), *words) for count, *words in counts if count > len(names)]
    pictures, masks_of_them = (_listed(folder.resolve(), files, names) for files in (found, truths))
    return pictures, masks_of_them, tuple(left_out)


def _listed(root: Path, files: Mapping[str, str], names: Sequence[str]) -> FileList:
    return FileList(Entry(_id(root, files[name]), files[name], UNLABELLED) for name in names)


def _left_out(count: int, kind: str, missing: str) -> str:
    several = f"{count:,} {kind}s that have no {missing} are" if count > 1 else f"1 {kind} that has no {missing} is"
    return f"{several} left out"


def _id(root: Path, file: str) -> str:
    return readable(file.removeprefix(f"{str(root).rstrip('/')}/"))


def _some(names: Mapping[str, str]) -> str:
    return first_few([repr(readable(name)) for name in sorted(names)], _SHOWN) or "nothing"


def _by_name(folder: Path, option: str, kinds: Kinds, which: str) -> dict[str, str]:
    """Files by the name that an image and its mask have in common."""
    root = folder.resolve()
    before, star, after = option.partition("*")
    if "*" in after:
        raise DatasetError(f"The option {which} has more than one *.", hint="One * stands for the whole name.")
    # What stands before the last slash is a folder; the rest is how names begin.
    place, _, start = before.rpartition("/") if star else (option, "", "")
    base = _inside(root, place, which)
    if not base.is_dir():
        raise DatasetError(f"There is no folder {base}.", hint=f"Say with the option {which} where they are.")
    found: dict[str, str] = {}
    for path in files_under(base, kinds):
        name = path.relative_to(base).as_posix()
        if star:
            if not (name.startswith(start) and name.endswith(after) and len(name) > len(start) + len(after)):
                continue
            key = name[len(start) : len(name) - len(after)]
        else:
            key = name.removesuffix(path.suffix)
        if key in found:
            raise DatasetError(
                f"{base} has two files called {readable(key)!r}: {Path(found[key]).suffix} and {path.suffix}.",
                hint="Remove one of them, or name the suffix: images=images/*.jpg",
            )
        found[key] = str(path)
    return found


def _inside(folder: Path, name: str, option: str) -> Path:
    """A place inside the folder, with links followed."""
    root = folder.resolve()
    try:
        place = (root / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise DatasetError(f"The option {option} names {name[:200]!r}, which leads nowhere.") from error
    if not place.is_relative_to(root):
        raise DatasetError(
            f"The option {option} names {name[:200]!r}, which lies outside the folder.",
            hint=f"Give a folder that holds both, with the options images and masks: masks:{root.parent}?images=…",
        )
    return place
