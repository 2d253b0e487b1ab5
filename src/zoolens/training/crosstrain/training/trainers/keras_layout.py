"""Between Keras' layout and the one of `network`: kernels, flattened features, activations.

Keras keeps kernels as height, width, in, out and flattens height, width, channels; `network` keeps out, in, height,
width and flattens channels, height, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.trainers.keras_building import Built
from zoolens.training.crosstrain.training.trainers.trainer import Weights

Array = NDArray[Any]
Image = tuple[int, int, int]  # height, width, channels
_PARTS: Final = {  # Keras' attribute -> our name
    "kernel": "kernel",
    "bias": "bias",
    "gamma": "scale",
    "beta": "shift",
    "moving_mean": "mean",
    "moving_variance": "variance",
}
_KEEPS_ORDER: Final = ("ReLU", "Activation", "Dropout", "BatchNormalization", "Add")


@dataclass(frozen=True)
class Tensor:
    """One live variable. `flattened`: the image whose pixels its input features are, where they come from one."""

    name: str
    variable: Any
    flattened: Image | None

    @property
    def learned(self) -> bool:
        return bool(self.variable.trainable)

    def ours(self, array: Array) -> Array:
        """Keras' values of this tensor (or of its gradient or slot) in the layout of `network`."""
        if array.ndim == 4:
            return np.ascontiguousarray(array.transpose(3, 2, 0, 1))
        rows = array if self.flattened is None else array[_canonical(self.flattened)]
        return np.ascontiguousarray(rows.T)

    def theirs(self, array: Array) -> Array:
        if array.ndim == 4:
            return np.ascontiguousarray(array.transpose(2, 3, 1, 0))
        rows = array.T
        return np.ascontiguousarray(rows if self.flattened is None else rows[np.argsort(_canonical(self.flattened))])


def tensors(built: Built) -> tuple[Tensor, ...]:
    """Every learned tensor and norm statistic, in the order of computation."""
    orders = _flattened(built)
    return tuple(
        # a bias belongs to what a layer answers, which is no pixels any more
        Tensor(f"{name}.{ours}", variable, None if ours == "bias" else orders.get(id(_first_input(layer))))
        for name, layer in built.layers.items()
        for theirs, ours in _PARTS.items()
        if (variable := getattr(layer, theirs, None)) is not None
    )


def load(built: Built, weights: Weights) -> None:
    """Tensors that are not among the weights keep what they have; a name or shape that does not fit is an error."""
    known = {tensor.name: tensor for tensor in tensors(built)}
    if strangers := sorted(weights.keys() - known.keys()):
        raise ModelError(
            f"The weights have {strangers[0]!r}, which the network has not.", hint="They belong to another network."
        )
    for name, array in weights.items():
        tensor, values = known[name], known[name].theirs(array)
        if tuple(tensor.variable.shape) != values.shape:
            shape = "×".join(map(str, tensor.ours(np.empty(tuple(tensor.variable.shape), bool)).shape))
            raise ModelError(
                f"{name} has the shape {'×'.join(map(str, array.shape))} in the weights and {shape} in the network.",
                hint="They belong to another network.",
            )
        tensor.variable.assign(values)


def activations(built: Built, answers: Sequence[Array]) -> dict[str, Array]:
    """What the layers answered, in the order of `built.outputs`: by name, in the layout of `network`."""
    orders = _flattened(built)
    by_name = {}
    for (name, symbolic), values in zip(built.outputs.items(), answers, strict=True):
        if values.ndim == 4:
            values = values.transpose(0, 3, 1, 2)
        elif id(symbolic) in orders:
            values = values[:, _canonical(orders[id(symbolic)])]
        by_name[name] = np.ascontiguousarray(values)
    return by_name


def _flattened(built: Built) -> dict[int, Image]:
    """Maps the identity of a symbolic tensor whose features are pixels to the image that was flattened."""
    orders: dict[int, Image] = {}
    for layer in built.layers.values():
        source = _first_input(layer)
        if type(layer).__name__ == "Flatten" and len(source.shape) == 4:
            orders[id(layer.output)] = tuple(source.shape[1:])
        elif type(layer).__name__ in _KEEPS_ORDER and id(source) in orders:
            orders[id(layer.output)] = orders[id(source)]
    return orders


def _first_input(layer: Any) -> Any:
    return layer.input[0] if isinstance(layer.input, list) else layer.input


def _canonical(image: Image) -> NDArray[np.intp]:
    """Positions in Keras' order of the features in ours."""
    height, width, channels = image
    return np.arange(height * width * channels).reshape(height, width, channels).transpose(2, 0, 1).ravel()
