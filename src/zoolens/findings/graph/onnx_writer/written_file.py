"""A canonical graph with weights as an ONNX file.

The same graph gives the same bytes. Values are float32, the opset is fixed, and the batch is free where the graph
allows it (`free_batch`). Quantised models are written as the real numbers they stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.base.paths import replaced_file
from zoolens.findings.graph.ir.model import Graph, Node, pruned
from zoolens.findings.graph.onnx_writer.arithmetic import ARITHMETIC
from zoolens.findings.graph.onnx_writer.onnx_graph import Kind, NodeWriter, OnnxDraft
from zoolens.findings.graph.onnx_writer.pools import POOLS
from zoolens.findings.graph.onnx_writer.written_arrangement import ARRANGEMENT
from zoolens.findings.graph.onnx_writer.written_layers import LAYERS

OPSET: Final = 17  # the first with LayerNormalization; runtimes of the last years all read it
IR_VERSION: Final = 8  # what opset 17 came with
MAX_BYTES: Final = 2_000_000_000  # a protobuf message ends at 2 GiB
BATCH: Final = "N"

RULES: Final[dict[str, Callable[[NodeWriter], str]]] = {**LAYERS, **POOLS, **ARITHMETIC, **ARRANGEMENT}


def write_onnx(graph: Graph, path: str | Path) -> Path:
    """Write the file, whole or not at all, and return its path; ModelError names what cannot be written."""
    target = Path(path)
    write_whole(target, onnx_bytes(graph))
    return target


def write_whole(target: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever else writes it; ModelError where it cannot be written."""
    try:
        with replaced_file(target) as file:
            file.write(content)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ModelError(f"{target} cannot be written: {why}.", hint="Name another folder.") from error


def onnx_bytes(graph: Graph) -> bytes:
    """The content of the file, checked by the `onnx` package."""
    onnx = _onnx()
    model = _model(onnx, graph)
    content: bytes = model.SerializeToString(deterministic=True)
    try:
        onnx.checker.check_model(content)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"{graph.name} cannot be written as ONNX: {str(error).splitlines()[0]}") from error
    return content


def batch_is_free(graph: Graph) -> bool:
    """Whether the file will take any number of examples at a time, and not only one."""
    return OnnxDraft(pruned(graph)).free


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingDependency("Writing ONNX", "onnx", "onnx") from error
    return onnx


def _model(onnx: Any, graph: Graph) -> Any:
    draft = _filled(pruned(graph))
    size = sum(tensor.nbytes for tensor in draft.tensors.values())
    if size > MAX_BYTES:
        raise ModelError(f"{graph.name} has {size:,} bytes of weights; one ONNX file holds {MAX_BYTES:,}.")
    nodes = [
        onnx.helper.make_node(step.op, list(step.inputs), [step.output], name=step.output, **step.attributes)
        for step in draft.operators
    ]
    inputs = [_value_info(onnx, draft, node, node.name) for node in draft.graph.inputs]
    outputs = [_value_info(onnx, draft, draft.graph.by_name[name], draft.values[name]) for name in draft.graph.outputs]
    tensors = [onnx.numpy_helper.from_array(values, name) for name, values in draft.tensors.items()]
    drawn = onnx.helper.make_graph(nodes, graph.name or "graph", inputs, outputs, tensors)
    opset = onnx.helper.make_opsetid("", OPSET)
    return onnx.helper.make_model(drawn, opset_imports=[opset], ir_version=IR_VERSION, producer_name="zoolens")


def _filled(graph: Graph) -> OnnxDraft:
    draft = OnnxDraft(graph)
    for node in graph.nodes:
        if node.op == "input":
            draft.values[node.name] = node.name
            draft.kinds[node.name] = _input_kind(graph, node)
        else:
            _write(draft, node)
    for node in map(graph.by_name.__getitem__, dict.fromkeys(graph.outputs)):
        if draft.values[node.name] != node.name or node.op == "input":
            _name_output(draft, node)
    return draft


def _write(draft: OnnxDraft, node: Node) -> None:
    call = NodeWriter(draft, node)
    rule = RULES.get(node.op)
    if rule is None:
        raise call.refused(f"there is no way to write {str(node.get('source_op') or node.op)[:60]!r}")
    try:
        draft.settle(node, rule(call))
    except (AssertionError, KeyError, IndexError, TypeError, ValueError) as error:
        raise call.refused(f"it lacks what it must have ({type(error).__name__}: {error})") from error


def _name_output(draft: OnnxDraft, node: Node) -> None:
    """An output has an operator of its own: it may not be an input or a tensor of the file."""
    value = draft.values[node.name]
    draft.values[node.name] = draft.emit(node, "Identity", (value,), draft.kinds[value])


def _input_kind(graph: Graph, node: Node) -> Kind:
    """Indices where an embedding looks them up, real numbers otherwise."""
    users = graph.consumers[node.name]
    if users and all(user.op == "embedding" for user in users):
        return "int"
    return "float"


def _value_info(onnx: Any, draft: OnnxDraft, node: Node, name: str) -> Any:
    types = {"float": onnx.TensorProto.FLOAT, "int": onnx.TensorProto.INT64, "bool": onnx.TensorProto.BOOL}
    shape = [BATCH, *node.shape[1:]] if draft.free else list(node.shape)
    return onnx.helper.make_tensor_value_info(name, types[draft.kinds[name]], shape)
