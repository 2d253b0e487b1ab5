"""Keras Applications, and any functional Keras model, by walking the calls it is made of. Nothing is exported.

A model is built without initialising a single variable, which is what takes the time otherwise: under
`keras.StatelessScope(initialize_variables=False)` a variable is only a shape and an intention.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.base.errors import MissingDependency, ModelError, UnknownName
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.importers.keras.custom_layers import inside_layer
from zoolens.findings.graph.importers.keras.keras_layers import LAYERS
from zoolens.findings.graph.importers.keras.operations import SEVERAL as _SEVERAL
from zoolens.findings.graph.importers.keras.operations import operation
from zoolens.findings.graph.importers.keras.recurrent import bidirectional, recurrent
from zoolens.findings.graph.importers.keras.walk import Handler, KerasCall, KerasWalk, Ref, axes_name
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Array, Graph, Shape
from zoolens.findings.graph.ir.seeded_values import seeded_values
from zoolens.findings.graph.ir.vocabulary import OPAQUE
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments

_FALLBACK: Final = (224, 224)  # for models whose own default leaves the size open (MobileNetV3)
_BACKENDS: Final = ("jax", "tensorflow", "torch")  # measured: 1.6, 5 and 8 s to import, and JAX infers shapes fastest


def load(request: Request) -> Graph:
    """A model of keras.applications, in this process, whose Keras is imported here unless it already was."""
    model = build(request)
    if request.weights:
        randomise(model)
    return graph_of_keras_model(model, name=request.subject, weights=request.weights, size=request.size or _FALLBACK)


def build(request: Request) -> Any:
    """The model, initialised only if weights are asked for."""
    keras = _keras()
    makers = {name: maker for name, maker in vars(keras.applications).items() if name[0].isupper()}
    if request.subject not in makers:
        raise UnknownName("model of keras.applications", request.subject, makers)
    options: dict[str, Any] = {**_plain(request), "weights": None}  # structure needs no weights, and none are read
    if request.size:
        options["input_shape"] = (*request.size, 3) if _channels_last(keras) else (3, *request.size)
    try:
        if request.weights:
            return makers[request.subject](**options)
        with keras.StatelessScope(initialize_variables=False):
            return makers[request.subject](**options)
    except (TypeError, ValueError) as error:
        first = str(error).strip().split("\n")[0]
        raise ModelError(f"keras.applications cannot build {request.subject}: {first}") from error


def _plain(request: Request) -> dict[str, Any]:
    """Numbers and names only: Keras would make an object of any class from a mapping."""
    arguments = plain_arguments(request.arguments)
    nested = next((name for name, value in arguments.items() if isinstance(value, Mapping)), None)
    if nested is not None:
        raise ModelError(f"The argument {nested} is not a number or a name.", hint="Remove it from the manifest.")
    return arguments


KERAS: Final = Importer(load=load, distributions=("keras",), seconds=0.5)


def _keras() -> Any:
    """Keras, with the cheapest backend that is installed where nothing has chosen one yet."""
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ:
        installed = (name for name in _BACKENDS if importlib.util.find_spec(name) is not None)
        os.environ["KERAS_BACKEND"] = next(installed, "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import keras
    except ImportError as error:
        raise MissingDependency("The Keras importer", "keras and one backend for it", "keras") from error
    return keras


def _channels_last(keras: Any) -> bool:
    return bool(keras.config.image_data_format() == "channels_last")


def randomise(model: Any) -> None:
    """Give every variable values by its name, norms' statistics too; what Keras draws is never the same twice."""
    for variable in model.weights:
        if not str(variable.dtype).startswith("int"):
            variable.assign(seeded_values(variable.path, tuple(variable.shape)))
    for layer in model._flatten_layers():
        if hasattr(layer, "finalize_state"):  # Normalization computes with copies of its variables
            layer.finalize_state()


def graph_of_keras_model(
    model: Any,
    *,
    name: str | None = None,
    weights: bool = False,
    size: tuple[int, int] | None = None,
    maps: Sequence[bool] = (),
) -> Graph:
    """The raw graph of a live functional (or built sequential) model; `size` fills in an image size it leaves open.
    `maps`: of each input, whether its last axis has the channels of a map, though it is no image. Where no layer
    slides a window over it, it is a sequence instead, whose axes are turned first."""
    return _graph(_keras(), model, _Wanted(name, weights, size, tuple(maps)))


def graph_and_answers(model: Any, fed: Sequence[Any], maps: Sequence[bool] = ()) -> tuple[Graph, dict[str, Array]]:
    """The raw graph, and what the layers answer to these inputs that nobody here computes, by the names of their nodes.

    `fed` are live tensors of batch 1. A layer is left out whose answer is not that of a whole call.
    """
    keras = _keras()
    live: dict[str, Any] = {}
    graph = _graph(keras, model, _Wanted(maps=tuple(maps), live=live, fed=tuple(fed)))
    opaque = [node.name for node in graph if node.op in OPAQUE and node.name in live]
    answers = {name: np.array(keras.ops.convert_to_numpy(live[name])) for name in opaque}
    return graph, answers


@dataclass(frozen=True)
class _Wanted:
    """What is asked of one reading of a model."""

    name: str | None = None
    weights: bool = False
    size: tuple[int, int] | None = None
    maps: tuple[bool, ...] = ()
    live: dict[str, Any] | None = None  # where to put the live tensor of every value, by name
    fed: tuple[Any, ...] = ()  # live inputs; only with `live`


def _graph(keras: Any, model: Any, wanted: _Wanted) -> Graph:
    function = _functional(model)
    builder = GraphBuilder(wanted.name or model.name, keep_weights=wanted.weights)
    variables = model.variables if wanted.weights else ()
    walk = KerasWalk(builder, _channels_last(keras), live=wanted.live, variables=variables)
    layers = model._flatten_layers(include_self=False)
    windows = any(hasattr(layer, "kernel_size") or hasattr(layer, "pool_size") for layer in layers)
    left = len(function.inputs) - len(wanted.maps)
    known = (*wanted.maps, *(False,) * left)
    inputs = [
        _input(walk, tensor, wanted.size, is_map, is_turned=is_map and not windows)
        for tensor, is_map in zip(function.inputs, known, strict=True)
    ]
    if wanted.live is not None:
        wanted.live.update(zip(inputs, wanted.fed, strict=True))
    outputs = _walked(walk, function, inputs, "")
    return walk.builder.finish(outputs, _facts(keras, model, walk.shape(inputs[0])))


def _functional(model: Any) -> Any:
    """What has the calls: the model itself, or the functional model inside a sequential one."""
    inner = getattr(model, "_functional", None) if hasattr(model, "_functional") else model
    if inner is None or not hasattr(inner, "_nodes_by_depth"):
        raise ModelError(
            f"The Keras model {model.name} is not made of layers that can be walked.",
            hint="Build it with the functional API, or give a sequential model an input shape.",
        )
    return inner


def _facts(keras: Any, model: Any, shape: Shape) -> Mapping[str, Any]:
    trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_weights)
    total = sum(int(np.prod(variable.shape)) for variable in model.weights)
    return {
        "library": "keras", "name": model.name, "version": keras.__version__, "input": list(shape),
        "parameters_total": total, "statistics": total - trainable,
    }  # fmt: skip


def _input(walk: KerasWalk, tensor: Any, size: tuple[int, int] | None, is_map: bool, *, is_turned: bool) -> str:
    shape = [1, *tensor.shape[1:]]
    rank = len(shape)
    if None in shape and size is not None and rank == 4:
        first = 1 if walk.channels_last else 2
        shape[first : first + 2] = [free or wanted for free, wanted in zip(shape[first:], size, strict=False)]
    if None in shape:
        raise ModelError(f"The Keras model {walk.builder.name} leaves its input size open.", hint="Give a size.")
    if is_turned:
        given = walk.builder.add("input", (), (shape[0], *shape[:0:-1]), source=tensor.name)
        return walk.builder.add("transpose", (given,), shape, source=tensor.name, perm=(0, *range(rank - 1, 0, -1)))
    axes = axes_name(rank, walk.channels_last) if rank == 4 or is_map else ""
    return walk.builder.add("input", (), shape, source=tensor.name, axes=axes)


def _walked(walk: KerasWalk, function: Any, inputs: list[str], prefix: str) -> list[str]:
    """Add the calls of a model in order of computation; the names of its outputs."""
    values = {id(tensor): name for tensor, name in zip(function.inputs, inputs, strict=True)}
    for depth in sorted(function._nodes_by_depth, reverse=True):
        for node in function._nodes_by_depth[depth]:
            if node.operation and not node.is_input:
                made = _called(walk, node, values, prefix)
                values.update((id(tensor), name) for tensor, name in zip(node.outputs, made, strict=True))
    return [values[id(tensor)] for tensor in function.outputs]


def _called(walk: KerasWalk, node: Any, values: dict[int, str], prefix: str) -> list[str]:
    target = node.operation
    source = f"{prefix}{target.name}"
    both = (node.arguments.args, node.arguments.kwargs)
    mask = _mask(walk, node, values, prefix)
    args, kwargs = (_referring(part, _known(walk, part, values, source)) for part in both)
    if hasattr(target, "_functional") or hasattr(target, "_nodes_by_depth"):
        given = KerasCall(target, args, kwargs, (), source).values
        return _walked(walk, _functional(target), list(given), f"{source}/")
    call = KerasCall(target, args, kwargs, _shapes(walk, node, values), source, mask)
    made = _made(walk, node, call, values)
    if walk.live is not None:
        walk.live.update(zip(made, _answers(walk.live, node, values), strict=True))
    return made


def _made(walk: KerasWalk, node: Any, call: KerasCall, values: dict[int, str]) -> list[str]:
    """The values of all outputs of a call: by its handler, by looking into it, or as an unknown layer's."""
    several = _SEVERAL.get(type(call.target).__name__) if _is_operation(type(call.target)) else None
    if several is not None:
        return several(walk, call)
    whole = recurrent(walk, call) or bidirectional(walk, call)
    if whole is not None:
        return whole
    handler = _handler(call.target)
    if handler is not None and len(call.shapes) == 1:
        return [handler(walk, call)]
    return inside_layer(walk, node, call, values, _walked) or _unknown_outputs(walk, call)


def _known(walk: KerasWalk, part: Any, values: Mapping[int, str], source: str) -> dict[int, str]:
    """What stands for each tensor among the arguments, by its identity: values, variables, and arrays that were
    computed already when the call was made."""
    import keras

    known = {**values, **walk.learned_values(part, source)}
    for item in keras.tree.flatten(part):
        is_array = isinstance(item, np.ndarray) or keras.ops.is_tensor(item)
        if is_array and id(item) not in known and len(item.shape):
            array = np.asarray(keras.ops.convert_to_numpy(item))
            known[id(item)] = walk.given_array(array, source)
    return known


def _mask(walk: KerasWalk, node: Any, values: dict[int, str], prefix: str) -> str | None:
    """The mask that Keras keeps beside the first tensor of a call. Its own calls may be none of the model's."""
    tensors = [tensor for tensor in node.input_tensors if getattr(tensor, "_keras_mask", None) is not None]
    for tensor in tensors:
        _reached(walk, tensor._keras_mask, values, prefix)
    if tensors and tensors[0] is node.input_tensors[0]:
        return values.get(id(tensors[0]._keras_mask))
    return None


def _reached(walk: KerasWalk, tensor: Any, values: dict[int, str], prefix: str) -> None:
    """Walk the calls that make a tensor, unless they were walked already."""
    history = getattr(tensor, "_keras_history", None)
    if id(tensor) in values or history is None:
        return
    node = history.operation._inbound_nodes[history.node_index]
    if node.is_input:
        return
    for given in node.input_tensors:
        _reached(walk, given, values, prefix)
    if all(id(given) in values for given in node.input_tensors):
        made = _called(walk, node, values, prefix)
        values.update((id(output), name) for output, name in zip(node.outputs, made, strict=True))


def _answers(live: Mapping[str, Any], node: Any, values: Mapping[int, str]) -> list[Any]:
    """What a call answers, computed by Keras in evaluation mode."""
    import keras

    def live_tensor(item: Any) -> Any:
        return live[values[id(item)]] if id(item) in values else item

    args, kwargs = node.arguments.convert(live_tensor)
    if "training" in getattr(node.operation, "_call_context_args", {}):
        kwargs = {**kwargs, "training": False}
    answered = node.operation(*args, **kwargs)
    return list(keras.tree.flatten(answered))


def _unknown_outputs(walk: KerasWalk, call: KerasCall) -> list[str]:
    first = walk.unknown(call)
    rest = enumerate(call.shapes[1:], start=1)
    return [first, *(walk.add("output_of", call, inputs=[first], shape=shape, index=index) for index, shape in rest)]


def _handler(target: Any) -> Handler | None:
    """The handler of the nearest class of Keras itself; None for a subclass that overrides `call`, which computes
    something else."""
    for kind in type(target).__mro__:
        if kind.__module__.split(".")[0] == "keras":
            handler = operation(kind.__name__) if _is_operation(kind) else LAYERS.get(kind.__name__)
            if handler is not None:
                return handler
        if "call" in vars(kind):
            return None
    return None


def _is_operation(kind: type) -> bool:
    return ".ops." in kind.__module__ or ".activations.activations" in kind.__module__


def _referring(tree: Any, values: Mapping[int, str]) -> Any:
    """Arguments with every symbolic tensor replaced by a reference to our value."""
    if id(tree) in values:
        return Ref(values[id(tree)])
    if isinstance(tree, list | tuple):
        return tuple(_referring(item, values) for item in tree)
    if isinstance(tree, dict):
        return {key: _referring(item, values) for key, item in tree.items()}
    return tree


def _shapes(walk: KerasWalk, node: Any, values: Mapping[int, str]) -> tuple[Shape, ...]:
    """Shapes of a call's outputs for batch 1: as recorded, or inferred again where the model leaves a size open."""
    recorded = [(1, *tensor.shape[1:]) for tensor in node.outputs]
    if all(None not in shape for shape in recorded):
        return tuple(recorded)
    import keras

    def sized(item: Any) -> Any:
        if id(item) in values:
            return keras.KerasTensor(walk.shape(values[id(item)]), item.dtype)
        return item

    args, kwargs = node.arguments.convert(sized)
    with keras.StatelessScope(initialize_variables=False):
        inferred = node.operation.compute_output_spec(*args, **kwargs)
    return tuple(tuple(spec.shape) for spec in keras.tree.flatten(inferred))
