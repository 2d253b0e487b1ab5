"""What torch's steps computed, tensor by tensor, for the comparison in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.architectures import is_statistic
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.trainers.torch_building import named_tensors
from zoolens.training.crosstrain.training.trainers.torch_loops import Machine
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.live.torch.captured_update import captured_update


class CaptureLoop:
    """Steps one by one (a compiled step shows nothing of its inside) until the last one that is to be captured."""

    def __init__(self, machine: Machine, network: Network, steps: Sequence[int], folder: Path) -> None:
        self._machine, self._network, self._wanted, self._folder = machine, network, frozenset(steps), folder
        self._done = 0

    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None:
        self._images, self._labels = self._machine.place(images, labels)

    def steps(self, parts: Sequence[slice]) -> Any:
        losses = []
        for part in parts:
            self._done += 1
            losses.append(self._step(self._images[part], self._labels[part]))
            if self._done >= max(self._wanted):
                break
        return self._machine.torch.stack(losses)

    def _step(self, images: Any, labels: Any) -> Any:
        if self._done not in self._wanted:
            return self._machine.step(images, labels)
        path = self._folder / f"capture-{self._done}.safetensors"
        return captured_step(self._machine, self._network, images, labels, path)


def captured_step(machine: Machine, network: Network, images: Any, labels: Any, path: Path) -> Any:
    """One step like the others, with everything it computed written to `path`; its loss."""
    activations: dict[str, Any] = {}
    loss = machine.loss(_watched(machine, activations), images, labels)
    machine.backward(loss, len(labels))
    tensors = named_tensors(machine.module, network)
    statistics = {name for name in tensors if is_statistic(name)}
    computed = {**activations, "loss": loss}
    captured = captured_update(computed, tensors, statistics, machine.optimizer, machine.update)
    write_weights(path, captured, {"framework": "torch"})
    return loss.detach()


def _watched(machine: Machine, activations: dict[str, Any]) -> Callable[[Any], Any]:
    """The network, run node by node; each layer's answer is kept."""
    import torch

    class Watching(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            value = super().run_node(node)
            if "layer" in node.meta:
                activations[f"activation/{node.meta['layer']}"] = value.float() if machine.mixed else value
            return value

    run: Callable[[Any], Any] = Watching(machine.module).run
    return run
