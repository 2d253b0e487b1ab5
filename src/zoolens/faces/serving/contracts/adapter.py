"""What lies between a service's own tensors and those of the model that answers: one adapter for each tier of a ladder.

A client of a service always sends the same inputs and gets the same outputs, whichever model answers. A model that
wants another layout, another normalisation or its classes in another order has an adapter that converts both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoolens.base.protocol.messages import Tensor
from zoolens.inventory.tasks.task import Answers


@dataclass(frozen=True, slots=True)
class Fed:
    """What a model is fed. `memos`: of each row, what reading its answer needs to know, such as the size of an image;
    empty where nothing is needed."""

    tensors: Mapping[str, Tensor]
    memos: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What clients get. `kept`: the same answers as their task compares them; None: the tensors are compared."""

    tensors: Mapping[str, Tensor]
    kept: Answers | None = None


class Adapter:
    """The adapter of a model that takes and gives exactly what its clients send and expect.

    Both methods are called with whole batches, in a thread of the pool, or on the event loop where the adapter is
    `quick` (it takes microseconds). What cannot be converted, such as a damaged image, is a `ServingError`.
    """

    quick = False
    joins = True  # what was made of the inputs of several requests can be fed together, one below the other

    def feeds(self, inputs: Mapping[str, Tensor]) -> Fed:
        """Converts what the clients sent into what the model is fed."""
        return Fed(inputs)

    def outputs(self, answers: Mapping[str, Tensor], memos: Sequence[Any]) -> Told:
        """Converts what the model answered into what the clients get. `memos`: those of the rows that were fed."""
        return Told(answers)
