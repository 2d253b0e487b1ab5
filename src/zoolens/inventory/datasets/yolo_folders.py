"""Where the pictures of a YOLO dataset lie, and how its classes are called: data.yaml, or the usual folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.datasets.classes import NAMES, class_names
from zoolens.inventory.datasets.imagefolder import images_under
from zoolens.inventory.datasets.labelled_files import readable
from zoolens.inventory.datasets.picture_names import locate_pictures, name_parts
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree

_YAML: Final = ("data.yaml", "data.yml", "dataset.yaml")
_SPLITS: Final = ("val", "valid", "validation", "test", "train")
_MAX_YAML: Final = 1 << 22
_MAX_LIST: Final = 1 << 28
_MOST_POINTS: Final = 10_000


@dataclass(frozen=True)
class YoloFolders:
    """`places`: folders of pictures, or text files that list them, all below `root`. `key_points`: how many numbers
    follow a box on each line; None: none, and lines may be polygons."""

    name: str
    root: Path
    places: tuple[Path, ...]
    classes: tuple[str, ...] | None
    key_points: int | None = None
    notes: tuple[str, ...] = ()

    def pictures(self) -> Iterator[Path]:
        found = 0
        for place in self.places:
            for path in images_under(place) if place.is_dir() else self._listed(place):
                found += 1
                yield path
        if not found:
            raise DatasetError(f"{', '.join(map(str, self.places))} holds no pictures.")

    def _listed(self, listed: Path) -> Iterator[Path]:
        lines = _text(listed, _MAX_LIST).split("\n")
        names = [line.strip() for line in lines if line.strip()]
        files, _ = locate_pictures(names, self.root)
        for name, file in zip(names, files, strict=True):
            if file is None:
                raise DatasetError(
                    f"{listed} lists {name[:200]!r}, which is not in {self.root}.", hint="Fetch it, or remove the line."
                )
            yield self.root / file
        if len(set(files)) < len(files):
            raise DatasetError(f"{listed} lists a picture twice.", hint="Remove one of the lines.")


def find_folders(place: Path, split: str | None, classes: str | None, root: str | None) -> YoloFolders:
    if is_file(place):
        return _from_yaml(place, split, classes, root)
    if not place.is_dir():
        raise DatasetError(f"There is no folder {place}.", hint="Give a data.yaml, or the folder that it lies in.")
    found = next((place / name for name in _YAML if is_file(place / name)), None)
    if found is None and len(others := sorted(place.glob("*.y*ml"))) == 1:
        found = others[0]
    if found is not None:
        return _from_yaml(found, split, classes, root)
    return _from_folders(place, split, class_names(classes, place, NAMES))


def _from_folders(place: Path, split: str | None, classes: tuple[str, ...] | None) -> YoloFolders:
    """images/SPLIT beside labels/SPLIT, or SPLIT/images beside SPLIT/labels, or images beside labels."""
    name = readable(place.resolve().name)
    there = {
        found.relative_to(place).as_posix().replace("images", "").strip("/"): found
        for word in ("", *_SPLITS, *([split] if split and name_parts(split) == (split,) else []))
        for found in (place / "images" / word, place / word / "images")
        if found.is_dir() and (word or not any((found / other).is_dir() for other in _SPLITS))
    }
    if split is not None and split not in there:
        raise DatasetError(
            f"{place} has no split {split[:80]!r}.", hint=f"It has {', '.join(filter(None, there)) or 'no splits'}."
        )
    if not there:
        raise DatasetError(
            f"{place} has no data.yaml and no folder images.", hint="Labels lie in a folder labels beside images."
        )
    if split is None and len(there) > 1:
        raise DatasetError(f"{place} has the splits {', '.join(there)}.", hint="Say which: split=NAME.")
    chosen = split if split is not None else next(iter(there))
    return YoloFolders(f"{name} {chosen}".strip(), place, (there[chosen],), classes)


# --- data.yaml


def _from_yaml(path: Path, split: str | None, classes: str | None, root: str | None) -> YoloFolders:
    content = _content(path)
    name = split or next((name for name in _SPLITS if content.get(name)), "val")
    said = content.get(name)
    places = [said] if isinstance(said, str) else said
    if not isinstance(places, list) or not places or not all(isinstance(one, str) for one in places):
        known = ", ".join(word for word in content if isinstance(word, str) and word in _SPLITS)
        raise DatasetError(f"{path} names no pictures for {name[:80]!r}.", hint=f"It has the splits {known or 'none'}.")
    base = _base(path, content.get("path"), root)
    named = class_names(classes, path.parent) or _names(path, content)
    folders = tuple(_inside(path, base, one) for one in places)
    dataset = readable(path.stem if path.name not in _YAML else path.resolve().parent.name)
    points = _key_points(path, content.get("kpt_shape"))
    notes = ("key points are passed over: only the boxes are read",) if points is not None else ()
    return YoloFolders(f"{dataset} {name}", base, folders, named, points, notes)


def _content(path: Path) -> dict[Any, Any]:
    try:
        content = YamlTree(_text(path, _MAX_YAML)).value
    except YamlRefused as error:
        raise DatasetError(f"{path} line {error.line}: {error.what}.", hint="It is the data.yaml of YOLO.") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} is not a data.yaml: it has no names.", hint="It has names, and paths of pictures.")
    return content


def _text(path: Path, limit: int) -> str:
    try:
        return read_text(path, limit)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{path} cannot be read: {reason}.") from error


def _base(path: Path, said: Any, root: str | None) -> Path:
    """The folder that paths start from. One outside of data.yaml's own folder is believed of the user alone: in a
    downloaded file it is a place on another machine."""
    if root is not None:
        folder = Path(root).expanduser()
        if not folder.is_dir():
            raise DatasetError(f"There is no folder {root[:200]!r}.", hint="root= is the folder of the dataset.")
        return folder
    own = path.parent
    if isinstance(said, str) and said and (inside := _below(own, said)) is not None and inside.is_dir():
        return inside
    return own


def _below(base: Path, name: str) -> Path | None:
    """A path below a folder; None where it leads out of it, or nowhere."""
    try:
        path = (base / name).resolve()
        return base / name if path.is_relative_to(base.resolve()) else None
    except (OSError, ValueError, RuntimeError):
        return None


def _inside(path: Path, base: Path, name: str) -> Path:
    """The folder or list of a split. Paths of other machines, and those that begin with ../ though they mean the
    folder of data.yaml, are found by their last parts, of which there must be two: val alone may be anything."""
    parts = name_parts(name)
    candidates = [name, *("/".join(parts[start:]) for start in range(max(1, len(parts) - 1)))]
    for candidate in candidates:
        found = _below(base, candidate)
        if found is not None and candidate and (found.is_dir() or (found.suffix == ".txt" and is_file(found))):
            return found
    raise DatasetError(
        f"{path} names {name[:200]!r}, which is not in {base}.",
        hint="Fetch it, or say with root=FOLDER where the dataset lies.",
    )


def _names(path: Path, content: dict[Any, Any]) -> tuple[str, ...]:
    names = content.get("names")
    if isinstance(names, dict):
        numbers = [str(number) for number in names]
        if sorted(numbers) != sorted(map(str, range(len(numbers)))):
            raise DatasetError(f"{path} does not name every class from 0 on.", hint="Write names: {0: cat, 1: dog}.")
        by_number = dict(zip(map(int, numbers), names.values(), strict=True))
        names = [by_number[number] for number in range(len(by_number))]
    if not isinstance(names, list) or not names:
        raise DatasetError(f"{path} has no names of classes.", hint="Write names: [cat, dog], or give classes=….")
    _check_names(path, names)
    count = content.get("nc")
    if count is not None and count != len(names):
        raise DatasetError(
            f"{path} says nc: {str(count)[:40]}, but has {len(names)} names of classes.", hint="Which of them is right?"
        )
    return tuple(str(name).strip() for name in names)


def _check_names(path: Path, names: Sequence[Any]) -> None:
    for number, name in enumerate(names):
        # YAML takes no, off and yes for truth values.
        if isinstance(name, bool) or not isinstance(name, str | int | float):
            raise DatasetError(
                f"{path} has no text as the name of class {number}: YAML reads it as {str(name)[:40]!r}.",
                hint="Put names such as 'no' and 'on' in quotes.",
            )


def _key_points(path: Path, shape: Any) -> int | None:
    """How many numbers the key points of an object are."""
    if shape is None:
        return None
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(one) is int and one > 0 for one in shape):
        raise DatasetError(f"{path} has a kpt_shape that is not two numbers.", hint="Such as kpt_shape: [17, 3].")
    return int(min(shape[0] * shape[1], _MOST_POINTS))
