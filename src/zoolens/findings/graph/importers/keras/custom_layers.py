"""Looks into layers that users of Keras write themselves: their `call` is called once more, with symbolic tensors.

What it computes is then walked like any model. A layer whose `call` does not take symbolic tensors, such as one that
uses functions of a backend, stays unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from zoolens.findings.graph.importers.keras.walk import KerasCall, KerasWalk

_COUNTS: Final = "object_name_uids"
Walked = Callable[[KerasWalk, Any, list[str], str], list[str]]


def inside_layer(
    walk: KerasWalk, node: Any, call: KerasCall, values: Mapping[int, str], walked: Walked
) -> list[str] | None:
    """The values that a user's own layer makes, or None where nothing can be seen inside it."""
    import keras

    layer = node.operation
    if not isinstance(layer, keras.Layer):
        return None
    variables = {name: value for name, value in vars(layer).items() if isinstance(value, keras.Variable)}
    learned = {
        name: keras.Input(batch_shape=variable.shape, dtype=variable.dtype) for name, variable in variables.items()
    }
    inputs: dict[str, Any] = {}

    def symbolic(item: Any) -> Any:
        if id(item) not in values:
            return item
        name = values[id(item)]
        if name not in inputs:
            inputs[name] = keras.Input(batch_shape=walk.shape(name), dtype=item.dtype)
            mask = getattr(item, "_keras_mask", None)
            if mask is not None and id(mask) in values:
                inputs[name]._keras_mask = symbolic(mask)
        return inputs[name]

    args, kwargs = node.arguments.convert(symbolic)
    try:
        with steady_names(), _replaced(layer, {**learned, **_without_dropout(layer)}):
            outputs = layer.call(*args, **_masked(layer, args, {**kwargs, **_evaluating(kwargs)}))
        function = keras.Function([*inputs.values(), *learned.values()], outputs)
    except Exception:  # the user's code may raise anything where it is given symbolic tensors
        return None
    if not all(_fits(tensor.shape, shape) for tensor, shape in zip(function.outputs, call.shapes, strict=True)):
        return None
    leaves = [walk.learned_value(variable, f"{call.source}/{name}") for name, variable in variables.items()]
    return walked(walk, function, [*inputs, *leaves], f"{call.source}/")


def _evaluating(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {"training": False} if "training" in kwargs else {}


def _without_dropout(layer: Any) -> dict[str, Any]:
    """Attention that drops weights is computed in another way, of which Keras does not know the shapes. In evaluation
    it drops none."""
    is_attention = type(layer).__module__.startswith("keras.") and isinstance(vars(layer).get("_dropout"), float)
    return {"_dropout": 0.0} if is_attention else {}


def _masked(layer: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the masks of its tensors, which Keras adds when it calls a layer."""
    names = list(layer._call_signature.parameters)
    tensors = {**dict(zip(names, args, strict=False)), **kwargs}
    masks: dict[str, Any] = {}
    for name, value in tensors.items():
        argument = f"{name}_mask"
        mask = getattr(value, "_keras_mask", None)
        if mask is not None and argument in names:
            masks[argument] = mask
    return {**masks, **kwargs}


def _fits(recorded: Sequence[int | None], wanted: Sequence[int]) -> bool:
    """Whether a shape is the wanted one, as far as it is known."""
    return len(recorded) == len(wanted) and all(
        have in (None, want) for have, want in zip(recorded[1:], wanted[1:], strict=True)
    )


@contextmanager
def steady_names() -> Iterator[None]:
    """Keras counts the operations of each kind to name them; what is called again here has its first names again."""
    from keras.src.backend.common import global_state

    counted = global_state.get_global_attribute(_COUNTS)
    global_state.set_global_attribute(_COUNTS, defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_COUNTS, counted)


@contextmanager
def _replaced(layer: Any, attributes: Mapping[str, Any]) -> Iterator[None]:
    """The layer with other attributes for a while. Its own way to set attributes would track them."""
    before = {name: vars(layer)[name] for name in attributes}
    try:
        vars(layer).update(attributes)
        yield
    finally:
        vars(layer).update(before)
