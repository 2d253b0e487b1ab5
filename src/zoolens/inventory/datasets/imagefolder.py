"""Images in a folder: one sub-folder per class, or a labels.csv beside the files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_bytes
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_indices, class_names
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.encoded_images import EncodedImages, keeps_gray
from zoolens.inventory.datasets.file_list import FileList
from zoolens.inventory.datasets.images import OTHER_SUFFIXES, SUFFIXES
from zoolens.inventory.datasets.judged_samples import JudgedSamples, read_text_table
from zoolens.inventory.datasets.labelled_files import Entry, Kinds, file_digest, files_under, readable, table_rows
from zoolens.inventory.datasets.several_labels import SeveralLabels, read_label_table

LABELS: Final = "labels.csv"
MAX_ENCODED: Final = 1 << 28  # bytes of an image file
_IMAGES: Final = Kinds(SUFFIXES, OTHER_SUFFIXES)
_LOOSE: Final = ""  # among counts by suffix: pictures in no class folder
SPLITS: Final = frozenset(
    ("train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "holdout")
)


class ImageFolder(EncodedImages):
    """An index of files and labels; pixels are decoded when a sample is read."""

    encoded = True

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        name: str,
        classes: tuple[str, ...] | None,
        alphabetical: bool = False,
        keep_gray: bool = False,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(keep_gray=keep_gray)
        self.name, self.notes = name, notes
        self.classes = classes
        self.alphabetical = alphabetical
        self._entries = entries if isinstance(entries, FileList) else FileList(entries)
        self._fingerprint: str | None = None
        check_labels(name, self._entries.labels, classes)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, index: int) -> Sample:
        entry = self._entries[index]
        return Sample(entry.id, self._pixels(entry.file, readable(entry.file)), entry.label)

    def read_encoded(self, index: int) -> bytes | None:
        file = self._entries[index].file
        try:
            return read_bytes(file, MAX_ENCODED)
        except OSError as error:
            raise DatasetError(f"{readable(file)} cannot be read: {error.strerror or error}.") from error

    def labels(self) -> NDArray[np.int64]:
        return self._entries.labels.copy()

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(b"gray;" if self._keep_gray else b"rgb;")
            for entry in self._entries:
                digest.update(f"{file_digest(entry.file)} {entry.label};".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def open_image_folder(
    location: str,
    *,
    labels: str | None = None,
    classes: str | None = None,
    gray: str = "rgb",
    present: str | None = None,
    text: str | None = None,
) -> Dataset:
    """Class sub-folders, or a folder with labels.csv (columns file and label).

    labels: another name of the CSV file. classes: a file with class names, or the names with commas between them.
    gray: "rgb" makes grey images RGB, "keep" leaves them with one channel.
    present: instead of labels, a CSV file with the column file and one for each label, for task: multilabel. A cell is
    1 where the label applies, 0 where it does not, and empty where nobody said.
    text: instead of labels, a table in the folder with the columns file and text (.csv, .tsv, .jsonl; or a .txt whose
    lines are a file, a tab and its text), for task: text-recognition.
    """
    folder = Path(location).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"There is no folder {folder}.", hint="Give a folder of images.")
    keep_gray = keeps_gray(gray)
    if sum(option is not None for option in (labels, present, text)) > 1:
        raise DatasetError("Give one of labels, present and text: a sample is judged in one way.")
    if classes is not None and (present is not None or text is not None):
        raise DatasetError("classes names those of labels; present and text have none.", hint="Leave classes= out.")
    if text is not None:
        entries, truths = read_text_table(folder, text)
        name = readable(folder.resolve().name)
        return JudgedSamples(ImageFolder(entries, name=name, classes=None, keep_gray=keep_gray), truths)
    if present is not None:
        return _with_several_labels(folder, present, keep_gray=keep_gray)
    names = class_names(classes, folder, NAMES)
    table = folder / (labels or LABELS)
    left_out: Counter[str] = Counter()
    if table.is_file():
        entries, class_words = _from_table(folder, table, names)
    elif labels:
        raise DatasetError(f"There is no labels file {table}.", hint="Its columns are file and label.")
    else:
        entries, class_words = _from_subfolders(folder, names, left_out)
    return ImageFolder(
        entries,
        name=readable(folder.resolve().name),
        classes=class_words,
        alphabetical=names is None and class_words is not None,
        keep_gray=keep_gray,
        notes=tuple(_said_of(left_out)),
    )


def _with_several_labels(folder: Path, file: str, *, keep_gray: bool) -> Dataset:
    entries, present, names = read_label_table(folder, folder / file)
    name = readable(folder.resolve().name)
    return SeveralLabels(ImageFolder(entries, name=name, classes=None, keep_gray=keep_gray), present, names)


def _said_of(left_out: Counter[str]) -> Iterator[str]:
    if loose := left_out.pop(_LOOSE, 0):
        lie, are = ("pictures that lie", "are") if loose > 1 else ("picture that lies", "is")
        yield f"{loose:,} {lie} beside the folders of classes {are} left out"
    if left_out:
        kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(left_out.items()))
        yield f"pictures of kinds that are not read are left out: {kinds}"


def images_under(
    folder: Path, numbers: Iterator[int] | None = None, left_out: Counter[str] | None = None
) -> Iterator[Path]:
    """Image files at any depth. `left_out`: counts pictures of kinds that are not read, by suffix."""
    return files_under(folder, _IMAGES, numbers, left_out)


def _from_subfolders(
    folder: Path, names: tuple[str, ...] | None, left_out: Counter[str]
) -> tuple[list[Entry], tuple[str, ...] | None]:
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    flat = list(images_under(folder, left_out=left_out)) if not subfolders else []
    # No labels: enough to compare models with each other.
    if flat:
        return [Entry(readable(path.name), str(path), UNLABELLED) for path in flat], None
    if not subfolders:
        raise DatasetError(
            f"{folder} has no class sub-folders and no {LABELS}.",
            hint=f"Sort the images into one folder per class, or add {LABELS} with the columns file and label.",
        )
    _refuse_splits(folder, subfolders)
    left_out[_LOOSE] = sum(path.suffix.lower() in SUFFIXES for path in folder.iterdir() if path.name[:1] != ".")
    indices, names = class_indices([readable(path.name) for path in subfolders], names, str(folder))
    numbers = count(1)
    entries = [
        Entry(readable(path.relative_to(folder).as_posix()), str(path), indices[readable(subfolder.name)])
        for subfolder in subfolders
        for path in images_under(subfolder, numbers, left_out)
    ]
    if not entries:
        raise DatasetError(
            f"{folder} and its sub-folders hold no images.", hint=f"Known: {', '.join(sorted(SUFFIXES))}."
        )
    return entries, names


def _refuse_splits(folder: Path, subfolders: Sequence[Path]) -> None:
    """Refuses folders such as train and val, which are splits and not classes."""
    named = all(path.name.casefold() in SPLITS for path in subfolders)
    if named and any(below.is_dir() for path in subfolders for below in path.iterdir()):
        splits = ", ".join(path.name for path in subfolders)
        raise DatasetError(
            f"{folder} holds splits of a dataset ({splits}), not classes.", hint=f"Give one: {subfolders[-1]}."
        )


def _from_table(folder: Path, table: Path, names: tuple[str, ...] | None) -> tuple[list[Entry], tuple[str, ...] | None]:
    rows = list(table_rows(folder, table, SUFFIXES))
    if not rows:
        raise DatasetError(f"{table} lists no images.", hint="Its columns are file and label.")
    indices, names = class_indices(sorted({row.label for row in rows}), names, str(table))
    return [Entry(row.file, str(row.path), indices[row.label]) for row in rows], names
