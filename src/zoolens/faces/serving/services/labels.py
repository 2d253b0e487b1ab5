"""Answers that wait for labels: who answered a request with which classes, until its true classes are posted.

A request id is the client's own and may come again, so that an entry is made for every request that is answered, and
takes the place of an older one of the same id. Whoever is asked about the request later adds to that entry, not to
whatever has the id by then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.services.comparison import Classes

MOST_REQUESTS: Final = 50_000
MOST_ROWS: Final = 1_000_000
LONGEST_ID: Final = 200  # characters; requests with longer ids are not remembered


@dataclass(frozen=True, eq=False)
class OtherAnswer:
    """What another model answers to a request. `ticket`: by which the request was drawn."""

    classes: Classes
    ticket: float


@dataclass(eq=False)
class AnsweredRequest:
    """`model` answered it. `others`: answers by the model that was asked as well. `truth` comes later, if at all."""

    model: str
    classes: NDArray[np.int32]
    others: dict[str, OtherAnswer] = field(default_factory=dict)
    truth: Classes | None = None


class AnswerMemory:
    """The newest answers by request id, within bounds."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, AnsweredRequest] = OrderedDict()
        self._rows = 0

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request_id: str, model: str, classes: Classes) -> AnsweredRequest | None:
        """Begin an entry; None where the id is missing or too long."""
        if not request_id or len(request_id) > LONGEST_ID:
            return None
        self.take(request_id)
        entry = self._requests[request_id] = AnsweredRequest(model, classes.astype(np.int32))
        self._rows += len(classes)
        while len(self._requests) > MOST_REQUESTS or (self._rows > MOST_ROWS and len(self._requests) > 1):
            _, oldest = self._requests.popitem(last=False)
            self._rows -= len(oldest.classes)
        return entry

    def get(self, request_id: str) -> AnsweredRequest | None:
        return self._requests.get(request_id)

    def take(self, request_id: str) -> AnsweredRequest | None:
        """The entry of an id, which is forgotten: a label counts once."""
        entry = self._requests.pop(request_id, None)
        if entry is not None:
            self._rows -= len(entry.classes)
        return entry


def label_classes(service: str, label: Any, count: int, names: Mapping[int, str]) -> Classes:
    """The true classes that a client states: a class's name or number, or a list of them, of `count` classes."""
    several = label if isinstance(label, list) else [label]
    classes = [_label_class(service, entry, count, names) for entry in several]
    return np.array(classes, np.int64)


def _label_class(service: str, label: Any, count: int, names: Mapping[int, str]) -> int:
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < count:
        return label
    place = next((index for index, name in names.items() if name == label), None)
    if isinstance(label, str) and place is not None:
        return place
    raise ServingError(
        Refusal.INVALID,
        f"{str(label)[:60]!r} is not a class of service '{service}': give a number below {count} or a class's name.",
    )
