"""Datasets of pictures that lie in a folder, and why each is taken for one.

Labels are looked for in this order: annotation files (COCO, VOC, YOLO, masks), CSV tables that name pictures, folders
that are classes. Pictures without any are found too, as data without labels. Nothing is decided here where several fit:
whoever asks chooses.
"""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.paths import as_written, holds_software
from zoolens.base.phrases import first_few
from zoolens.base.safety.untrusted import is_file, open_regular
from zoolens.inventory.datasets.classes import NAMES
from zoolens.inventory.datasets.imagefolder import LABELS, SPLITS
from zoolens.inventory.datasets.images import OTHER_SUFFIXES, SUFFIXES
from zoolens.inventory.datasets.labelled_files import LABEL_COLUMNS, MAX_FOLDERS
from zoolens.inventory.datasets.mask_folder import IMAGES, MASKS
from zoolens.inventory.datasets.opening import kind_by_annotations, open_dataset, parse_spec

_COCO: Final = re.compile(r"instances_\w+\.json")
_DEPTH: Final = 4  # folders below the one that is searched
_MOST_TABLES: Final = 20
_SNIFFED: Final = 1 << 14  # bytes of a table that are looked at to see whether it names pictures
_NAMED: Final = 5  # classes that a sentence lists
_SAID: Final = 200  # characters of a table that a sentence repeats


@dataclass(frozen=True)
class FoundData:
    """`spec`: as --data takes it. `reason`: why it is taken for a dataset, as part of a sentence. `labelled`: whether
    anything says what is right."""

    spec: str
    folder: Path
    reason: str
    labelled: bool = True
    size: int = 0  # inputs; known once it was opened


@dataclass(frozen=True)
class DataSearch:
    """`left_out`: what looked like labels, and why it is not taken."""

    found: tuple[FoundData, ...]
    left_out: tuple[str, ...] = ()


def find_data(root: Path) -> DataSearch:
    """The datasets of pictures at or below `root`; those without labels only where none has any."""
    left_out: list[str] = []
    tree = _Tree(root, left_out)
    if not tree.pictures:
        return DataSearch((), (*left_out, *tree.unreadable_kinds()))
    labelled = list(_annotated(tree))
    labelled += _by_tables(tree, _uncovered(tree.pictures, labelled), left_out)
    labelled += _by_folders(tree, _uncovered(tree.pictures, labelled), left_out)
    if labelled:
        return DataSearch(tuple(labelled), tuple(left_out))
    return DataSearch(tuple(_unlabelled(tree.pictures)), tuple(left_out))


def labelled_by(table: Path, root: Path) -> FoundData:
    """The pictures below `root` that a table of labels names; DatasetError where it fits none of their folders, or
    several."""
    reasons: list[str] = []
    tree = _Tree(root, [])
    fitting = list(_with_table(_Table(table, _first_rows(table)), tree, tree.pictures, reasons))
    if not fitting:
        raise DatasetError(
            f"{table} gives no labels of pictures below {root}: {reasons[-1] if reasons else 'there are none.'}",
            hint="Its columns are file and label; files are named from its own folder, or from the folder of the "
            "pictures.",
        )
    if len(fitting) > 1:
        listed = ", ".join(as_written(found.folder) for found in fitting)
        raise DatasetError(
            f"{table} names pictures of {len(fitting)} folders ({listed}), and which are meant is for you to say.",
            hint=f"Name the folder: --data '{fitting[0].spec}'",
        )
    return fitting[0]


def named_by_user(spec: str) -> FoundData:
    """The data that a user named, of any kind."""
    _, location, _ = parse_spec(spec)
    return FoundData(spec, Path(location).expanduser().resolve(), "as --data says")


def opened_data(found: FoundData) -> FoundData:
    """Adds what only an open dataset tells. Data that cannot be read are an error here, before anything is done."""
    with closing(open_dataset(found.spec)) as dataset:
        labelled = dataset.labelled or dataset.truth_kind is not None
        return replace(found, labelled=labelled, size=len(dataset))


class _Tree:
    """Every folder at or below `root` that is not hidden, not too deep and holds no installed software, with the names
    of its folders and files. Links to folders are followed, as whoever opens a dataset follows them."""

    def __init__(self, root: Path, left_out: list[str]) -> None:
        self.root = root
        self.folders: dict[Path, tuple[list[str], list[str]]] = {}
        self._visited: set[tuple[int, int]] = set()
        self._left_out = left_out
        walk = os.walk(root, onerror=self._unreadable, followlinks=True)
        for place, names, files in walk:
            self._add(Path(place), names, files)
        self.pictures = self._count(SUFFIXES)

    def _add(self, here: Path, names: list[str], files: list[str]) -> None:
        status = here.stat()
        been_here = (status.st_dev, status.st_ino) in self._visited
        self._visited.add((status.st_dev, status.st_ino))
        if been_here or (here != self.root and holds_software(here.name, files)):
            names.clear()
            return
        if len(self.folders) >= MAX_FOLDERS:
            raise DatasetError(f"{self.root} has more than {MAX_FOLDERS:,} folders.", hint="Name a smaller one.")
        names[:] = sorted(name for name in names if not name.startswith("."))
        self.folders[here] = (list(names), sorted(name for name in files if not name.startswith(".")))
        if len(here.relative_to(self.root).parts) >= _DEPTH:
            names.clear()

    def _unreadable(self, error: OSError) -> None:
        self._left_out.append(f"{error.filename} cannot be read: {error.strerror}")

    def _count(self, suffixes: Collection[str]) -> dict[Path, int]:
        """How many files of these kinds lie in each folder that has any."""
        counts = {place: sum(_suffix(name) in suffixes for name in files) for place, (_, files) in self.folders.items()}
        return {place: count for place, count in counts.items() if count}

    def unreadable_kinds(self) -> Iterator[str]:
        """Pictures of kinds that are not decoded here."""
        for place, count in self._count(OTHER_SUFFIXES).items():
            kinds = sorted({_suffix(name) for name in self.folders[place][1]} & OTHER_SUFFIXES)
            yield f"{as_written(place)}: {count:,} pictures of kinds that are not read ({', '.join(kinds)})"


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - Path is slow


def _uncovered(pictures: Mapping[Path, int], found: Sequence[FoundData]) -> dict[Path, int]:
    return {
        place: count
        for place, count in pictures.items()
        if not any(place.is_relative_to(data.folder) for data in found)
    }


def _annotated(tree: _Tree) -> Iterator[FoundData]:
    """Folders with annotations beside or around the pictures; what lies below one belongs to it."""
    taken: list[Path] = []
    for place, (names, files) in tree.folders.items():
        if any(place.is_relative_to(folder) for folder in taken):
            continue
        kind = kind_by_annotations(place, [*names, *files])
        if kind in ("coco", "voc", "yolo"):
            taken.append(place)
            yield FoundData(f"{kind}:{as_written(place)}", place, f"it has the files of annotations of {kind.upper()}")
        elif {IMAGES, MASKS} <= set(names):
            taken.append(place)
            yield FoundData(f"masks:{as_written(place)}", place, f"it has the folders {IMAGES} and {MASKS}")
        elif boxes := next((name for name in files if _COCO.fullmatch(name)), None):
            taken.append(place)
            reason = f"{as_written(place / boxes)} is called as annotations of COCO are"
            yield FoundData(f"coco:{as_written(place / boxes)}", place, reason)


# --- tables


@dataclass(frozen=True)
class _Table:
    path: Path
    start: list[list[str]]  # its first rows

    @property
    def picture(self) -> str | None:
        """The first picture that it names."""
        cells = (cell.strip() for row in self.start for cell in row)
        return next((cell for cell in cells if _suffix(cell) in SUFFIXES), None)

    @property
    def doubt(self) -> str | None:
        """Why nothing says that it holds labels: its second column may as well hold predictions, or widths."""
        first = [cell.strip().lower() for cell in self.start[0]]
        if any(_suffix(cell) in SUFFIXES for cell in first):
            return None if len(first) == 2 else f"it has {len(first)} columns and no line that names them"
        if any(cell in LABEL_COLUMNS for cell in first):
            return None
        return f"its columns are {', '.join(first)[:_SAID]}, and none is called {', '.join(LABEL_COLUMNS)}"


def _by_tables(tree: _Tree, pictures: Mapping[Path, int], left_out: list[str]) -> Iterator[FoundData]:
    for table in _tables(tree):
        if table.doubt is not None:
            left_out.append(f"{as_written(table.path)}: {table.doubt}")
            continue
        reasons: list[str] = []
        fitting = list(_with_table(table, tree, pictures, reasons))
        yield from fitting
        if not fitting and reasons:
            left_out.append(f"{as_written(table.path)}: {reasons[0]}")


def _tables(tree: _Tree) -> list[_Table]:
    """CSV files whose first lines name pictures."""
    paths = (here / name for here, (_, files) in tree.folders.items() for name in files if _suffix(name) == ".csv")
    tables = (_Table(path, _first_rows(path)) for path in paths)
    return [table for table in tables if table.picture is not None][:_MOST_TABLES]


def _first_rows(path: Path) -> list[list[str]]:
    """The first lines of a table; none of what is no regular file, or cannot be read."""
    try:
        with open_regular(path) as file:
            start = file.read(_SNIFFED).decode("utf-8-sig", "replace")
        return list(csv.reader(start.splitlines()[:3]))
    except (OSError, csv.Error):
        return []


def _with_table(table: _Table, tree: _Tree, pictures: Mapping[Path, int], reasons: list[str]) -> Iterator[FoundData]:
    """The pictures that a table labels: once for each folder from which it may name them."""
    first, named = table.picture or "", set()
    for place in dict.fromkeys([table.path.parent, tree.root, *pictures, *_totals(tree.root, pictures)]):
        # Whole tables are read for those folders only that have the first picture.
        lies = next((path for path in (place / first, place / "images" / first) if is_file(path)), None)
        if lies is None or lies.resolve() in named:
            continue
        found = _opened_with(place, table.path, tree, reasons)
        if found is not None:
            named.add(lies.resolve())
            yield found
    if not named and not reasons:
        reasons.append(f"it names {first!r}, which lies in none of the folders")


def _opened_with(place: Path, table: Path, tree: _Tree, reasons: list[str]) -> FoundData | None:
    own = table.parent == place and table.name == LABELS
    option = "" if own else f"?labels={quote(os.path.relpath(table, place))}"
    spec = f"imagefolder:{as_written(place)}{option}" if option else as_written(place)
    try:
        labelled = len(open_dataset(spec))
    except ZoolensError as error:
        reasons.append(error.message)
        return None
    there = sum(count for folder, count in tree.pictures.items() if folder.is_relative_to(place))
    of = f" of {there:,}" if there > labelled else ""
    return FoundData(spec, place, f"{as_written(table)} has labels of {labelled:,}{of} pictures")


# --- folders


def _by_folders(tree: _Tree, pictures: Mapping[Path, int], left_out: list[str]) -> Iterator[FoundData]:
    """Folders whose sub-folders hold pictures, unless these are named like splits."""
    groups: dict[Path, list[str]] = {}
    for place in pictures:
        if place != tree.root:
            groups.setdefault(place.parent, []).append(place.name)
    totals = _totals(tree.root, pictures)
    for parent, direct in groups.items():
        if len(direct) < 2 or {name.casefold() for name in direct} <= SPLITS:
            continue
        names = tree.folders[parent][0]
        without = [name for name in names if not totals[parent / name]]
        if without:
            left_out.append(
                f"{as_written(parent)}: its folders would be its classes, and {first_few(without, _NAMED)} "
                f"{'has' if len(without) == 1 else 'have'} no pictures: put {first_few(sorted(direct), _NAMED)} into a "
                "folder of their own"
            )
            continue
        yield FoundData(
            as_written(parent), parent, _reason(parent, names, sum(totals[parent / name] for name in names))
        )


def _totals(root: Path, pictures: Mapping[Path, int]) -> Counter[Path]:
    """How many pictures lie in each folder and below it."""
    totals: Counter[Path] = Counter()
    for place, count in pictures.items():
        while place != root:
            totals[place] += count
            place = place.parent
    return totals


def _reason(parent: Path, names: Sequence[str], count: int) -> str:
    listed = next((name for name in NAMES if (parent / name).is_file()), None)
    if listed:
        order = f"in the order of {listed}"
    elif all(name.isdecimal() for name in names):
        order = "whose names are the numbers of the classes"
    else:
        order = "in the order of the alphabet, which is a guess unless the models name them"
    return f"{count:,} pictures in {len(names):,} folders are its classes, {order}: {first_few(names, _NAMED)}"


def _unlabelled(pictures: Mapping[Path, int]) -> Iterator[FoundData]:
    for place, count in pictures.items():
        yield FoundData(
            as_written(place),
            place,
            f"{count:,} picture{'' if count == 1 else 's'} and nothing that labels them",
            labelled=False,
        )
