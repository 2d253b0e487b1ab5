"""The first weights and the batch norms of any live Keras model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from numpy.typing import NDArray

from zoolens.training.pairs.reading.initialisers import drawn, fans
from zoolens.training.pairs.reading.probes import norm_fact
from zoolens.training.pairs.reading.side_facts import (
    Drawn,
    NormFact,
)

_ROLES: Final = {"kernel": "kernel", "bias": "bias", "gamma": "scale", "beta": "shift"}


def drawn_tensors(keras: Any, model: Any) -> Iterator[Drawn]:
    """The kernels, biases, scales and shifts of any model, as they are now; also those of models inside it."""
    kinds = ((keras.layers.Conv2D, "conv"), (keras.layers.Dense, "dense"), (keras.layers.BatchNormalization, "norm"))
    for layer in model._flatten_layers():
        kind = next((name for made, name in kinds if isinstance(layer, made)), None)
        if kind is None:
            continue
        both = (1, 1) if kind == "norm" else _kernel_fans(layer.kernel.shape)
        for attribute, role in _ROLES.items():
            variable = getattr(layer, attribute, None)
            if variable is not None:
                declared = type(getattr(layer, f"{attribute}_initializer")).__name__
                values = keras.ops.convert_to_numpy(variable)
                yield drawn(values, layer=layer.name, kind=kind, role=role, fans=both, declared=declared)


def _kernel_fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Keras keeps kernels as (…, in, out)."""
    *field, given, made = shape
    return fans((made, given, *field))


def norm_facts(keras: Any, model: Any) -> Iterator[NormFact]:
    """The batch norms of any model. Layers with the same settings are the same: one of each is trained for a step."""

    @cache
    def known(momentum: float, epsilon: float) -> NormFact:
        return norm_fact("", epsilon, _training_step(keras, {"momentum": momentum, "epsilon": epsilon}))

    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            yield known(layer.momentum, layer.epsilon).model_copy(update={"layer": layer.name})


def _training_step(keras: Any, settings: Mapping[str, float]) -> Callable[[NDArray[Any]], tuple[float, float]]:
    def step(values: NDArray[Any]) -> tuple[float, float]:
        layer = keras.layers.BatchNormalization(**settings)
        layer(keras.ops.reshape(keras.ops.array(values), (-1, 1, 1, 1)), training=True)
        return float(layer.moving_mean[0]), float(layer.moving_variance[0])

    return step
