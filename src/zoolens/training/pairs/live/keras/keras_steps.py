"""One training step of a compiled Keras model on each of Keras' backends, as `fit` computes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zoolens.training.pairs.networks.framework import Array

Gradients = Sequence[Any]


class KerasSteps(ABC):
    """`model` is compiled; its optimizer, loss and regularisers are used as they are."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def optimizer(self) -> Any:
        return self.model.optimizer

    @abstractmethod
    def run(self, batches: Iterable[tuple[Any, Any]]) -> Array:
        """One step for each batch; the losses. The model's variables have the new values afterwards."""

    @abstractmethod
    def compute(self, x: Any, y: Any) -> tuple[Any, Gradients]:
        """The loss and the gradients of the trainable variables. Statistics of norms change, nothing else does."""

    @abstractmethod
    def answer(self, x: Any) -> Any:
        """Answers inputs in evaluation mode."""

    def update(self, gradients: Gradients) -> None:
        """Let the optimizer clip the gradients and change the variables."""
        self.optimizer.apply(list(gradients), self.model.trainable_variables)


class TensorFlowSteps(KerasSteps):
    def __init__(self, model: Any) -> None:
        import tensorflow

        super().__init__(model)
        self._tf = tensorflow
        plain = bool(model.run_eagerly)
        self._step = self._train if plain else self._graph(self._train)
        self._answer = self._test if plain else self._graph(self._test)

    def _graph(self, function: Any) -> Any:
        return self._tf.function(
            function, jit_compile=bool(self.model.jit_compile), reduce_retracing=True, autograph=False
        )

    def run(self, batches: Iterable[tuple[Any, Any]]) -> Array:
        convert = self._tf.convert_to_tensor
        losses = [self._step(_map(convert, x), convert(y)) for x, y in batches]
        return np.array([float(loss) for loss in losses], np.float64)

    def compute(self, x: Any, y: Any) -> tuple[Any, Gradients]:
        convert = self._tf.convert_to_tensor
        return self._gradients(_map(convert, x), convert(y))

    def _gradients(self, x: Any, y: Any) -> tuple[Any, Gradients]:
        variables = [variable.value for variable in self.model.trainable_variables]
        with self._tf.GradientTape() as tape:
            answer = self.model(x, training=True)
            loss = self.model.compute_loss(x=x, y=y, y_pred=answer, sample_weight=None, training=True)
            scaled = self.optimizer.scale_loss(loss)
        return loss, tape.gradient(scaled, variables)

    def _train(self, x: Any, y: Any) -> Any:
        loss, gradients = self._gradients(x, y)
        self.update(gradients)
        return loss

    def _test(self, x: Any) -> Any:
        return self.model(x, training=False)

    def answer(self, x: Any) -> Any:
        return self._answer(_map(self._tf.convert_to_tensor, x))


class JaxSteps(KerasSteps):
    """Steps work on values outside of the model, which gets them back at the end of a run."""

    def __init__(self, model: Any) -> None:
        import jax

        super().__init__(model)
        self._jax = jax
        compiled = bool(model.jit_compile) and not model.run_eagerly
        self._step = jax.jit(self._train, donate_argnums=0) if compiled else self._train
        self._answer = jax.jit(self._test) if compiled else self._test

    def _variables(self) -> tuple[list[Any], list[Any], list[Any]]:
        model = self.model
        return list(model.trainable_variables), list(model.non_trainable_variables), list(self.optimizer.variables)

    def run(self, batches: Iterable[tuple[Any, Any]]) -> Array:
        groups = self._variables()
        # Copies, since the steps consume their state and the model must outlive a step that fails.
        state = tuple([self._jax.numpy.copy(variable.value) for variable in group] for group in groups)
        losses = []
        for x, y in batches:
            state, loss = self._step(state, x, y)
            losses.append(loss)
        for group, values in zip(groups, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        return np.array([float(loss) for loss in self._jax.device_get(losses)], np.float64)

    def _train(self, state: Any, x: Any, y: Any) -> tuple[Any, Any]:
        learned, fixed, slots = state
        (_, (loss, fixed)), gradients = self._value_and_grad(learned, fixed, slots, x, y)
        learned, slots = self.optimizer.stateless_apply(slots, gradients, learned)
        return (learned, fixed, slots), loss

    def _value_and_grad(self, learned: Any, fixed: Any, slots: Any, x: Any, y: Any) -> Any:
        def scaled(learned: Any) -> tuple[Any, tuple[Any, Any]]:
            value, (loss, _, after, _) = self.model.compute_loss_and_updates(
                learned, fixed, [], x, y, None, training=True, optimizer_variables=slots
            )
            return value, (loss, after)

        return self._jax.value_and_grad(scaled, has_aux=True)(learned)

    def compute(self, x: Any, y: Any) -> tuple[Any, Gradients]:
        groups = self._variables()
        learned, fixed, slots = ([variable.value for variable in group] for group in groups)
        (_, (loss, fixed)), gradients = self._value_and_grad(learned, fixed, slots, x, y)
        for variable, value in zip(groups[1], fixed, strict=True):
            variable.assign(value)
        return loss, gradients

    def _test(self, learned: Any, fixed: Any, x: Any) -> Any:
        return self.model.stateless_call(learned, fixed, x, training=False)[0]

    def answer(self, x: Any) -> Any:
        learned, fixed, _ = self._variables()
        return self._answer([v.value for v in learned], [v.value for v in fixed], x)


class TorchSteps(KerasSteps):
    def run(self, batches: Iterable[tuple[Any, Any]]) -> Array:
        losses = []
        for x, y in batches:
            loss, gradients = self.compute(x, y)
            self.update(gradients)
            losses.append(loss)
        return np.array([float(loss) for loss in losses], np.float64)

    def compute(self, x: Any, y: Any) -> tuple[Any, Gradients]:
        import keras

        model = self.model
        x, y = _map(keras.ops.convert_to_tensor, _map(_owned, x)), keras.ops.convert_to_tensor(_owned(y))
        model.zero_grad()
        loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True), sample_weight=None, training=True)
        self.optimizer.scale_loss(loss).backward()
        return loss.detach(), [variable.value.grad for variable in model.trainable_variables]

    def update(self, gradients: Gradients) -> None:
        import torch

        with torch.no_grad():
            super().update(gradients)

    def answer(self, x: Any) -> Any:
        import torch

        with torch.no_grad():
            return self.model(x, training=False)


def _owned(array: Array) -> Array:
    """Torch computes in the memory of an array that it is given, where a layer may work in place."""
    return array if array.flags.writeable else array.copy()


def _map(function: Any, x: Any) -> Any:
    return [function(part) for part in x] if isinstance(x, list) else function(x)


def steps_of(model: Any) -> KerasSteps:
    """For the backend that Keras has in this process."""
    import keras

    kinds: dict[str, type[KerasSteps]] = {"tensorflow": TensorFlowSteps, "jax": JaxSteps, "torch": TorchSteps}
    return kinds[str(keras.config.backend())](model)
