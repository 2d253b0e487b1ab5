"""From a batch's outputs to the answers of its requests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zoolens.protocol.messages import InferRequest, Tensor
from zoolens.runtimes.base import Tensors
from zoolens.serving.plane.classification import Labels, largest


def count_nans(outputs: Mapping[str, Tensor]) -> int:
    """Values that are not a number. The smallest value of an array is one where any is, and quick to find."""
    total = 0
    for array in outputs.values():
        if array.dtype.kind == "f" and array.size and np.isnan(array.min()):
            total += int(np.isnan(array).sum())
    return total


def rows_of(outputs: Mapping[str, Tensor], start: int, count: int) -> Tensors:
    """Views of some rows."""
    return {name: array[start : start + count] for name, array in outputs.items()}


def selected(
    request: InferRequest, outputs: Mapping[str, Tensor], labels: Mapping[str, Labels], batched: bool
) -> Mapping[str, Tensor]:
    """The outputs that a request asks for, as tensors or as their largest values."""
    if not request.outputs:
        return outputs
    chosen: Tensors = {}
    for wanted in request.outputs:
        array = outputs[wanted.name]
        if wanted.classes > 0:
            names = labels.get(wanted.name) or (labels.get("", {}) if len(outputs) == 1 else {})
            array = largest(array, wanted.classes, names, batched)
        chosen[wanted.name] = array
    return chosen
