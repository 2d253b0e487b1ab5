"""The state of training at chosen steps, layer by layer, written for lockstep comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.trainers.keras_building import Built
from zoolens.training.crosstrain.training.trainers.keras_layout import activations, tensors
from zoolens.training.crosstrain.training.trainers.keras_loops import Details, Loop
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.data.epoch_order import EpochBatches
from zoolens.training.pairs.optimizers.keras_slots import slots

Array = NDArray[Any]


class CapturingLoop:
    """Steps one by one, until the last one that is to be captured. `learned`: the variables in the order in which the
    loop and the optimizer have them."""

    def __init__(self, loop: Loop, built: Built, learned: Sequence[Any], optimizer: Any, job: Job) -> None:
        self._loop, self._built, self._learned, self._optimizer, self._job = loop, built, learned, optimizer, job
        self._done = 0

    def epoch(self, batches: EpochBatches) -> NDArray[np.float64]:
        losses = []
        for part in batches.slices():
            details = self.detailed(batches.x[part], batches.y[part])
            self._done += 1
            losses.append(float(details.loss))
            if self._done in self._job.capture:
                self._write(details)
            if self._done >= max(self._job.capture):
                break
        return np.array(losses)

    def detailed(self, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Details:
        return self._loop.detailed(x, y)

    def predict(self, x: NDArray[np.uint8]) -> tuple[NDArray[np.int32], bool]:
        return self._loop.predict(x)

    def settle(self) -> None:
        self._loop.settle()

    def _write(self, details: Details) -> None:
        self.settle()
        state = _state(self._built, self._learned, self._optimizer, details)
        path = self._job.output / f"capture-{self._done}.safetensors"
        write_weights(path, state, {"framework": self._job.framework})


def _state(built: Built, learned: Sequence[Any], optimizer: Any, details: Details) -> dict[str, Array]:
    gradients = {variable.path: gradient for variable, gradient in zip(learned, details.gradients, strict=True)}
    position = {variable.path: index for index, variable in enumerate(learned)}
    answers = activations(built, [_array(answer) for answer in details.answers])
    state = {"loss": _array(details.loss)} | {f"activation/{name}": values for name, values in answers.items()}
    for tensor in tensors(built):
        path = tensor.variable.path
        values = tensor.ours(_array(tensor.variable.value))
        if not tensor.learned:
            state[f"statistic/{tensor.name}"] = values
            continue
        state[f"tensor/{tensor.name}"] = values
        state[f"gradient/{tensor.name}"] = tensor.ours(_array(gradients[path]))
        for moment, (slot, factor) in slots(optimizer, position[path]).items():
            if factor is not None:
                state[f"{moment}/{tensor.name}"] = tensor.ours(_array(slot.value) * factor)
    return state


def _array(value: Any) -> Array:
    """numpy has no bfloat16."""
    array = np.asarray(value)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
