"""Training of a user's JAX function with an optimizer as optax has it: a pair of functions, `init` and `update`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.jax.jax_capture import layer_answers
from zoolens.training.pairs.live.jax.jax_rules import MeasuredOptimizer, measured_optimizer
from zoolens.training.pairs.live.live_training import Capture, Losses, TrainableNetwork
from zoolens.training.pairs.live.loss_fit import FittedLoss, fitted_loss
from zoolens.training.pairs.live.seeding import seed_generators
from zoolens.training.pairs.networks.framework import Array, LiveNetwork, plain
from zoolens.training.pairs.networks.jax_framework import JaxNetwork
from zoolens.training.pairs.networks.jax_training_modes import training_mode
from zoolens.training.pairs.networks.training_objects import TrainingObjects

_SLOTS: Final = {"mu": "first", "trace": "first", "nu": "second"}  # as the states of optax name them
_LARGEST_PROBE: Final = 100_000  # numbers in the answer for a sample with which a loss is measured
_INSTEAD: Final = {
    "scheduler": "a schedule as the optimizer's learning rate",
    "clip_norm": "optax.chain(optax.clip_by_global_norm(…), …) as the optimizer",
    "clip_value": "optax.chain(optax.clip(…), …) as the optimizer",
    "precision": "a function that computes in the type you want",
}


class JaxTraining(TrainableNetwork):
    """All arrays of floating numbers are trained, of Flax' variables those of "params". What `train_apply` returns
    beside the answer replaces those collections of the parameters, such as the statistics of norms."""

    framework: ClassVar[str] = "jax"

    def __init__(self, network: LiveNetwork, objects: TrainingObjects) -> None:
        import jax

        assert isinstance(network, JaxNetwork)
        super().__init__(network, objects)
        self.live, self._jax = network, jax
        self._check()
        self.mode = training_mode(objects.network) if objects.train_apply is None else None
        self._takes_key = _takes(objects.train_apply, "key") if self.mode is None else self.mode.draws
        self._places = self._trained_places()
        self._key, self._count, self._state = jax.random.key(0), 0, None
        named = set(network.names.values())  # others are counters and keys, which nobody assigns
        self._counters = {place: leaf for place, leaf in self._arrays().items() if place not in named}
        self._layer_names: list[str] = []
        self._measured: tuple[Any, MeasuredOptimizer] | None = None
        self._measured_loss: tuple[Any, FittedLoss | None] | None = None
        self.remember()

    def _check(self) -> None:
        given = self.objects
        if not all(callable(getattr(given.optimizer, name, None)) for name in ("init", "update")):
            raise ModelError(
                "The function of the JAX network returned no optimizer, which training needs.",
                hint="Let it return (apply, parameters, optimizer, loss), where the optimizer is one of optax, or has "
                "init(parameters) and update(gradients, state, parameters).",
            )
        if not callable(given.loss):
            raise ModelError(
                "The function of the JAX network returned no loss, which training needs.",
                hint="Let it return (apply, parameters, optimizer, loss), where loss(answer, target) is one number.",
            )
        for name, instead in _INSTEAD.items():
            if getattr(given, name) is not None:
                raise ModelError(f"{name} stands beside a JAX function.", hint=f"Use {instead}.")

    def _trained_places(self) -> list[int]:
        """The numbers of the leaves that an optimizer changes, in the order of the trained tree."""
        tree = self._jax.tree_util
        numbers = tree.tree_unflatten(self.live.tree, range(len(self.live.leaves)))
        floating = set(self.live.names.values())
        return [place for place in tree.tree_leaves(self._trained_part(numbers)) if place in floating]

    def _trained_part(self, parameters: Any) -> Any:
        """Returns what is trained: of Flax' variables the collection "params", of a module what its library trains, of
        other parameters all."""
        if self.mode is not None:
            return self.mode.trained(parameters)
        collections = isinstance(parameters, Mapping) and "params" in parameters and len(parameters) > 1
        return parameters["params"] if collections else parameters

    @property
    def statistics(self) -> str:
        """How statistics of norms change: "own updates", "kept" or, like any number, "as parameters"."""
        if self.objects.train_apply is not None or self.mode is not None:
            return "own updates"
        return "as parameters" if len(self._places) == len(self.live.names) else "kept"

    def remember(self) -> None:
        """Functions have no constants that a step changes; what was compiled may have changed."""
        self._step, self._gradients = self._compiled(self._train), self._compiled(self._value_and_grad)
        self._answer, self._layers = self._compiled(self._applied), self._compiled(self._layer_answers)
        self._state = None

    def _compiled(self, method: Callable[..., Any]) -> Any:
        """JAX takes a method that it compiled before for the same one, also where a switch changed what it calls."""
        return self._jax.jit(lambda *given: method(*given))

    def restore(self) -> None:
        self._state, self._count = None, 0

    def begin(self, seed: int) -> None:
        self.restore()
        seed_generators(seed)
        self._key = self._jax.random.key(seed)
        for place, leaf in self._counters.items():
            self.live.leaves[place] = leaf

    # --- values

    def _arrays(self) -> dict[int, Any]:
        """The leaves that are arrays, by their number; others are part of the program."""
        return {place: leaf for place, leaf in enumerate(self.live.leaves) if hasattr(leaf, "dtype")}

    def _parameters(self, arrays: Mapping[int, Any]) -> Any:
        leaves = [arrays.get(place, leaf) for place, leaf in enumerate(self.live.leaves)]
        return self._jax.tree_util.tree_unflatten(self.live.tree, leaves)

    def _trained(self, arrays: Mapping[int, Any]) -> Any:
        """The tree that the optimizer sees: arrays that are trained, and None in other places."""
        chosen = set(self._places)
        leaves = [arrays[place] if place in chosen else None for place in range(len(self.live.leaves))]
        return self._trained_part(self._jax.tree_util.tree_unflatten(self.live.tree, leaves))

    def _with_trained(self, arrays: Mapping[int, Any], trained: Any) -> dict[int, Any]:
        values = self._jax.tree_util.tree_leaves(trained)
        return {**arrays, **dict(zip(self._places, values, strict=True))}

    # --- a step

    def _applied(self, arrays: Mapping[int, Any], inputs: Sequence[Any]) -> Any:
        return self._jax.tree_util.tree_leaves(self.live.function(self._parameters(arrays), *inputs))[0]

    def _value_and_grad(self, arrays: Mapping[int, Any], inputs: Sequence[Any], target: Any, key: Any) -> Any:
        def loss(trained: Any) -> tuple[Any, tuple[Any, Any]]:
            parameters = self._parameters(self._with_trained(arrays, trained))
            answer, updates = self._in_training(parameters, inputs, key)
            value = self._loss(answer, target)
            if self.objects.regularisation is not None:
                value = value + self.objects.regularisation(parameters)
            return value, (answer, updates)

        return self._jax.value_and_grad(loss, has_aux=True)(self._trained(arrays))

    def _in_training(self, parameters: Any, inputs: Sequence[Any], key: Any) -> tuple[Any, Any]:
        if self.mode is not None:
            answer, after = self.mode.apply(parameters, inputs, key)
            changed = enumerate(self._jax.tree_util.tree_leaves(after))
            arrays = {place: leaf for place, leaf in changed if hasattr(leaf, "dtype") and place not in self._places}
            return self._jax.tree_util.tree_leaves(answer)[0], arrays
        apply = self.objects.train_apply
        if apply is None:
            return self._jax.tree_util.tree_leaves(self.live.function(parameters, *inputs))[0], {}
        answer = apply(parameters, *inputs, key=key) if self._takes_key else apply(parameters, *inputs)
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)):
            raise ModelError("train_apply returns no pair of an answer and a dictionary of new collections.")
        return answer

    def _loss(self, answer: Any, target: Any) -> Any:
        loss = self.objects.loss(answer, target)
        if getattr(loss, "shape", None) != ():
            raise ModelError(
                f"The JAX loss answers {getattr(loss, 'shape', type(loss).__name__)}, not one number for a batch.",
                hint="Let it return the mean or the sum over the batch.",
            )
        return loss

    def _train(self, arrays: Any, state: Any, inputs: Sequence[Any], target: Any, *drawn: Any) -> Any:
        """`drawn`: a key and the number of the step, where the function draws random numbers."""
        key = self._jax.random.fold_in(*drawn) if drawn else None
        (loss, (_, updates)), gradients = self._value_and_grad(arrays, inputs, target, key)
        after, state = self._updated(arrays, state, gradients, updates)
        return after, state, loss

    def _updated(self, arrays: Any, state: Any, gradients: Any, updates: Any) -> tuple[Any, Any]:
        trained = self._trained(arrays)
        moves, state = self.objects.optimizer.update(gradients, state, trained)
        trained = self._jax.tree_util.tree_map(lambda value, move: (value + move).astype(value.dtype), trained, moves)
        return self._with_updates(self._with_trained(arrays, trained), updates), state

    def _with_updates(self, arrays: dict[int, Any], updates: Any) -> dict[int, Any]:
        """`updates`: new collections, or of a module its arrays that are not trained, by their places."""
        if self.mode is not None or not updates:
            return {**arrays, **updates}
        tree = self._jax.tree_util
        parameters = self._parameters(arrays)
        unknown = [name for name in updates if name not in parameters]
        leaves, structure = tree.tree_flatten({**parameters, **updates})
        if unknown or structure != self.live.tree:
            raise ModelError("train_apply returns collections that the parameters do not have.")
        return {place: leaves[place] for place in arrays}

    def steps(self, batches: Iterable[TrainingBatch]) -> Losses:
        arrays, losses = self._arrays(), []
        state = self._begun(arrays)
        for batch in batches:
            inputs, target = self.live.turned(batch.inputs), _target(batch.targets)
            drawn = (self._key, self._count) if self._takes_key else ()  # each costs a copy to the device
            arrays, state, loss = self._step(arrays, state, inputs, target, *drawn)
            self._count += 1
            losses.append(loss)
        self._keep(arrays, state)
        return np.array([float(loss) for loss in self._jax.device_get(losses)], np.float64)

    def _begun(self, arrays: Mapping[int, Any]) -> Any:
        """The optimizer's state; it begins with the values that the parameters have at the first step."""
        return self.objects.optimizer.init(self._trained(arrays)) if self._state is None else self._state

    def _keep(self, arrays: Mapping[int, Any], state: Any) -> None:
        self._state = state
        for place, value in arrays.items():
            self.live.leaves[place] = value

    def end_epoch(self) -> None:
        """Schedules of optax count steps."""

    def captured_step(self, batch: TrainingBatch) -> Capture:
        """Layers are seen by the tensors that they take."""
        arrays = self._arrays()
        state = self._begun(arrays)
        key = self._jax.random.fold_in(self._key, self._count)
        inputs, target = self.live.turned(batch.inputs), _target(batch.targets)
        layers = self._layers(arrays, inputs, key)
        (loss, (answer, updates)), gradients = self._gradients(arrays, inputs, target, key)
        after, state = self._updated(arrays, state, gradients, updates)
        self._count += 1
        self._keep(after, state)
        capture = {f"activation/{name}": values for name, values in zip(self._layer_names, layers, strict=True)}
        capture |= {"output/0": answer, "loss": loss, **self._named("gradient", gradients), **self._slots(state)}
        for name, place in self.live.names.items():
            capture[f"{'tensor' if place in self._places else 'statistic'}/{name}"] = after[place]
        return {name: np.array(plain(value)) for name, value in capture.items()}

    def _layer_answers(self, arrays: Mapping[int, Any], inputs: Sequence[Any], key: Any) -> Any:
        def answer(arrays: Mapping[int, Any], inputs: Sequence[Any], key: Any) -> Any:
            return self._in_training(self._parameters(arrays), inputs, key)[0]

        program = self._jax.make_jaxpr(answer)(arrays, inputs, key)
        names = {place: name for name, place in self.live.names.items()}
        given = self._jax.tree_util.tree_leaves((arrays, inputs, key))
        by_layer = layer_answers(program, given, [names.get(place) for place in sorted(arrays)])
        self._layer_names = list(by_layer)  # a compiled function keeps no order of names
        return list(by_layer.values())

    def _named(self, kind: str, tree: Any) -> dict[str, Any]:
        names = {place: name for name, place in self.live.names.items()}
        values = self._jax.tree_util.tree_leaves(tree)
        if len(values) != len(self._places):
            return {}
        return {f"{kind}/{names[place]}": value for place, value in zip(self._places, values, strict=True)}

    def _slots(self, state: Any) -> dict[str, Any]:
        """The moments in a state of optax, wherever in a chain they lie."""
        slots: dict[str, Any] = {}
        for attribute, kind in _SLOTS.items():
            if hasattr(state, attribute):
                slots |= self._named(kind, getattr(state, attribute))
        for part in state if isinstance(state, tuple | list) else ():
            slots |= self._slots(part)
        return slots

    def answers(self, inputs: Sequence[Array]) -> Array:
        return np.array(plain(self._answer(self._arrays(), self.live.turned(inputs))))

    def loss_of(self, answers: Array, targets: Array) -> float:
        return float(self._loss(self._jax.numpy.asarray(answers), _target(targets)))

    # --- settings

    @property
    def count(self) -> int:
        """Steps since the training began."""
        return self._count

    def trained_numbers(self) -> int:
        """How many numbers the optimizer changes."""
        return sum(self.trained_sizes())

    def trained_names(self) -> list[str]:
        """The names of the tensors that the optimizer changes, in the order in which it sees them."""
        names = {place: name for name, place in self.live.names.items()}
        return [names[place] for place in self._places]

    def trained_sizes(self) -> list[int]:
        """How many numbers each of these tensors has."""
        return [int(self.live.leaves[place].size) for place in self._places]

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        return self.measured_optimizer().rates(range(sum(epochs)))

    def measured_optimizer(self) -> MeasuredOptimizer:
        """What the optimizer does; it is let take steps once."""
        optimizer = self.objects.optimizer
        if self._measured is None or self._measured[0] is not optimizer:
            self._measured = optimizer, measured_optimizer(optimizer, self._trained(self._arrays()))
        return self._measured[1]

    def measured_loss(self) -> FittedLoss | None:
        """What the loss computes; None where no known kind of loss predicts its calls."""
        loss = self.objects.loss
        if self._measured_loss is None or self._measured_loss[0] is not loss:
            self._measured_loss = loss, self._fitted_loss()
        return self._measured_loss[1]

    def _fitted_loss(self) -> FittedLoss | None:
        shape = self._jax.eval_shape(self._applied, self._arrays(), self.live.examples()).shape[1:]
        if not 0 < prod(shape) <= _LARGEST_PROBE:
            return None
        with self._jax.enable_x64(True):
            loss = self._jax.jit(self._loss)
            return fitted_loss(lambda answer, target: float(loss(answer, target)), shape)


def _target(targets: Array) -> Array:
    return targets.astype(np.int32) if targets.dtype.kind in "iub" else targets


def _takes(function: Callable[..., Any] | None, name: str) -> bool:
    try:
        return function is not None and name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
