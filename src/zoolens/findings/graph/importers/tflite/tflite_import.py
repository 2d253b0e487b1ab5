"""TFLite files, float and quantised. Values are NHWC; kernels are turned to (out, in/groups, height, width)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Importer, Request, counted, model_path
from zoolens.findings.graph.importers.input_shapes import fixed_batch, image_axes, sized, with_extents
from zoolens.findings.graph.importers.quantised_relu import settle
from zoolens.findings.graph.importers.tflite.tflite_arrangement import ARRANGEMENT, folded
from zoolens.findings.graph.importers.tflite.tflite_layers import LAYERS
from zoolens.findings.graph.importers.tflite.translation import TfliteCall, TfliteTranslation, constant
from zoolens.findings.graph.importers.translation import damage_at
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph, TfliteOperator, read_graph, tensor_labels
from zoolens.inventory.runtimes.runtime import TensorSpec

_OPERATORS: Final[dict[str, Callable[[TfliteCall], None]]] = {**LAYERS, **ARRANGEMENT}


def load(request: Request) -> Graph:
    path = model_path(request)
    file = read_graph(path)
    _check(file)
    state = _opened(file, path.stem, weights=request.weights)
    for index in file.inputs:
        _add_input(state, index, request)
    for index, tensor in enumerate(file.tensors):
        if tensor.constant:
            state.values.setdefault(str(index), constant(state, index))
    for operator in file.operators:
        _translate(state, operator)
    settle(state)
    outputs = dict.fromkeys(state.value(str(index)) for index in file.outputs)
    facts: dict[str, Any] = {"format": "tflite"}
    if any(tensor.scales for tensor in state.tensors):
        facts["quantised"] = True
    if request.weights:
        facts["tensors"] = state.makers(lambda key: state.labels[int(key)])
    return counted(state.builder.finish(outputs, facts))


def _check(file: TfliteGraph) -> None:
    """Every tensor that is named exists, and is made once, before it is used."""
    kept = (index for index, tensor in enumerate(file.tensors) if tensor.constant or tensor.variable)
    made = {-1, *file.inputs, *kept}
    for operator in file.operators:
        if not operator.outputs or not made.issuperset(operator.inputs) or made.intersection(operator.outputs):
            raise ModelError("The TFLite graph is damaged: an operator uses a tensor that nothing makes before it.")
        made.update(operator.outputs)
    named = {*made, *file.outputs}
    if not file.outputs or not made.issuperset(file.outputs) or not named <= set(range(-1, len(file.tensors))):
        raise ModelError("The TFLite graph is damaged: it names tensors that are not there.")


def _opened(file: TfliteGraph, name: str, *, weights: bool) -> TfliteTranslation:
    labels = tensor_labels(file)
    uses = Counter(str(index) for operator in file.operators for index in operator.inputs)
    uses.update(str(index) for index in file.outputs)
    batch = fixed_batch(file.tensors[index].shape for index in file.inputs)
    builder = GraphBuilder(name, keep_weights=weights)
    return TfliteTranslation(builder, uses, batch, tensors=file.tensors, labels=labels)


def _add_input(state: TfliteTranslation, index: int, request: Request) -> None:
    tensor = state.tensors[index]
    free = tensor.free or (False,) * len(tensor.shape)
    shape = tuple(None if open_ else extent for extent, open_ in zip(tensor.shape, free, strict=False))
    spec = TensorSpec(state.labels[index], shape, tensor.dtype)
    fixed = sized(with_extents(spec, request.extents), request.size)
    state.original &= fixed[1:] == tensor.shape[1:]
    axes = image_axes(shape)
    state.values[str(index)] = state.add("input", (), fixed, source=state.labels[index], axes=axes)


def _translate(state: TfliteTranslation, operator: TfliteOperator) -> None:
    call = TfliteCall(operator, state)
    with np.errstate(all="ignore"), damage_at(call):
        if not folded(call):
            _OPERATORS.get(call.kind, TfliteCall.unknown)(call)
        call.check_answered()


TFLITE: Final = Importer(load, distributions=())
