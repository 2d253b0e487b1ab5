"""How modules of flax.nnx and Equinox compute in training: with dropout, and with new statistics of their norms.

A library that the user's code did not import is not imported here either.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class TrainingMode(ABC):
    """The training mode of a module whose arrays are the parameters that `jax_modules` made of it. `draws`: whether it
    takes a key."""

    draws: bool

    @abstractmethod
    def apply(self, parameters: Any, inputs: Sequence[Any], key: Any) -> tuple[Any, Any]:
        """The answer, and the parameters with what a step in training mode changes beside the optimizer."""

    @abstractmethod
    def trained(self, parameters: Any) -> Any:
        """The part of the parameters that an optimizer of the library's users sees."""

    @abstractmethod
    def dropout(self) -> list[float]:
        """The rates of what drops numbers, in the order of the module's tree."""

    @abstractmethod
    def set_dropout(self, rates: Sequence[float]) -> None:
        """Change them, in the same order."""

    @abstractmethod
    def norms(self) -> list[tuple[float, float]]:
        """The share of the old statistics that a step keeps, and epsilon, of each batch norm."""


def training_mode(network: Any) -> TrainingMode | None:
    """Returns the training mode of a module that holds its own arrays, of Equinox also one with its state; None for
    other networks."""
    module, *more = network if isinstance(network, tuple) and network else (network,)
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is not None and isinstance(module, nnx.Module):
        return _Nnx(nnx, module)
    if equinox is not None and isinstance(module, equinox.Module) and callable(module):
        return _Equinox(equinox, module, stateful=bool(more) and isinstance(more[0], equinox.nn.State))
    return None


class _Nnx(TrainingMode):
    """Keys of random numbers are set at each step, so that a training depends on its seed alone."""

    def __init__(self, nnx: Any, module: Any) -> None:
        import jax

        self._nnx, self._tree = nnx, jax.tree_util
        self._module = nnx.clone(module)
        self._module.train()
        self._definition, state = nnx.split(self._module)
        leaves, structure = self._tree.tree_flatten(state)
        numbers = self._tree.tree_unflatten(structure, range(len(leaves)))
        self._keys, self._counts = (
            self._tree.tree_leaves(nnx.filter_state(numbers, kind)) for kind in (nnx.RngKey, nnx.RngCount)
        )
        self.draws = bool(self._keys)

    def apply(self, parameters: Any, inputs: Sequence[Any], key: Any) -> tuple[Any, Any]:
        import jax

        leaves, structure = self._tree.tree_flatten(parameters)
        given = list(leaves)
        for number, place in enumerate(self._keys):
            own = jax.random.fold_in(key, number)
            typed = jax.numpy.issubdtype(leaves[place].dtype, jax.dtypes.prng_key)
            given[place] = own if typed else jax.random.key_data(own)
        for place in self._counts:
            given[place] = leaves[place] * 0
        module = self._nnx.merge(self._definition, self._tree.tree_unflatten(structure, given))
        answer = module(*inputs)
        after = self._tree.tree_leaves(self._nnx.state(module))
        for place in (*self._keys, *self._counts):
            after[place] = leaves[place]
        return answer, self._tree.tree_unflatten(structure, after)

    def trained(self, parameters: Any) -> Any:
        return self._nnx.filter_state(parameters, self._nnx.Param)

    def _of(self, kind: Any) -> list[Any]:
        return [part for _, part in self._nnx.iter_graph(self._module) if isinstance(part, kind)]

    def dropout(self) -> list[float]:
        return [float(layer.rate) for layer in self._of(self._nnx.Dropout)]

    def set_dropout(self, rates: Sequence[float]) -> None:
        for layer, rate in zip(self._of(self._nnx.Dropout), rates, strict=True):
            layer.rate = rate
        self._definition, _ = self._nnx.split(self._module)

    def norms(self) -> list[tuple[float, float]]:
        return [(float(layer.momentum), float(layer.epsilon)) for layer in self._of(self._nnx.BatchNorm)]


class _Equinox(TrainingMode):
    """Modules take one sample: they are mapped over the batch, each sample with a key of its own."""

    def __init__(self, equinox: Any, module: Any, *, stateful: bool) -> None:
        import jax

        self._equinox, self._module, self._stateful, self._tree = equinox, module, stateful, jax.tree_util
        self.draws = "key" in inspect.signature(type(module).__call__).parameters
        self._rates = self.dropout()

    def apply(self, parameters: Any, inputs: Sequence[Any], key: Any) -> tuple[Any, Any]:
        import jax

        still, state = parameters if self._stateful else (parameters, None)
        module = self._equinox.nn.inference_mode(still, value=False)
        if self._rates:
            module = self._equinox.tree_at(self._places, module, list(self._rates))
        keys = {"key": jax.random.split(key, len(inputs[0]))} if self.draws else {}
        if not self._stateful:
            answer = jax.vmap(lambda given, named: module(*given, **named), axis_name="batch")(tuple(inputs), keys)
            return answer, parameters
        answer, state = jax.vmap(
            lambda given, named: module(*given, state, **named), axis_name="batch", out_axes=(0, None)
        )(tuple(inputs), keys)
        return answer, (still, state)

    def trained(self, parameters: Any) -> Any:
        return parameters[0] if self._stateful else parameters

    def _of(self, kind: Any, module: Any) -> list[Any]:
        parts = self._tree.tree_leaves(module, is_leaf=lambda part: isinstance(part, kind))
        return [part for part in parts if isinstance(part, kind)]

    def _places(self, module: Any) -> list[Any]:
        return [layer.p for layer in self._of(self._equinox.nn.Dropout, module)]

    def dropout(self) -> list[float]:
        return [float(rate) for rate in getattr(self, "_rates", self._places(self._module))]

    def set_dropout(self, rates: Sequence[float]) -> None:
        self._rates = list(rates)

    def norms(self) -> list[tuple[float, float]]:
        layers = self._of(self._equinox.nn.BatchNorm, self._module)
        return [(float(layer.momentum), float(layer.eps)) for layer in layers]
