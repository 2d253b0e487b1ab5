"""Samples and truths that are kept while variants are tried: each is decoded once with each decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zoolens.inventory.datasets.dataset import Dataset, DatasetView, Sample
from zoolens.inventory.datasets.truth import Truth

KEPT_BYTES: Final = 1 << 29  # of decoded images and masks


@dataclass
class _Room:
    """What several views have in common. Two threads at once may keep a little more than there is room for."""

    bytes: int

    def holds(self, size: int) -> bool:
        if size > self.bytes:
            return False
        self.bytes -= size
        return True


class KeptSamples(DatasetView):
    """A dataset whose samples and truths are decoded once, as long as there is room."""

    def __init__(self, parent: Dataset, room: int = KEPT_BYTES) -> None:
        super().__init__(parent)
        self.opened_as = parent.opened_as
        self._room = _Room(room)
        self._samples: dict[int, Sample] = {}
        self._truths: dict[int, Truth | None] = {}
        self._others: dict[str, KeptSamples] = {}
        self._fingerprint: str | None = None

    def read(self, index: int) -> Sample:
        sample = self._samples.get(index)
        if sample is None:
            sample = self.parent.read(index)
            if self._room.holds(sample.value.nbytes):
                self._samples[index] = sample
        return sample

    def truth(self, index: int) -> Truth | None:
        if index in self._truths:
            return self._truths[index]
        truth = self.parent.truth(index)
        if truth is None or self._room.holds(sum(part.nbytes for part in truth.parts.values())):
            self._truths[index] = truth
        return truth

    def decoded_with(self, decoder: str) -> Dataset:
        if decoder not in self._others:
            parent = self.parent.decoded_with(decoder)
            self._others[decoder] = self if parent is self.parent else self._like(parent)
        return self._others[decoder]

    def _like(self, parent: Dataset) -> KeptSamples:
        """Other samples in the same room. What is right of them does not depend on how they are decoded."""
        other = KeptSamples(parent)
        other._room, other._truths = self._room, self._truths
        return other

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            self._fingerprint = self.parent.fingerprint()
        return self._fingerprint
