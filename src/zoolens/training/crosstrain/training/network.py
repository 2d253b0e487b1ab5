"""A network as data that every trainer can build: layers in order of computation, semantics already in them.

Learned tensors have stable names and one layout whatever the framework:

    conv, dense   NAME.kernel   (out, in, height, width) and (out, in)
                  NAME.bias     (out,)
    norm          NAME.scale, NAME.shift, and the statistics NAME.mean, NAME.variance

A dense layer after `flatten` reads its inputs in the order channels, height, width. Activations are told as (batch,
channels, height, width). Frameworks that keep channels last convert at their border.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# kind -> settings; a semantic that is None is left to the framework's own layer.
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "input": (),
    "conv": ("filters", "kernel", "stride", "padding", "bias"),  # padding: symmetric (kernel // 2), same, valid
    "dense": ("units", "bias"),
    "norm": ("momentum", "epsilon"),  # over channels; momentum: share of the old statistics kept
    "relu": (),
    "max_pool": ("kernel", "stride", "padding"),
    "avg_pool": ("kernel", "stride", "padding"),
    "global_avg_pool": (),
    "flatten": (),
    "dropout": ("rate",),
    "add": (),
    "concat": (),
}


@dataclass(frozen=True, slots=True)
class Layer:
    name: str
    kind: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]  # of the output without the batch: (channels, height, width) or (features,)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Network:
    """The first layer is the input, the last one gives the logits."""

    architecture: str
    layers: tuple[Layer, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.layers[0].shape

    @property
    def classes(self) -> int:
        return self.layers[-1].shape[0]
