"""CIFAR-10 in its original binary form: records of one label byte and 3 × 32 × 32 bytes of planar RGB."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.datasets.arrays import content_digest, file_bytes
from zoolens.inventory.datasets.classes import check_labels, class_names
from zoolens.inventory.datasets.dataset import Dataset, Rows, Sample

RECORD: Final = 1 + 3 * 32 * 32
CLASSES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PATTERNS: Final = {"test": "test_batch*", "train": "data_batch*"}


class Cifar10(Dataset):
    def __init__(self, files: Sequence[Path], *, name: str = "cifar10", classes: tuple[str, ...] = CLASSES) -> None:
        self.name = name
        self.classes = classes
        self._parts = [_records(path) for path in files]
        self._starts = list(accumulate(map(len, self._parts[:-1]), initial=0))
        self._labels = np.concatenate([part[:, 0] for part in self._parts]).astype(np.int64)
        self._label_list: list[int] = self._labels.tolist()
        self._fingerprint: str | None = None
        check_labels(name, self._label_list, classes)

    def __len__(self) -> int:
        return len(self._label_list)

    def read(self, index: int) -> Sample:
        label = self._label_list[index]
        planes = self._record(index)[1:].reshape(3, 32, 32)
        return Sample(str(index), planes.transpose(1, 2, 0), label)

    def _record(self, index: int) -> NDArray[np.uint8]:
        part = bisect_right(self._starts, index) - 1
        record: NDArray[np.uint8] = self._parts[part][index - self._starts[part]]
        return record

    def read_rows(self, indices: NDArray[np.int64]) -> Rows:
        places = indices.tolist()
        if len(self._parts) == 1:
            records = self._parts[0][indices]
        else:
            records = np.array([self._record(index) for index in places], np.uint8).reshape(-1, RECORD)
        values = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return Rows(tuple(map(str, places)), values, self._labels[indices])

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = content_digest([part[:, 1:] for part in self._parts], self._labels)
        return self._fingerprint


def open_cifar10(location: str, *, split: str = "test", classes: str | None = None) -> Dataset:
    """A .bin or .bin.gz file, or the folder that holds test_batch*.bin. split: test or train.

    classes: a file with class names, or the names with commas between them.
    """
    place = Path(location).expanduser()
    if split not in _PATTERNS:
        raise DatasetError(f"There is no split {split!r}.", hint="Choose test or train.")
    files = find_batches(place, split) if place.is_dir() else [place]
    folder = place if place.is_dir() else place.parent
    names = class_names(classes, folder, ("batches.meta.txt",)) or CLASSES
    return Cifar10(files, name="cifar10" if split == "test" else "cifar10-train", classes=names)


def find_batches(folder: Path, split: str = "test") -> list[Path]:
    """The binary batches of a split; a folder with Python's pickled ones only is refused."""
    batches = sorted(folder.glob(_PATTERNS[split]))
    binary = [path for path in batches if path.name.endswith((".bin", ".bin.gz"))]
    if binary:
        return binary
    for path in batches:
        _refuse_pickle(path)
    raise DatasetError(
        f"{folder} has no {_PATTERNS[split]}.bin files.", hint="Give the folder cifar-10-batches-bin or one .bin file."
    )


def _refuse_pickle(path: Path) -> None:
    with open_regular(path) as file:
        if file.read(1) == b"\x80":
            raise DatasetError(
                f"{path} is a Python pickle, which can run code when it is opened.",
                hint="Use the binary version of CIFAR-10 (cifar-10-binary.tar.gz).",
            )


def _records(path: Path) -> NDArray[np.uint8]:
    if not path.is_file():
        raise DatasetError(f"There is no file {path}.", hint="Give a .bin or .bin.gz file, or its folder.")
    data = file_bytes(path)
    if len(data) == 0 or len(data) % RECORD:
        _refuse_pickle(path)
        raise DatasetError(
            f"{path} is not in CIFAR-10's binary form: {len(data):,} bytes is not a multiple of {RECORD}.",
            hint="It is truncated, or of another format.",
        )
    return data.reshape(-1, RECORD)
