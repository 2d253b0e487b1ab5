"""Llamas as ONNX files with past keys and values, as optimum names their inputs and outputs, written operator by
operator.

`scripts/copy_language_model.py` writes real models with it, and tests write tiny ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.gguf.llama_settings import LlamaSettings, read_settings
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import tensor_values
from zoolens.inventory.runtimes.llamacpp.llama_tensors import in_halves, transformers_name, turned_heads

Array = NDArray[np.float32]

_MOST_BYTES: Final = 2**31 - 2**24  # of weights: a protobuf message has at most 2 GiB
_HIDDEN: Final = np.float32(np.finfo(np.float32).min)  # what is added to the score of a token that is not to be seen
_OPSET: Final = 17


def onnx_copy(source: Path, target: Path, *, position_ids: bool = True) -> Path:
    """The llama of a GGUF file as an ONNX file in float32. Without `position_ids` positions are counted inside."""
    file = read_gguf(source)
    settings = read_settings(file)
    _check_plain(file, settings)
    tensors = {tensor.name: tensor for tensor in file.tensors}

    def values(name: str) -> Array:
        found = tensor_values(source, tensors[name])
        heads = turned_heads(transformers_name(name) or "", settings.heads, settings.key_heads)
        return found if heads is None else in_halves(found, heads)

    graph = _Graph(values, frozenset(tensors))
    _write_network(graph, settings, position_ids=position_ids)
    if graph.unused:
        raise ModelError(f"{file.name} has the tensor {min(graph.unused)[:80]!r}, which a llama does not have.")
    graph.save(target, settings, int(tensors["token_embd.weight"].shape[0]), position_ids=position_ids)
    return target


def _check_plain(file: GgufFile, settings: LlamaSettings) -> None:
    if file.architecture != "llama" or settings.rope_scaling:
        raise ModelError(f"{file.name} is no llama with positions as they are, which alone are written.")
    if 4 * sum(tensor.size for tensor in file.tensors) > _MOST_BYTES:
        raise ModelError(f"{file.name} has more than 2 GB of weights in float32, which one ONNX file cannot hold.")


class _Graph:
    """Nodes and constants so far."""

    def __init__(self, values: Callable[[str], Array], names: frozenset[str]) -> None:
        self._values, self.names, self.unused = values, names, set(names)
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def constant(self, *numbers: float, dtype: Any = np.int64, scalar: bool = False) -> str:
        """A vector of numbers, or the only one by itself."""
        values = np.array(numbers[0] if scalar else numbers, dtype)
        name = f"constant_{values.dtype}_{'x'.join(map(str, values.shape))}_{'_'.join(map(str, numbers))}"
        return self._kept(name, values)

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """The tensor that the GGUF file calls so."""
        self.unused.discard(name)
        values = self._values(name)
        return self._kept(transformers_name(name) or name, values.T if transposed else values)

    def _kept(self, name: str, values: Any) -> str:
        from onnx import numpy_helper

        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.array(values, order="C"), name)
        return name

    def extent(self, name: str, axis: int) -> str:
        return self.add("Gather", self.add("Shape", name), self.constant(axis, scalar=True), axis=0)

    def save(self, path: Path, settings: LlamaSettings, vocabulary: int, *, position_ids: bool) -> None:
        import onnx
        from onnx import TensorProto, helper

        text = ["batch_size", "sequence_length"]
        whole = ["batch_size", "past_sequence_length + sequence_length"]
        integers = {"input_ids": text, "attention_mask": whole, **({"position_ids": text} if position_ids else {})}
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in integers.items()]
        shape = [*text, vocabulary]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)]
        for layer in range(settings.layers):
            for part in ("key", "value"):
                for tensors, kind, length in ((inputs, "past_key_values", "past_sequence_length"),
                                              (outputs, "present", whole[1])):  # fmt: skip
                    extents = ["batch_size", settings.key_heads, length, settings.head_width]
                    name = f"{kind}.{layer}.{part}"
                    tensors.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, extents))
        graph = helper.make_graph(self._nodes, path.stem, inputs, outputs, list(self._constants.values()))
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="zoolens")
        onnx.save(model, str(path))


def _write_network(graph: _Graph, settings: LlamaSettings, *, position_ids: bool) -> None:
    add = graph.add
    past = graph.extent("past_key_values.0.key", 2)
    total = graph.extent("attention_mask", 1)
    one = graph.constant(1, scalar=True)
    places = add("Range", past, total, one)
    mask = _mask(graph, places, total, one)
    positions = "position_ids" if position_ids else add("Unsqueeze", places, graph.constant(0))
    turns = _turns(graph, positions, settings)
    states = add("Gather", graph.weight("token_embd.weight"), "input_ids", axis=0)
    for layer in range(settings.layers):
        normed = _norm(graph, states, f"blk.{layer}.attn_norm", settings)
        states = add("Add", states, _attention(graph, layer, normed, mask, turns, settings))
        normed = _norm(graph, states, f"blk.{layer}.ffn_norm", settings)
        states = add("Add", states, _feed_forward(graph, layer, normed))
    states = _norm(graph, states, "output_norm", settings)
    if "output.weight" in graph.names:
        table = graph.weight("output.weight", transposed=True)
    else:
        table = add("Transpose", graph.weight("token_embd.weight"), perm=[1, 0])
    add("MatMul", states, table, output="logits")


def _mask(graph: _Graph, places: str, total: str, one: str) -> str:
    """What is added to the scores of attention: batch × 1 × new tokens × all tokens."""
    add = graph.add
    keys = add("Range", graph.constant(0, scalar=True), total, one)
    earlier = add("LessOrEqual", keys, add("Unsqueeze", places, graph.constant(1)))
    real = add("Unsqueeze", add("Cast", "attention_mask", to=9), graph.constant(1, 2))
    seen = add("And", earlier, real)
    numbers = [graph.constant(number, dtype=np.float32, scalar=True) for number in (0.0, float(_HIDDEN))]
    return add("Where", seen, *numbers)


def _turns(graph: _Graph, positions: str, settings: LlamaSettings) -> tuple[str, str]:
    """Cosines and sines of rotary positions: batch × 1 × new tokens × width of a head."""
    rates = settings.rope_base ** (-np.arange(0, settings.head_width, 2) / settings.head_width)
    given = graph.add("Unsqueeze", graph.add("Cast", positions, to=1), graph.constant(2))
    half = graph.add("Mul", given, graph.constant(*rates, dtype=np.float32))
    angles = graph.add("Unsqueeze", graph.add("Concat", half, half, axis=-1), graph.constant(1))
    return graph.add("Cos", angles), graph.add("Sin", angles)


def _norm(graph: _Graph, states: str, name: str, settings: LlamaSettings) -> str:
    add = graph.add
    squares = add("Pow", states, graph.constant(2, dtype=np.float32, scalar=True))
    mean = add("ReduceMean", squares, axes=[-1], keepdims=1)
    root = add("Sqrt", add("Add", mean, graph.constant(settings.epsilon, dtype=np.float32, scalar=True)))
    return add("Mul", add("Div", states, root), graph.weight(f"{name}.weight"))


def _dense(graph: _Graph, states: str, name: str) -> str:
    made = graph.add("MatMul", states, graph.weight(f"{name}.weight", transposed=True))
    bias = f"{name}.bias"
    return graph.add("Add", made, graph.weight(bias)) if bias in graph.names else made


def _feed_forward(graph: _Graph, layer: int, states: str) -> str:
    add, block = graph.add, f"blk.{layer}"
    gate = _dense(graph, states, f"{block}.ffn_gate")
    joined = add("Mul", add("Mul", gate, add("Sigmoid", gate)), _dense(graph, states, f"{block}.ffn_up"))
    return _dense(graph, joined, f"{block}.ffn_down")


def _attention(graph: _Graph, layer: int, states: str, mask: str, turns: Sequence[str], settings: LlamaSettings) -> str:
    add, block = graph.add, f"blk.{layer}"
    queries = _rotated(graph, _heads(graph, states, f"{block}.attn_q", settings.heads, settings), turns, settings)
    keys = _rotated(graph, _heads(graph, states, f"{block}.attn_k", settings.key_heads, settings), turns, settings)
    values = _heads(graph, states, f"{block}.attn_v", settings.key_heads, settings)
    kept = [
        add("Concat", f"past_key_values.{layer}.{part}", new, output=f"present.{layer}.{part}", axis=2)
        for part, new in (("key", keys), ("value", values))
    ]
    keys, values = (_repeated(graph, each, settings) for each in kept)
    products = add("MatMul", queries, add("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = add("Mul", products, graph.constant(settings.head_width**-0.5, dtype=np.float32, scalar=True))
    shares = add("Softmax", add("Add", scores, mask), axis=-1)
    attended = add("Transpose", add("MatMul", shares, values), perm=[0, 2, 1, 3])
    rows = add("Reshape", attended, graph.constant(0, 0, settings.heads * settings.head_width))
    return _dense(graph, rows, f"{block}.attn_output")


def _heads(graph: _Graph, states: str, name: str, heads: int, settings: LlamaSettings) -> str:
    """Queries, keys or values: batch × heads × tokens × width."""
    apart = graph.add("Reshape", _dense(graph, states, name), graph.constant(0, 0, heads, settings.head_width))
    return graph.add("Transpose", apart, perm=[0, 2, 1, 3])


def _rotated(graph: _Graph, made: str, turns: Sequence[str], settings: LlamaSettings) -> str:
    add, half = graph.add, settings.head_width // 2
    axis, ends = graph.constant(3), [graph.constant(number) for number in (0, half, 2 * half)]
    first = add("Slice", made, ends[0], ends[1], axis)
    second = add("Slice", made, ends[1], ends[2], axis)
    other = add("Concat", add("Neg", second), first, axis=-1)
    return add("Add", add("Mul", made, turns[0]), add("Mul", other, turns[1]))


def _repeated(graph: _Graph, kept: str, settings: LlamaSettings) -> str:
    """Keys or values once for every head of queries."""
    times = settings.heads // settings.key_heads
    if times == 1:
        return kept
    apart = graph.add("Unsqueeze", kept, graph.constant(2))
    spread = graph.add("Expand", apart, graph.constant(1, 1, times, 1, 1))
    return graph.add("Reshape", spread, graph.constant(0, settings.heads, -1, settings.head_width))
