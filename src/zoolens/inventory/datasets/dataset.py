"""The contract every dataset keeps: a fixed length, a fixed order, and one sample at a time.

A dataset never holds more than its index in memory: `read` fetches one sample, and may be called from several
threads at once. Its fingerprint depends on content (bytes, labels, order), never on paths or times. A plug-in
registers a function `open(location: str, **options) -> Dataset` under `zoolens.datasets`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.truth import Truth

NO_LABELS: Final = "none"  # in a dataset's options: there is nothing that tells what is right
UNLABELLED: Final = -1  # label of every sample of a dataset without labels: enough for parity, not for accuracy


@dataclass(frozen=True)
class Sample:
    """`value`: uint8 height × width × channels (1 or 3, RGB) for images, any array otherwise. Of data for models with
    several inputs it is a record of numpy with a field for each input, by the input's name."""

    id: str
    value: NDArray[Any]
    label: int


@dataclass(frozen=True)
class Rows:
    """Several samples, their values stacked in one array."""

    ids: tuple[str, ...]
    values: NDArray[Any]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class OpenedAs:
    """How `open_dataset` opens a dataset again, also in another process."""

    spec: str
    limit: int | None = None
    seed: int | None = None


class Dataset(ABC):
    """Labelled or unlabelled samples in a fixed order, which a model is evaluated on."""

    name: str
    classes: tuple[str, ...] | None = None
    encoded: bool = False  # whether images are decoded as they are read, so that `decoded_with` makes a difference
    alphabetical: bool = False  # whether classes are numbered in alphabetical order because nothing says another one
    notes: tuple[str, ...] = ()  # what whoever evaluates on it should know, such as files that are left out
    opened_as: OpenedAs | None = None  # None: it was not opened by `open_dataset`
    # The kind of what is right where that is no class (see `truth`): `labels` are all UNLABELLED then.
    truth_kind: str | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        return f"<Dataset {self.name}: {len(self):,} samples>"

    def __iter__(self) -> Iterator[Sample]:
        """All samples in order, each read as it is reached."""
        return (self.read(index) for index in range(len(self)))

    @abstractmethod
    def read(self, index: int) -> Sample:
        """One sample; unreadable data is a DatasetError that names the file."""

    @abstractmethod
    def labels(self) -> NDArray[np.int64]:
        """All labels in order, without reading the inputs."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 (hex) of content and order."""

    @property
    def labelled(self) -> bool:
        """Whether it says which class is right; without labels two models can still be compared with each other."""
        return bool((self.labels() != UNLABELLED).any())

    def says(self, kind: str | None) -> bool:
        """Whether it says what is right in this way: with truths of a kind, or with classes (None)."""
        return self.labelled if kind is None else self.truth_kind == kind

    def truth(self, index: int) -> Truth | None:
        """What is right of one sample, of the kind `truth_kind`, read from the source; None: nobody said.

        The numbers of classes count through `classes`. Truths belong to the content that the fingerprint is made of.
        """
        if self.truth_kind is None:
            raise DatasetError(f"The dataset {self.name} says of each sample no more than the number of a class.")
        raise NotImplementedError(f"{type(self).__name__} has truths of kind {self.truth_kind}, but does not read them")

    def read_rows(self, indices: NDArray[np.int64]) -> Rows | None:
        """Several samples at once, where they lie in memory and that is quicker; None: read them one by one."""
        return None

    def read_encoded(self, index: int) -> bytes | None:
        """Returns the encoded file of one sample if the dataset consists of image files, else None."""
        return None

    def decoded_with(self, decoder: str) -> Dataset:
        """Returns a view whose images are decoded by another library; itself if nothing is decoded.

        The view has the same fingerprint and is closed with the original.
        """
        return self

    def close(self) -> None:
        """Release open files. Calling it twice is fine."""


class DatasetView(Dataset):
    """A dataset over another one, its parent: everything is the parent's unless a subclass says otherwise."""

    def __init__(self, parent: Dataset) -> None:
        self.parent = parent
        self.name, self.classes = parent.name, parent.classes
        self.encoded, self.alphabetical, self.notes = parent.encoded, parent.alphabetical, parent.notes
        self.truth_kind = parent.truth_kind

    def __len__(self) -> int:
        return len(self.parent)

    def read(self, index: int) -> Sample:
        return self.parent.read(index)

    def read_rows(self, indices: NDArray[np.int64]) -> Rows | None:
        return self.parent.read_rows(indices)

    def read_encoded(self, index: int) -> bytes | None:
        return self.parent.read_encoded(index)

    def labels(self) -> NDArray[np.int64]:
        return self.parent.labels()

    def truth(self, index: int) -> Truth | None:
        return self.parent.truth(index)

    def fingerprint(self) -> str:
        return self.parent.fingerprint()

    def decoded_with(self, decoder: str) -> Dataset:
        parent = self.parent.decoded_with(decoder)
        if parent is self.parent:
            return self
        other = copy(self)
        other.parent = parent
        return other

    def close(self) -> None:
        self.parent.close()
