"""Data that somebody else's plug-in reads: the same bytes become other samples when its code changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import copy

import numpy as np
from numpy.typing import NDArray

from zoolens.datasets.base import Dataset, Rows, Sample


class ReadByPlugin(Dataset):
    """A dataset whose fingerprint also depends on the code that reads it."""

    def __init__(self, parent: Dataset, code: Mapping[str, str]) -> None:
        self.parent = parent
        self.name, self.classes = parent.name, parent.classes
        self.encoded, self.alphabetical = parent.encoded, parent.alphabetical
        self._code = dict(code)

    def __len__(self) -> int:
        return len(self.parent)

    def read(self, index: int) -> Sample:
        return self.parent.read(index)

    def read_rows(self, indices: NDArray[np.int64]) -> Rows | None:
        return self.parent.read_rows(indices)

    def labels(self) -> NDArray[np.int64]:
        return self.parent.labels()

    def decoded_with(self, decoder: str) -> Dataset:
        parent = self.parent.decoded_with(decoder)
        if parent is self.parent:
            return self
        other = copy(self)
        other.parent = parent
        return other

    def fingerprint(self) -> str:
        content = json.dumps([self.parent.fingerprint(), self._code], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def close(self) -> None:
        self.parent.close()
