"""The dataset of a measurement that needs none: timing alone is done with made-up inputs."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import Dataset, Sample

NAME = "no data"


class NoInputs(Dataset):
    """An empty dataset, always the same, so that runs without inputs share one key per model and environment."""

    name = NAME

    def __len__(self) -> int:
        return 0

    def read(self, index: int) -> Sample:
        raise DatasetError("No dataset given.", hint="Name a dataset with --data.")

    def labels(self) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)

    def fingerprint(self) -> str:
        return hashlib.sha256(NAME.encode()).hexdigest()
