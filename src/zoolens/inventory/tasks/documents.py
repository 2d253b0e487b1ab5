"""Answers as JSON documents, which clients of a server get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError


@dataclass(frozen=True)
class AnswerClasses:
    """What readers of a document call the classes of an answer, which is kept in the dataset's numbers."""

    numbers: Mapping[int, int] | None = None  # None: they are called by the dataset's numbers
    names: Mapping[int, str] = field(default_factory=dict)

    def number(self, kept: int) -> int | None:
        return kept if self.numbers is None else self.numbers.get(kept)

    def told(self, kept: int) -> dict[str, Any]:
        """The beginning of what is said of a class; null where its name or its number is not known."""
        return {"label": self.names.get(kept), "class": self.number(kept)}


def shortest(values: NDArray[Any]) -> list[float]:
    """The numbers with as few digits as give the same float32 again: 0.9 instead of 0.8999999761581421."""
    return [float(text) for text in np.asarray(values, np.float32).reshape(-1).astype(str)]


def as_json(document: Any) -> bytes:
    """A document in UTF-8. NaN and infinity are no JSON, and are refused."""
    try:
        return json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise ModelError("The model answered NaN or infinity, which JSON cannot hold.") from error
