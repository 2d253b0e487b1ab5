"""ONNX files, opset 7 to 23, from torch, tf2onnx, MXNet, caffe2 and Keras, float or quantised.

The bytes are read by `onnx_file`: no `onnx` package is needed. Shapes are worked out here, from the inputs on;
the file's own are used for operators nobody knows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Importer, Request, counted, model_path
from zoolens.findings.graph.importers.input_shapes import fixed_batch, image_axes, sized, with_extents
from zoolens.findings.graph.importers.onnx import blocked
from zoolens.findings.graph.importers.onnx.arithmetic import ARITHMETIC
from zoolens.findings.graph.importers.onnx.attention import ATTENTION, FUSED_ATTENTION
from zoolens.findings.graph.importers.onnx.constant_folding import folded
from zoolens.findings.graph.importers.onnx.contributed import CONTRIBUTED
from zoolens.findings.graph.importers.onnx.empty_caches import with_empty_caches
from zoolens.findings.graph.importers.onnx.onnx_arrangement import ARRANGEMENT
from zoolens.findings.graph.importers.onnx.onnx_layers import LAYERS
from zoolens.findings.graph.importers.onnx.output_shapes import OTHER_OPERATORS, output_shapes
from zoolens.findings.graph.importers.onnx.quantised import QUANTISED, RESCALED, real_numbers, scaled_tables
from zoolens.findings.graph.importers.onnx.subgraphs import HOLDING, call_function
from zoolens.findings.graph.importers.onnx.translation import OnnxCall, OnnxTranslation
from zoolens.findings.graph.importers.quantised_relu import settle
from zoolens.findings.graph.importers.translation import damage_at
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.file_operators import OPERATORS
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.rotary_tables import with_rotary_tables
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode, read_graph
from zoolens.inventory.runtimes.runtime import TensorSpec

_STANDARD: Final[dict[str, Callable[[OnnxCall], None]]] = {
    **LAYERS, **ARITHMETIC, **ARRANGEMENT, **QUANTISED, **RESCALED, **HOLDING, **ATTENTION
}  # fmt: skip
# ONNX Runtime has quantised operators of its own, some under a domain and some without.
_OPERATORS: Final[dict[str, dict[str, Callable[[OnnxCall], None]]]] = {
    "": _STANDARD,
    "ai.onnx": _STANDARD,
    "com.microsoft": {**_STANDARD, **CONTRIBUTED, **FUSED_ATTENTION},
    blocked.DOMAIN: blocked.BLOCKED,
}
_MULTIPLYING: Final = frozenset(
    {"Conv", "ConvTranspose", "DeformConv", "Gemm", "MatMul", "Einsum", "Attention", "LSTM", "GRU", "RNN",
     "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "If", "Loop", "Scan", "SequenceMap", "DFT", "STFT"}
)  # fmt: skip
_COSTLESS: Final = (
    frozenset(
        {
            *_STANDARD,
            *OTHER_OPERATORS,
            "NonMaxSuppression",
            "NonZero",
            "Unique",
            "Compress",
            "SequenceAt",
            "SequenceEmpty",
        }
        | {"SequenceConstruct", "SequenceInsert", "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Optional"}
    )
    - _MULTIPLYING
)
_LEARNED: Final = ("float32", "float16", "float64", "bfloat16")
_PART: Final = re.compile(r"[./:]")


def load(request: Request) -> Graph:
    path = model_path(request)
    return translated(read_graph(path), path, request)


def translated(file: OnnxGraph, path: Path, request: Request, format_: str = "onnx") -> Graph:
    """The raw graph of a file whose operators are ONNX's, or were written as these. `path`: beside which constants of
    other files lie."""
    file.sort()
    file.check()
    file, assumed, known = with_empty_caches(file, path.name, request.extents)
    state = _opened(file, path, weights=request.weights)
    state.translate = partial(_translate, state)
    state.given = {name: tuple(shape) for name, shape in request.extents.items()}
    for spec in file.inputs:
        _add_input(state, with_extents(spec, request.extents), request.size)
    state.values.update(assumed)
    constants = {name: state.constant(tensor, name) for name, tensor in file.constants.items()}
    state.values.update(constants)
    for name, node in scaled_tables(file).items():
        scale, zero = (constants.get(given) for given in (*node.inputs, "")[1:3])
        state.values[name] = real_numbers(constants[name], scale, zero)
        state.scaled_early.update(node.outputs)
    with np.errstate(all="ignore"):
        for node in file.nodes:
            state.translate(node)
    settle(state)
    outputs = [state.value(spec.name) for spec in file.outputs]
    facts: dict[str, Any] = {"format": format_, "opset": file.opset, "producer": file.producer[:80], **known}
    if any(node.op in QUANTISED for node in file.nodes):
        facts["quantised"] = True
    if request.weights:
        facts["tensors"] = state.makers()
        facts[OPERATORS] = state.operators
    graph = counted(state.builder.finish(dict.fromkeys(outputs), facts))
    graph = with_rotary_tables(graph, {name: constant.load() for name, constant in state.tables.items()})
    idle = _idle(file)
    total = int(graph.facts["parameters_total"]) + sum(idle.values())
    return replace(graph, facts={**graph.facts, "parameters_total": total, "unused": idle}) if idle else graph


def _idle(file: OnnxGraph) -> dict[str, int]:
    """Stored numbers that lead to no output, such as those of an auxiliary head, by the first part of their names.
    Unknown, and so none, where nodes have graphs of their own, which may use any tensor of this one."""
    if any(node.has_subgraph for node in file.nodes):
        return {}
    makers = {name: node for node in file.nodes for name in node.outputs}
    used = {spec.name for spec in file.outputs}
    waiting = list(used)
    while waiting:
        node = makers.get(waiting.pop())
        fresh = set(node.inputs) - used if node else set()
        used |= fresh
        waiting += fresh
    idle: Counter[str] = Counter()
    for name, tensor in file.constants.items():
        if name not in used and tensor.dtype in _LEARNED and prod(tensor.shape) > 1:
            idle[_PART.split(name)[0][:60] or name[:60]] += prod(tensor.shape)
    return dict(idle)


def _opened(file: OnnxGraph, path: Path, *, weights: bool) -> OnnxTranslation:
    made = Counter(name for node in file.nodes for name in node.outputs if name)
    twice = next((name for name, count in made.items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"The ONNX graph is damaged: the tensor {twice[:60]!r} is made twice.")
    uses = Counter(name for node in file.nodes for name in node.inputs)
    uses.update(spec.name for spec in file.outputs)
    specs = {**file.values, **{spec.name: spec for spec in (*file.inputs, *file.outputs)}}
    batch = fixed_batch(spec.shape for spec in file.inputs)
    builder = GraphBuilder(path.stem, keep_weights=weights)
    return OnnxTranslation(
        builder,
        uses,
        folder=path.parent,
        opset=file.opset or 9,
        batch=batch,
        specs=specs,
        functions=file.functions,
        channels=blocked.named_channels(file.nodes),
        costless=_COSTLESS,
        output_shapes=output_shapes,
    )


def _add_input(state: OnnxTranslation, spec: TensorSpec, size: tuple[int, int] | None) -> None:
    shape = sized(spec, size)
    if any(given not in (None, extent) for given, extent in zip(spec.shape[1:], shape[1:], strict=True)):
        state.original = False
    state.values[spec.name] = state.add("input", (), shape, source=spec.name, axes=image_axes(spec.shape))


def _translate(state: OnnxTranslation, node: OnnxNode) -> None:
    if not node.outputs or not any(node.outputs):
        return
    call = OnnxCall(node, state)
    function = state.functions.get((node.domain, node.op))
    with damage_at(call):
        if function is not None:
            call_function(call, function)
        elif not folded(call):
            _OPERATORS.get(node.domain, {}).get(node.op, OnnxCall.unknown)(call)
        call.check_answered()
        if state.builder.keep_weights:
            call.keep_operator()


ONNX: Final = Importer(load, distributions=())
