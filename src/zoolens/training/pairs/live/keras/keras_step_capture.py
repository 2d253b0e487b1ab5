"""What one training step of a Keras model computed: its layers' answers, gradients, slots and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from zoolens.training.pairs.networks.framework import Array, plain
from zoolens.training.pairs.optimizers.keras_slots import slots


def captured(
    model: Any,
    tensors: Mapping[str, Any],
    optimizer: Any,
    inputs: Any,
    compute: Callable[[], tuple[Any, Sequence[Any]]],
    update: Callable[[Sequence[Any]], None],
) -> dict[str, Array]:
    """`tensors`: variables by name. `compute` returns the loss and the gradients of the trainable variables, and
    changes the statistics of norms; `update` clips the gradients and changes the variables."""
    capture = _answers(model, inputs)
    loss, gradients = compute()
    learned = list(model.trainable_variables)
    place = {id(variable): number for number, variable in enumerate(learned)}
    names = {name: variable for name, variable in tensors.items() if id(variable) in place}
    given = {name: gradients[place[id(variable)]] for name, variable in names.items()}
    scale = float(getattr(optimizer, "dynamic_scale", 1.0))  # of an optimizer that scales the loss
    capture |= {f"gradient/{name}": as_array(value) / scale for name, value in given.items() if value is not None}
    capture["loss"] = as_array(loss)
    update(gradients)
    return capture | updated_state(tensors, learned, optimizer)


def updated_state(tensors: Mapping[str, Any], learned: Sequence[Any], optimizer: Any) -> dict[str, Array]:
    """What an update made: tensors, statistics and moments. `learned`: the trainable variables in the order in which
    the optimizer has them. Moments without a factor (`keras_slots.slots`) are left out: nothing of torch is beside
    them."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
    place = {id(variable): number for number, variable in enumerate(learned)}
    names = {name: place[id(variable)] for name, variable in tensors.items() if id(variable) in place}
    state = {f"{'tensor' if n in names else 'statistic'}/{n}": as_array(v.value) for n, v in tensors.items()}
    for name, position in names.items():
        for slot, (moment, factor) in slots(inner, position).items():
            if factor is not None:
                state[f"{slot}/{name}"] = as_array(moment.value) * factor
    return state


def _answers(model: Any, inputs: Any) -> dict[str, Array]:
    """The answers of the layers in training mode, by a call that changes no variable."""
    import keras

    learned = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    with watched(model) as watched_arrays:
        answer, _ = model.stateless_call(learned, others, inputs, training=True)
    arrays = dict(watched_arrays)
    outputs = [tensor for tensor in keras.tree.flatten(answer) if "float" in str(tensor.dtype)]
    return arrays | {f"output/{number}": as_array(tensor) for number, tensor in enumerate(outputs)}


@contextmanager
def watched(model: Any) -> Iterator[dict[str, Array]]:
    """Keep what each layer with variables of its own answers, in the order of the calls; of dense layers and
    convolutions what they compute before their own activation, which elsewhere is a layer behind them."""
    import keras

    answers: dict[str, Array] = {}
    undo: list[Callable[[], None]] = []
    for layer in model._flatten_layers(include_self=False):
        if not layer._trainable_variables and not layer._non_trainable_variables:
            continue
        path = _path(layer)
        attribute = "activation" if _has_activation(keras, layer) else "call"
        undo.append(_watch(layer, attribute, f"activation/{path}", answers))
    try:
        yield answers
    finally:
        for step in undo:
            step()


def _has_activation(keras: Any, layer: Any) -> bool:
    kinds = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D.__mro__[1])
    depthwise = (keras.layers.DepthwiseConv2D.__mro__[1], keras.layers.SeparableConv2D.__mro__[1])
    return isinstance(layer, (*kinds, *depthwise)) and layer.activation is not None


def _path(layer: Any) -> str:
    """The layer as it stands in the names of its variables: "block/norm" of "block/norm/gamma"."""
    variables = [*layer._trainable_variables, *layer._non_trainable_variables]
    return str(variables[0].path).rpartition("/")[0]


def _watch(layer: Any, attribute: str, name: str, answers: dict[str, Array]) -> Callable[[], None]:
    """Replace a function of the layer by one that keeps its input (of an activation) or its answer (of a call)."""
    import keras

    original = getattr(layer, attribute)
    own = attribute in vars(layer)

    def watching(*given: Any, **named: Any) -> Any:
        answer = original(*given, **named)
        kept = keras.tree.flatten(given[0] if attribute == "activation" else answer)[0]
        free, count = name, 2
        while free in answers:
            free, count = f"{name}#{count}", count + 1
        answers[free] = as_array(kept)
        return answer

    object.__setattr__(layer, attribute, watching)

    def undo() -> None:
        if own:
            object.__setattr__(layer, attribute, original)
        else:
            object.__delattr__(layer, attribute)

    return undo


def as_array(value: Any) -> Array:
    """A copy in float32, or float64 where the tensor has it."""
    import keras

    return np.array(plain(keras.ops.convert_to_numpy(value)))
