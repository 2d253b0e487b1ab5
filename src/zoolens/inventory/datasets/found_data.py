"""Datasets of pictures that lie in a folder, and why each is taken for one.

Labels are looked for in this order: annotation files (COCO, VOC, YOLO, masks), CSV tables that name pictures, folders
that are classes. Pictures without any are found too, as data without labels. Nothing is decided here where several fit:
whoever asks chooses.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.phrases import first_few
from zoolens.inventory.datasets.classes import NAMES
from zoolens.inventory.datasets.imagefolder import LABELS, SPLITS
from zoolens.inventory.datasets.images import SUFFIXES
from zoolens.inventory.datasets.labelled_files import MAX_FOLDERS
from zoolens.inventory.datasets.mask_folder import IMAGES, MASKS
from zoolens.inventory.datasets.opening import kind_by_annotations, open_dataset

_DEPTH: Final = 4  # folders below the one that is searched
_MOST_TABLES: Final = 20
_SNIFFED: Final = 1 << 14  # characters of a table that are looked at to see whether it names pictures
_NAMED: Final = 5  # classes that a sentence lists


@dataclass(frozen=True)
class FoundData:
    """`spec`: as --data takes it. `reason`: why it is taken for a dataset, as part of a sentence."""

    spec: str
    folder: Path
    reason: str
    labelled: bool = True


@dataclass(frozen=True)
class DataSearch:
    """`left_out`: what looked like labels, and why it is not taken."""

    found: tuple[FoundData, ...]
    left_out: tuple[str, ...] = ()


def find_data(root: Path) -> DataSearch:
    """The datasets of pictures at or below `root`; those without labels only where none has any."""
    pictures = _pictures(root)
    if not pictures:
        return DataSearch(())
    left_out: list[str] = []
    labelled = list(_annotated(root))
    labelled += _by_tables(root, _uncovered(pictures, labelled), left_out)
    labelled += _by_folders(_uncovered(pictures, labelled))
    if labelled:
        return DataSearch(tuple(labelled), tuple(left_out))
    return DataSearch(tuple(_unlabelled(pictures)), tuple(left_out))


def labelled_by(table: Path, root: Path) -> FoundData:
    """The pictures below `root` that a table of labels names; DatasetError where it fits none of their folders."""
    reasons: list[str] = []
    for place in _places_of(table, _pictures(root)):
        found = _with_table(place, table, reasons)
        if found is not None:
            return found
    raise DatasetError(
        f"{table} gives no labels of pictures below {root}: {reasons[-1] if reasons else 'there are none.'}",
        hint="Its columns are file and label; files are named from its own folder, or from the folder of the pictures.",
    )


def _folders(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Every folder that is not hidden and not too deep, with the names of its folders and files."""
    for count, (place, names, files) in enumerate(os.walk(root)):
        if count > MAX_FOLDERS:
            raise DatasetError(f"{root} has more than {MAX_FOLDERS:,} folders.", hint="Name a smaller one.")
        here = Path(place)
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield here, list(names), sorted(files)
        if len(here.relative_to(root).parts) >= _DEPTH:
            names.clear()


def _pictures(root: Path) -> dict[Path, int]:
    """How many pictures lie in each folder that has any."""
    counts = {}
    for place, _, files in _folders(root):
        count = sum(os.path.splitext(name)[1].lower() in SUFFIXES for name in files)  # noqa: PTH122 - Path is slow
        if count:
            counts[place] = count
    return counts


def _uncovered(pictures: Mapping[Path, int], found: Sequence[FoundData]) -> dict[Path, int]:
    return {
        place: count
        for place, count in pictures.items()
        if not any(place.is_relative_to(data.folder) for data in found)
    }


def _annotated(root: Path) -> Iterator[FoundData]:
    """Folders with annotations beside or around the pictures; what lies below one belongs to it."""
    taken: list[Path] = []
    for place, names, files in _folders(root):
        if any(place.is_relative_to(folder) for folder in taken):
            continue
        kind = kind_by_annotations(place, [*names, *files])
        if kind in ("coco", "voc", "yolo"):
            taken.append(place)
            yield FoundData(f"{kind}:{_shown(place)}", place, f"it has the files of annotations of {kind.upper()}")
        elif {IMAGES, MASKS} <= set(names):
            taken.append(place)
            yield FoundData(f"masks:{_shown(place)}", place, f"it has the folders {IMAGES} and {MASKS}")


def _by_tables(root: Path, pictures: Mapping[Path, int], left_out: list[str]) -> Iterator[FoundData]:
    for table in _tables(root):
        reasons: list[str] = []
        places = _places_of(table, pictures)
        found = next(filter(None, (_with_table(place, table, reasons) for place in places)), None)
        if found is not None:
            yield found
        elif reasons:
            left_out.append(f"{_shown(table)}: {reasons[0]}")


def _tables(root: Path) -> list[Path]:
    """CSV files whose first lines name pictures."""
    paths = (here / name for here, _, files in _folders(root) for name in files if name.lower().endswith(".csv"))
    return [path for path in paths if _names_pictures(path)][:_MOST_TABLES]


def _names_pictures(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            start = file.read(_SNIFFED)
        rows = list(csv.reader(start.splitlines()[:3]))
    except (OSError, csv.Error):
        return False
    return any(os.path.splitext(cell.strip())[1].lower() in SUFFIXES for row in rows for cell in row)  # noqa: PTH122


def _places_of(table: Path, pictures: Mapping[Path, int]) -> list[Path]:
    """The folders from which a table may name its pictures: its own, and those of the pictures."""
    return list(dict.fromkeys([table.parent, *pictures]))


def _with_table(place: Path, table: Path, reasons: list[str]) -> FoundData | None:
    own = table.parent == place and table.name == LABELS
    option = "" if own else f"?labels={quote(os.path.relpath(table, place))}"
    spec = f"imagefolder:{_shown(place)}{option}" if option else _shown(place)
    try:
        dataset = open_dataset(spec)
    except ZoolensError as error:
        reasons.append(error.message)
        return None
    return FoundData(spec, place, f"{_shown(table)} has labels of {len(dataset):,} pictures")


def _by_folders(pictures: Mapping[Path, int]) -> Iterator[FoundData]:
    """Folders whose sub-folders hold pictures, unless these are named like splits."""
    groups: dict[Path, list[Path]] = {}
    for place in pictures:
        groups.setdefault(place.parent, []).append(place)
    for parent, places in groups.items():
        names = sorted(place.name for place in places)
        if len(names) > 1 and not {name.casefold() for name in names} <= SPLITS:
            count = sum(pictures[place] for place in places)
            listed = next((name for name in NAMES if (parent / name).is_file()), None)
            order = f"in the order of {listed}" if listed else "in the order of the alphabet, which is a guess"
            reason = (
                f"{count:,} pictures in {len(names):,} folders are its classes, {order}: {first_few(names, _NAMED)}"
            )
            yield FoundData(_shown(parent), parent, reason)


def _unlabelled(pictures: Mapping[Path, int]) -> Iterator[FoundData]:
    for place, count in pictures.items():
        yield FoundData(
            _shown(place),
            place,
            f"{count:,} picture{'' if count == 1 else 's'} and nothing that labels them",
            labelled=False,
        )


def _shown(path: Path) -> str:
    """The path as a user in the working directory writes it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
