"""What the targets of a stream are, seen over all of its batches: classes, one-hot rows, probabilities, numbers."""

from __future__ import annotations

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.training.pairs.data.sources import TargetKind
from zoolens.training.pairs.data.stream import RecordedTargets
from zoolens.training.pairs.networks.framework import Array

_SUM_APART = 1e-3  # how far a row of probabilities in half precision may be from 1


class TargetFacts:
    def __init__(self) -> None:
        self._shape: tuple[int, ...] | None = None
        self._whole = False
        self._from = ""  # the type that they came with
        self._lowest, self._highest = np.inf, -np.inf
        self._zero_one = self._sum_one = True

    def checked(self, targets: Array, place: str) -> Array:
        """The targets as they are recorded: int64 or float32. Refuses what does not go with the batches before."""
        if not targets.ndim or not targets.size:
            raise DatasetError(
                f"The targets of {place} are empty or have no axis for the samples.",
                hint="Give one target for each sample.",
            )
        whole = targets.dtype.kind in "iu"
        if self._shape is None:
            self._shape, self._whole, self._from = targets.shape[1:], whole, str(targets.dtype)
        if (targets.shape[1:], whole) != (self._shape, self._whole):
            raise DatasetError(
                f"The targets of {place} are {targets.dtype} of the shape {targets.shape[1:]} for each sample; those "
                f"before are {self._from} of {self._shape}."
            )
        recorded = targets.astype(np.int64 if whole else np.float32, copy=False)
        self._look(recorded)
        return recorded

    def _look(self, targets: Array) -> None:
        self._lowest = min(self._lowest, float(targets.min()))
        self._highest = max(self._highest, float(targets.max()))
        if targets.ndim != 2 or targets.shape[1] < 2:
            self._zero_one = self._sum_one = False
        elif self._sum_one:
            self._zero_one = self._zero_one and bool(np.isin(targets, (0, 1)).all())
            self._sum_one = bool((np.abs(targets.sum(axis=1) - 1) < _SUM_APART).all())

    def summary(self) -> tuple[RecordedTargets, list[str]]:
        """The description, and what must be said about it."""
        assert self._shape is not None  # a stream without a batch is refused before
        notes = []
        kind = self._kind()
        shape, classes = self._shape, None
        if kind == "classes":
            classes = int(self._highest) + 1
            if shape == (1,) and classes > 2:  # as Keras' own datasets have it
                shape = ()
                notes.append("Targets come as N×1 whole numbers and are replayed as N classes.")
        elif kind != "numbers":
            classes = shape[-1]
        elif self._whole:
            notes.append("Targets are whole numbers, some of them below 0: they are not counted as classes.")
        if not self._whole and not self._from.startswith("float32"):
            notes.append(f"Targets come as {self._from} and are recorded as float32.")
        dtype = "int64" if self._whole else "float32"
        described = RecordedTargets.model_validate({"shape": shape, "dtype": dtype, "kind": kind, "classes": classes})
        return described, notes

    def _kind(self) -> TargetKind:
        if self._sum_one and self._zero_one:
            return "one-hot"
        if self._whole:
            return "classes" if self._lowest >= 0 else "numbers"
        return "probabilities" if self._sum_one and self._lowest >= 0 else "numbers"
