"""Looks into layers that users of Keras write themselves: their `call` is called once more, with symbolic tensors.

What it computes is then walked like any model. A layer whose `call` does not take symbolic tensors, such as one that
uses functions of a backend, stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zoolens.graph.importers.keras.walk import KerasCall, KerasWalk

Walked = Callable[[KerasWalk, Any, list[str], str], list[str]]


def inside_layer(
    walk: KerasWalk, node: Any, call: KerasCall, values: Mapping[int, str], walked: Walked
) -> list[str] | None:
    """The values that a user's own layer makes, or None where nothing can be seen inside it."""
    import keras

    layer = node.operation
    if not isinstance(layer, keras.Layer) or type(layer).__module__.partition(".")[0] == "keras":
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
        return inputs.setdefault(name, keras.Input(batch_shape=walk.shape(name), dtype=item.dtype))

    args, kwargs = node.arguments.convert(symbolic)
    try:
        with _replaced(layer, learned):
            outputs = layer.call(*args, **{**kwargs, **({"training": False} if "training" in kwargs else {})})
        function = keras.Function([*inputs.values(), *learned.values()], outputs)
    except Exception:  # the user's code may raise anything where it is given symbolic tensors
        return None
    if tuple((1, *tensor.shape[1:]) for tensor in function.outputs) != call.shapes:
        return None
    leaves = [walk.learned_value(variable, f"{call.source}/{name}") for name, variable in variables.items()]
    return walked(walk, function, [*inputs, *leaves], f"{call.source}/")


@contextmanager
def _replaced(layer: Any, attributes: Mapping[str, Any]) -> Iterator[None]:
    """The layer with other attributes for a while. Its own way to set attributes would track them."""
    before = {name: vars(layer)[name] for name in attributes}
    try:
        vars(layer).update(attributes)
        yield
    finally:
        vars(layer).update(before)
