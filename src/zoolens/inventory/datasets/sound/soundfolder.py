"""Sounds in a folder: classes by sub-folder, by file name or by a CSV file, or times of activity in RTTM files."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_bytes
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_indices, class_names
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.judged_samples import JudgedSamples, read_text_table
from zoolens.inventory.datasets.labelled_files import Kinds, file_digest, files_under, readable, table_rows
from zoolens.inventory.datasets.sound.decoding import SUFFIXES, decode_sound
from zoolens.inventory.datasets.sound.rttm import Intervals, read_rttm
from zoolens.inventory.datasets.sound.waveform import to_record
from zoolens.inventory.datasets.truth import Truth

LABELS: Final = "labels.csv"
BESIDE: Final = "beside"  # the option rttm: each recording has an RTTM file of its name beside it
MAX_ENCODED: Final = 1 << 29  # bytes of a sound file: as many samples as are decoded, with 8 bytes each
# Sounds of other kinds: whoever leaves them out of a dataset has to say so.
OTHER_SUFFIXES: Final = frozenset({".m4a", ".aac", ".wma", ".aiff", ".aif", ".amr", ".au", ".sph", ".raw", ".pcm"})
_SOUNDS: Final = Kinds(SUFFIXES, OTHER_SUFFIXES)
_LOOSE: Final = "beside the folders of classes"
_WITHOUT_TURNS: Final = "without turns in an RTTM file"
_WHOLE: Final = np.array([[0.0, np.inf]])  # of a sound that is active at some moment


@dataclass(frozen=True)
class SoundEntry:
    """One file. `label`: a word; None: nothing says what it is. `intervals`: when it is active, as RTTM files say."""

    id: str
    path: Path
    label: str | None = None
    intervals: Intervals | None = None


class SoundFolder(Dataset):
    """An index of files; samples are decoded as they are read, and each keeps the rate of its own file."""

    def __init__(
        self,
        entries: Sequence[SoundEntry],
        labels: Sequence[int],
        *,
        name: str,
        classes: tuple[str, ...] | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        check_labels(name, labels, classes)
        self.name, self.classes, self.notes = name, classes, notes
        self._entries = tuple(entries)
        self._labels = np.array(labels, np.int64)
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, index: int) -> Sample:
        entry = self._entries[index]
        name = readable(str(entry.path))
        try:
            content = read_bytes(entry.path, MAX_ENCODED)
        except OSError as error:
            raise DatasetError(
                f"{name} cannot be read: {error.strerror or error}.", hint="Was it moved or removed?"
            ) from error
        return Sample(entry.id, to_record(decode_sound(content, name)), int(self._labels[index]))

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(b"sounds;")
            for place, entry in enumerate(self._entries):
                digest.update(f"{file_digest(entry.path)} {self._labels[place]};".encode())
                digest.update(self._truth_bytes(place))
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def _truth_bytes(self, index: int) -> bytes:
        return b""


class ActivityFolder(SoundFolder):
    """Sounds with the times at which somebody speaks, or where it is only known whether anybody does."""

    truth_kind = "activity"

    def __init__(
        self, entries: Sequence[SoundEntry], active: frozenset[str], *, name: str, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(entries, [UNLABELLED] * len(entries), name=name, notes=notes)
        self._active = active

    def truth(self, index: int) -> Truth:
        entry = self._entries[index]
        if entry.intervals is not None:
            return Truth("activity", {"intervals": entry.intervals, "timed": np.array([True])})
        intervals = _WHOLE if entry.label in self._active else np.zeros((0, 2))
        return Truth("activity", {"intervals": intervals, "timed": np.array([False])})

    def _truth_bytes(self, index: int) -> bytes:
        truth = self.truth(index)
        return truth["timed"].tobytes() + truth["intervals"].astype("<f8").tobytes() + b";"


def open_sounds(
    location: str,
    *,
    labels: str | None = None,
    pattern: str | None = None,
    classes: str | None = None,
    rttm: str | None = None,
    active: str | None = None,
    text: str | None = None,
) -> Dataset:
    """A folder with one sub-folder per class, or one file.

    labels: a CSV file with the columns file and label (labels.csv is found by itself). pattern: where the class stands
    in the name of a file, as {label}_*. classes: a file with class names, or the names with commas between them.
    rttm: "beside", or an RTTM file in the folder that has the times of all recordings. active: the classes in which
    somebody speaks at some moment, with commas between them; for voice activity without times.
    text: a table in the folder with the columns file and text, of what is said, for task: text-recognition.
    """
    place = Path(location).expanduser()
    folder = place.parent if is_file(place) else place
    if not folder.is_dir():
        raise DatasetError(f"There is no folder {folder}.", hint="Give a folder of sounds.")
    if sum(option is not None for option in (labels, pattern, rttm, text)) > 1:
        raise DatasetError("labels, pattern, rttm and text each say what is right.", hint="Give one of them.")
    if text is not None and active is not None:
        raise DatasetError("active is for voice activity, and text for what is said.", hint="Give one of them.")
    if classes is not None and any(option is not None for option in (text, rttm, active)):
        raise DatasetError("classes names those of labels; text, rttm and active have none.", hint="Leave it out.")
    if text is not None:
        return _with_texts(folder, text)
    left_out: Counter[str] = Counter()
    entries = list(_entries(folder, place, labels, pattern, rttm, left_out))
    if not entries:
        raise DatasetError(f"{place} holds no sounds.", hint=f"Known: {', '.join(sorted(SUFFIXES))}.")
    name, notes = readable(place.resolve().stem), tuple(_said_of(left_out))
    if active is not None or rttm is not None:
        return ActivityFolder(entries, _active_classes(active, entries), name=name, notes=notes)
    words = {entry.label for entry in entries if entry.label is not None}
    if not words:
        return SoundFolder(entries, [UNLABELLED] * len(entries), name=name, notes=notes)
    names = class_names(classes, folder, NAMES)
    indices, known = class_indices(sorted(words), names, str(place))
    numbers = [indices[entry.label] for entry in entries if entry.label is not None]
    dataset = SoundFolder(entries, numbers, name=name, classes=known, notes=notes)
    dataset.alphabetical = names is None and known is not None
    return dataset


def _with_texts(folder: Path, table: str) -> Dataset:
    listed, truths = read_text_table(folder, table)
    entries = [SoundEntry(entry.id, Path(entry.file)) for entry in listed]
    name = readable(folder.resolve().name)
    return JudgedSamples(SoundFolder(entries, [UNLABELLED] * len(entries), name=name), truths)


def sounds_under(folder: Path, left_out: Counter[str] | None = None) -> Iterator[Path]:
    """Sound files at any depth. `left_out`: counts sounds of kinds that are not read, by suffix."""
    return files_under(folder, _SOUNDS, left_out=left_out)


def _entries(
    folder: Path, place: Path, labels: str | None, pattern: str | None, rttm: str | None, left_out: Counter[str]
) -> Iterator[SoundEntry]:
    paths = sounds_under(place, left_out) if place.is_dir() else iter([place])
    table = folder / (labels or LABELS)
    if labels is not None and not is_file(table):
        raise DatasetError(f"There is no labels file {table}.", hint="Its columns are file and label.")
    if rttm is not None:
        yield from _timed(folder, paths, rttm, left_out)
    elif pattern is not None:
        expression = _compiled(pattern)
        for path in paths:
            yield SoundEntry(_id(path, folder), path, _label_in_name(path, expression, pattern))
    elif is_file(table) and place.is_dir():
        for row in table_rows(folder, table, SUFFIXES):
            yield SoundEntry(row.file, row.path, row.label)
    else:
        yield from _from_subfolders(folder, list(paths), left_out)


def _from_subfolders(folder: Path, paths: Sequence[Path], left_out: Counter[str]) -> Iterator[SoundEntry]:
    """The first folder on the way to a file is its class. Sounds in no such folder are left out beside some that are,
    and unlabelled where all are."""
    flat = all(path.parent == folder for path in paths)
    for path in paths:
        if flat:
            yield SoundEntry(_id(path, folder), path)
        elif path.parent == folder:
            left_out[_LOOSE] += 1
        else:
            yield SoundEntry(_id(path, folder), path, readable(path.relative_to(folder).parts[0]))


def _timed(folder: Path, paths: Iterator[Path], rttm: str, left_out: Counter[str]) -> Iterator[SoundEntry]:
    shared = None if rttm == BESIDE else read_rttm(_inside(folder, rttm))
    for path in paths:
        turns = _only_recording(path.with_suffix(".rttm")) if shared is None else shared.get(path.stem)
        if turns is None:
            left_out[_WITHOUT_TURNS] += 1
        else:
            yield SoundEntry(_id(path, folder), path, intervals=turns)


def _only_recording(path: Path) -> Intervals | None:
    """The turns in a file about one recording; None: there is no such file."""
    if not is_file(path):
        return None
    turns = read_rttm(path)
    if len(turns) > 1:
        listed = ", ".join(sorted(turns))[:200]
        raise DatasetError(f"{path} is about several recordings: {listed}.", hint="Name it: rttm=FILE.")
    return next(iter(turns.values()))


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise DatasetError(f"The RTTM file {name[:200]!r} lies outside the folder.", hint="Put it beside the sounds.")
    return path


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of file names: {label} is the class, * anything; as few letters as possible for each."""
    if pattern.count("{label}") != 1:
        raise DatasetError(
            f"The pattern {pattern[:80]!r} must say once where the class stands.", hint="Such as pattern={label}_*."
        )
    parts = re.split(r"(\{label\}|\*)", pattern)
    replaced = {"{label}": "(.+?)", "*": ".*?"}
    return re.compile("".join(replaced.get(part) or re.escape(part) for part in parts))


def _label_in_name(path: Path, expression: re.Pattern[str], pattern: str) -> str:
    """The class in a file's name; a pattern may be about the name with its suffix or without it."""
    name = readable(path.name)
    found = expression.fullmatch(name) or expression.fullmatch(readable(path.stem))
    if found is None:
        raise DatasetError(
            f"The name {name} does not fit the pattern {pattern[:80]!r}.",
            hint="Correct the pattern, or rename the file.",
        )
    return found.group(1)


def _active_classes(active: str | None, entries: Sequence[SoundEntry]) -> frozenset[str]:
    if active is None:
        return frozenset()
    words = {entry.label for entry in entries}
    chosen = frozenset(word.strip() for word in active.split(","))
    if None in words:
        raise DatasetError(
            "active names classes, but the sounds have none.", hint="Give labels=… or pattern=…, or sort them."
        )
    if unknown := sorted(chosen - {word for word in words if word is not None}):
        known = ", ".join(sorted(word for word in words if word is not None))[:200]
        raise DatasetError(f"There is no class {unknown[0][:80]!r} among the sounds.", hint=f"They have {known}.")
    return chosen


def _id(path: Path, folder: Path) -> str:
    return readable(path.relative_to(folder).as_posix())


def _said_of(left_out: Counter[str]) -> Iterator[str]:
    if loose := left_out.pop(_LOOSE, 0):
        yield f"{_sounds(loose)} that {'lies' if loose == 1 else 'lie'} {_LOOSE} {_are(loose)} left out"
    if unknown := left_out.pop(_WITHOUT_TURNS, 0):
        yield f"{_sounds(unknown)} {_WITHOUT_TURNS} {_are(unknown)} left out"
    if left_out:
        listed = ", ".join(f"{number:,} {suffix}" for suffix, number in sorted(left_out.items()))
        yield f"sounds of kinds that are not read are left out: {listed}"


def _sounds(number: int) -> str:
    return f"{number:,} {'sound' if number == 1 else 'sounds'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
