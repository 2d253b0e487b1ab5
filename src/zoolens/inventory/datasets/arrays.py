"""Datasets whose samples are rows of one array, in memory or mapped from a file, and how such files are read."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.datasets.classes import are_whole
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Rows, Sample
from zoolens.inventory.datasets.truth import Truth

MAX_UNPACKED: Final = 1 << 30  # what a compressed file may occupy in memory; plain files are mapped and have no limit
MAX_SAMPLES: Final = 1 << 24  # labels are held in memory; the largest set of images that is evaluated has 14 million
_CHUNK: Final = 1 << 24
_GZIP_MAGIC: Final = b"\x1f\x8b"


class ArrayDataset(Dataset):
    """Row i of `values` is sample i. Images are N × height × width × channels."""

    def __init__(
        self, values: NDArray[Any], labels: NDArray[Any], *, name: str, classes: tuple[str, ...] | None = None
    ) -> None:
        if len(values) != len(labels):
            raise DatasetError(
                f"Dataset {name} has {len(values):,} inputs but {len(labels):,} labels.",
                hint="Do the two come from the same split?",
            )
        check_samples(name, len(labels))
        if labels.dtype.kind not in "biu" and not (labels.dtype.kind == "f" and are_whole(labels)):
            raise DatasetError(
                f"The labels of dataset {name} are {labels.dtype}, not integer class indices.",
                hint="Round them if they are classes; leave regression targets out.",
            )
        self.name = name
        self.classes = classes
        self._values = values
        self._labels = labels.astype(np.int64)
        self._label_list: list[int] = self._labels.tolist()
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, index: int) -> Sample:
        return Sample(str(index), self._values[index], self._label_list[index])

    def read_rows(self, indices: NDArray[np.int64]) -> Rows:
        return Rows(tuple(map(str, indices.tolist())), self._values[indices], self._labels[indices])

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = content_digest([self._values], self._labels)
        return self._fingerprint


class ValueDataset(ArrayDataset):
    """Row i of `truths` has the true numbers of sample i."""

    truth_kind = "value"

    def __init__(self, values: NDArray[Any], truths: NDArray[Any], *, name: str) -> None:
        if len(values) != len(truths):
            raise DatasetError(f"Dataset {name} has {len(values):,} inputs but {len(truths):,} true values.")
        if truths.dtype.kind not in "fiu":
            raise DatasetError(f"The true values of dataset {name} are {truths.dtype}, not numbers.")
        numbers = np.asarray(truths, np.float64).reshape(len(truths), -1)
        if not np.isfinite(numbers).all():
            raise DatasetError(
                f"A true value of dataset {name} is NaN or infinite.", hint="Complete it, or leave the sample out."
            )
        super().__init__(values, np.full(len(values), UNLABELLED), name=name)
        self._truths = numbers

    def truth(self, index: int) -> Truth:
        return Truth("value", {"value": self._truths[index]})

    def fingerprint(self) -> str:
        return content_digest([self._values, self._truths], self._labels)


def check_samples(name: str, count: int) -> None:
    if count > MAX_SAMPLES:
        raise DatasetError(
            f"Dataset {name} has {count:,} samples, more than the {MAX_SAMPLES:,} that are evaluated.",
            hint="Write a part of it into a file of its own.",
        )


def content_digest(parts: list[NDArray[Any]], labels: NDArray[np.int64]) -> str:
    """SHA-256 of what the arrays hold, however their file packs it; a few megabytes at a time."""
    digest = hashlib.sha256()
    for part in parts:
        # A record: with the names of its fields, which its short description leaves out.
        kind = part.dtype.str if part.dtype.names is None else part.dtype.descr
        digest.update(f"{kind} {part.shape[1:]};".encode())
        rows = max(1, _CHUNK // max(1, part[:1].nbytes))
        for start in range(0, len(part), rows):
            content = np.ascontiguousarray(part[start : start + rows])
            digest.update(content.data if part.dtype.names is None else content.tobytes())
    digest.update(b"labels")
    digest.update(np.ascontiguousarray(labels, dtype="<i8").data)
    return digest.hexdigest()


def file_bytes(path: Path, limit: int = MAX_UNPACKED) -> NDArray[np.uint8]:
    """A file as an array of bytes: mapped where it is plain, unpacked into memory where it is gzip."""
    try:
        with open_regular(path) as file:
            if file.read(2) == _GZIP_MAGIC:
                file.seek(0)
                return _gunzip(path, file, limit)
            if file.seek(0, 2) == 0:
                return np.empty(0, np.uint8)
            # Rows of a plain view cost a tenth of a memmap's.
            return np.asarray(np.memmap(file, np.uint8, mode="r"))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DatasetError(
            f"{path} cannot be read: {reason}.", hint="Check that the file is complete and readable."
        ) from error


def _gunzip(path: Path, packed: BinaryIO, limit: int) -> NDArray[np.uint8]:
    with gzip.open(packed) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise DatasetError(
            f"{path} unpacks to more than {limit:,} bytes.", hint="Unpack it (gunzip): plain files are read in place."
        )
    return np.frombuffer(data, np.uint8)
