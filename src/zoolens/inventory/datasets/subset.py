"""A part of a dataset: the first samples, or a random sample that a seed fixes for ever."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import Dataset, DatasetView, Rows, Sample
from zoolens.inventory.datasets.truth import Truth


class Subset(DatasetView):
    """Some samples of a dataset in a given order; the samples keep their ids."""

    def __init__(self, parent: Dataset, indices: NDArray[np.int64], which: str) -> None:
        super().__init__(parent)
        self.name = f"{parent.name} ({which})"
        self._indices = indices
        self._index_list: list[int] = indices.tolist()

    def __len__(self) -> int:
        return len(self._index_list)

    def read(self, index: int) -> Sample:
        return self.parent.read(self._index_list[index])

    def read_rows(self, indices: NDArray[np.int64]) -> Rows | None:
        return self.parent.read_rows(self._indices[indices])

    def read_encoded(self, index: int) -> bytes | None:
        return self.parent.read_encoded(self._index_list[index])

    def labels(self) -> NDArray[np.int64]:
        return self.parent.labels()[self._indices]

    def truth(self, index: int) -> Truth | None:
        return self.parent.truth(self._index_list[index])

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"subset {self.parent.fingerprint()};".encode())
        digest.update(self._indices.astype("<i8").tobytes())
        return digest.hexdigest()


def select(dataset: Dataset, limit: int | None, seed: int | None = None) -> Dataset:
    """The first `limit` samples; with a seed, `limit` random ones in the dataset's order. All: the dataset itself."""
    if limit is None or limit >= len(dataset):
        return dataset
    if limit < 1:
        raise DatasetError(f"A limit of {limit} leaves no samples.", hint="Give 1 or more.")
    if seed is None:
        return Subset(dataset, np.arange(limit, dtype=np.int64), f"first {limit}")
    if seed < 0:
        raise DatasetError(f"The seed {seed} is negative.", hint="Give 0 or more.")
    # raw bits, since numpy promises those for ever and the sampling built on them only for one version
    ranks = np.argsort(np.random.PCG64(seed).random_raw(len(dataset)), kind="stable")
    return Subset(dataset, np.sort(ranks[:limit]).astype(np.int64), f"{limit} of seed {seed}")
