"""From a batch's outputs to the answers of its requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from zoolens.base.errors import UnsupportedAbility, ZoolensError, first_line
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, Tensor
from zoolens.faces.serving.plane.classification import Labels, largest
from zoolens.faces.serving.plane.flights import Flight
from zoolens.inventory.runtimes.runtime import Tensors

_SMALL: Final = 64  # values


def count_nans(outputs: Mapping[str, Tensor]) -> int:
    """Values that are not a number."""
    total = 0
    for array in outputs.values():
        if array.dtype.kind == "f" and array.size and _may_hold_nan(array):
            total += int(np.isnan(array).sum())
    return total


def _may_hold_nan(array: Tensor) -> bool:
    """Whether a value may be NaN: true of every array with one, and of some with infinities of both signs."""
    # NaN spreads to the minimum and to the sum, which is the quicker one in a small array.
    if array.size <= _SMALL:
        return math.isnan(sum(array.ravel().tolist()))
    return math.isnan(np.minimum.reduce(array, axis=None))


def rows_of(outputs: Mapping[str, Tensor], start: int, count: int) -> Tensors:
    """Views of some rows."""
    return {name: array[start : start + count] for name, array in outputs.items()}


def row_problem(flight: Flight, answers: Mapping[str, Tensor]) -> str | None:
    """Why the answers cannot be told apart by request; rows must never get to the wrong client."""
    if len(flight.pendings) == 1:
        return None
    for name, array in answers.items():
        if not array.ndim or len(array) != flight.rows:
            return f"Output '{name}' has shape {list(array.shape)} for a batch of {flight.rows} rows."
    return None


def selected(
    request: InferRequest, outputs: Mapping[str, Tensor], labels: Mapping[str, Labels], batched: bool
) -> Mapping[str, Tensor]:
    """The outputs that a request names, as tensors or as their largest values."""
    chosen: Tensors = {}
    for wanted in request.outputs:
        array = outputs[wanted.name]
        if wanted.classes > 0:
            names = labels.get(wanted.name) or (labels.get("", {}) if len(outputs) == 1 else {})
            array = largest(array, wanted.classes, names, batched)
        chosen[wanted.name] = array
    return chosen


def failure(name: str, error: ZoolensError, worker_lost: bool) -> ServingError:
    """What a client is told of a batch that failed. Hints are for whoever runs the server, and stand in the log: they
    may have paths of its machine and the last words of a worker, which may be about another client's data."""
    if isinstance(error, ServingError):
        return error
    if worker_lost:
        return ServingError(
            Refusal.UNAVAILABLE,
            f"Model '{name}' was lost while it ran this request: {error.message}",
            hint="Try again.",
        )
    if isinstance(error, UnsupportedAbility):
        return ServingError(Refusal.UNSUPPORTED, error.message)
    return ServingError(Refusal.INTERNAL, f"Model '{name}' failed on this request: {error.message}")


def unforeseen(name: str, error: Exception) -> ServingError:
    """What a client is told of an error that no code of ours expected."""
    return ServingError(Refusal.INTERNAL, f"Model '{name}' failed unexpectedly: {first_line(error)}")
