"""Operators that stand for several compute what ONNX Runtime computes, and none is left unknown."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
MICROSOFT = "com.microsoft"


def node(op, inputs, outputs=("y",), domain=MICROSOFT, **attributes):
    return onnx.helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes)


def numbers(*shape, seed=0, scale=1.0):
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(np.float32)


def saved(path, nodes, inputs, constants, *, opset=17, outputs=("y",), functions=()):
    """A file whose inputs have the shapes and types of the arrays."""
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in inputs.items()],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [onnx.helper.make_opsetid(*pair) for pair in (("", opset), (MICROSOFT, 1), ("local", 1))]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))
    onnx.save(model, str(path))
    return path


def agrees(path, inputs, *, tolerance=1e-5):
    """The graph of a file, raw and canonical, on the same numbers as ONNX Runtime."""
    raw = ONNX.load(Request(str(path), weights=True))
    assert not raw.unknown, [one.get("source_op") for one in raw.unknown]
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)[0]
    for graph in (raw, canonical(raw)):
        found = next(iter(run(graph, {one.name: inputs[one.name] for one in graph.inputs}).values()))
        assert np.abs(found.reshape(expected.shape) - expected).max() <= tolerance * np.abs(expected).max()
    return raw


X = numbers(1, 4, 6, 6)
KERNEL, BIAS = numbers(8, 4, 3, 3, scale=0.2), numbers(8)
TOKENS = numbers(1, 5, 12)
NORM = {"g": numbers(12, seed=1), "b": numbers(12, seed=2)}
QKV = {"w": numbers(12, 36, scale=0.3), "c": numbers(36, seed=3)}


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("Sigmoid", []), ("Tanh", []), ("LeakyRelu", [0.2]), ("Clip", [0.0, 6.0]), ("Clip", [-1.0, 1.0]),
     ("HardSigmoid", [0.3, 0.4])],
)  # fmt: skip
def test_a_convolution_with_its_sum_and_activation(tmp_path, activation, parameters):
    extra = {"activation_params": parameters} if parameters else {}
    fused = node("FusedConv", "xwbz", activation=activation, pads=[1, 1, 1, 1], **extra)
    inputs = {"x": X, "z": numbers(1, 8, 6, 6)}
    graph = agrees(saved(tmp_path / "m.onnx", [fused], inputs, {"w": KERNEL, "b": BIAS}), inputs)
    assert [one.op for one in graph if one.op in ("conv", "add")] == ["conv", "add"]


@pytest.mark.parametrize(
    ("fused", "inputs", "constants"),
    [
        (node("FusedMatMul", "xm", transB=1, alpha=0.5), {"x": TOKENS, "m": numbers(1, 7, 12)}, {}),
        (node("FusedMatMul", "xm", transA=1, transB=1), {"x": TOKENS, "m": numbers(1, 12, 5)}, {}),
        (node("FusedMatMul", "xm", alpha=0.25), {"x": TOKENS}, {"m": numbers(12, 7)}),
        (node("FusedMatMul", "xm", transA=1), {"x": TOKENS}, {"m": numbers(5, 7)}),
        (node("FusedGemm", "xwb", activation="Relu", transB=1), {"x": numbers(3, 12)},
         {"w": numbers(8, 12), "b": BIAS}),
        (node("FusedGemm", "xwb", activation="LeakyRelu", activation_alpha=0.3), {"x": numbers(3, 12)},
         {"w": numbers(12, 8), "b": BIAS}),
        (node("Gelu", "x"), {"x": TOKENS}, {}),
        (node("BiasGelu", "xb"), {"x": TOKENS}, {"b": NORM["b"]}),
        (node("FastGelu", "xb"), {"x": TOKENS}, {"b": NORM["b"]}),
        (node("QuickGelu", "x"), {"x": TOKENS}, {}),
        (node("QuickGelu", "x", alpha=1.0), {"x": TOKENS}, {}),
        (node("QuickGelu", "x", alpha=1.3), {"x": TOKENS}, {}),
        (node("SkipLayerNormalization", "xsgb", epsilon=1e-6), {"x": TOKENS, "s": numbers(1, 5, 12, seed=5)}, NORM),
        (node("SkipLayerNormalization", "xsgbc"), {"x": TOKENS, "s": numbers(1, 5, 12, seed=5)},
         {**NORM, "c": numbers(12, seed=9)}),
        (node("SkipSimplifiedLayerNormalization", "xsg"), {"x": TOKENS, "s": numbers(1, 5, 12, seed=5)},
         {"g": NORM["g"]}),
        (node("Attention", "xwc", num_heads=3), {"x": TOKENS}, QKV),
        (node("Attention", "xwc", num_heads=3, unidirectional=1, scale=0.2), {"x": TOKENS}, QKV),
        (node("MultiHeadAttention", "xkvc", num_heads=3),
         {"x": TOKENS, "k": numbers(1, 7, 12), "v": numbers(1, 7, 12, seed=4)}, {"c": QKV["c"]}),
        (node("MultiHeadAttention", ["x", "k", "v", "", "", "a"], num_heads=3),
         {"x": TOKENS, "k": numbers(1, 7, 12), "v": numbers(1, 7, 12, seed=4), "a": numbers(1, 3, 5, 7)}, {}),
        (node("Attention", "xkv", domain="", q_num_heads=3, kv_num_heads=3),
         {"x": TOKENS, "k": numbers(1, 7, 12), "v": numbers(1, 7, 12, seed=4)}, {}),
        (node("Attention", "xkv", domain="", is_causal=1),
         {"x": numbers(1, 4, 5, 6), "k": numbers(1, 2, 5, 6), "v": numbers(1, 2, 5, 6, seed=4)}, {}),
        (node("Attention", "xkva", domain="", scale=0.7),
         {"x": numbers(1, 4, 5, 6), "k": numbers(1, 4, 7, 6), "v": numbers(1, 4, 7, 6, seed=4), "a": numbers(5, 7)},
         {}),
        (node("RMSNormalization", "xg", domain=""), {"x": TOKENS}, {"g": NORM["g"]}),
        (node("RotaryEmbedding", "xst", domain=""),
         {"x": numbers(1, 3, 5, 8), "s": numbers(1, 5, 4), "t": numbers(1, 5, 4, seed=4)}, {}),
        (node("RotaryEmbedding", "xstp", domain="", num_heads=3),
         {"x": numbers(1, 5, 24), "p": np.array([[0, 1, 2, 3, 4]])}, {"s": numbers(9, 4), "t": numbers(9, 4, seed=4)}),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)  # fmt: skip
def test_an_operator_that_stands_for_several(tmp_path, fused, inputs, constants):
    agrees(saved(tmp_path / "m.onnx", [fused], inputs, constants, opset=23), inputs)


def test_the_embeddings_of_bert(tmp_path):
    tables = {"w": numbers(20, 12), "p": numbers(9, 12, seed=1), "t": numbers(2, 12, seed=2), **NORM}
    fused = node("EmbedLayerNormalization", ["x", "s", "w", "p", "t", "g", "b"], ["y", "m"], epsilon=1e-6)
    inputs = {"x": np.array([[3, 1, 4, 1]], np.int32), "s": np.array([[0, 0, 1, 1]], np.int32)}
    agrees(saved(tmp_path / "m.onnx", [fused], inputs, tables), inputs)


def test_a_norm_of_groups_with_channels_last(tmp_path):
    """ONNX Runtime has no kernel for it on CPUs."""
    fused = node("GroupNorm", "xgb", groups=2, activation=1)
    constants = {"g": numbers(4, seed=1), "b": numbers(4, seed=2)}
    x = numbers(1, 6, 6, 4)
    graph = ONNX.load(Request(str(saved(tmp_path / "m.onnx", [fused], {"x": x}, constants)), weights=True))
    (found,) = run(graph, {"x": x}).values()
    grouped = x.reshape(1, 36, 2, 2)
    normed = (grouped - grouped.mean((1, 3), keepdims=True)) / np.sqrt(grouped.var((1, 3), keepdims=True) + 1e-5)
    scaled = normed.reshape(x.shape) * constants["g"] + constants["b"]
    assert np.allclose(found, scaled / (1 + np.exp(-scaled)), atol=1e-5)


def test_the_table_of_an_embedding_is_real_numbers_before_its_rows_are_taken(tmp_path):
    """quantize_dynamic keeps it in whole numbers and scales the rows."""
    table = np.random.default_rng(0).integers(-128, 127, (20, 12), np.int8)
    nodes = [
        node("Gather", ["t", "x"], ["r"], domain=""),
        node("DequantizeLinear", ["r", "s", "z"], ["y"], domain=""),
    ]
    inputs = {"x": np.array([[3, 1, 4, 1]])}
    constants = {"t": table, "s": np.float32(0.02), "z": np.int8(5)}
    graph = agrees(saved(tmp_path / "m.onnx", nodes, inputs, constants), inputs)
    assert [one.op for one in graph] == ["input", "embedding"]
    assert graph.parameters == 240


def test_a_matrix_in_a_few_bits(tmp_path):
    generator = np.random.default_rng(0)
    packed = generator.integers(0, 255, (8, 2, 16), np.uint8)
    constants = {"w": packed, "s": np.abs(numbers(8, 2)).reshape(-1)}
    fused = node("MatMulNBits", "xws", K=64, N=8, bits=4, block_size=32)
    inputs = {"x": numbers(3, 64)}
    graph = agrees(saved(tmp_path / "m.onnx", [fused], inputs, constants), inputs, tolerance=1e-2)
    assert graph.parameters == 8 * 64


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by_channel", [False, True])
def test_an_lstm_that_quantises_its_input(tmp_path, by_channel):
    """Kernels have one scale for each direction, or one for each output of a gate."""
    from onnxruntime.quantization import quantize_dynamic

    x = numbers(7, 1, 12)
    kernels = {"w": numbers(2, 20, 12, scale=0.3), "r": numbers(2, 20, 5, scale=0.3), "b": numbers(2, 40)}
    layer = node("LSTM", "xwrb", domain="", hidden_size=5, direction="bidirectional")
    source = saved(tmp_path / "source.onnx", [layer], {"x": x}, kernels)
    quantize_dynamic(str(source), str(tmp_path / "copy.onnx"), per_channel=by_channel)
    plain, quantised = (ONNX.load(Request(str(tmp_path / name), weights=True)) for name in ("source.onnx", "copy.onnx"))
    assert not quantised.unknown
    assert quantised.parameters == plain.parameters
    (own,), (other,) = ([one for one in graph if one.op == "recurrent"] for graph in (plain, quantised))
    for role in ("kernel", "recurrent_kernel", "bias"):
        a = plain.weights[own.parameter(role).key]
        b = quantised.weights[other.parameter(role).key]
        assert np.abs(a - b).max() <= 0.01 * np.abs(a).max()


@pytest.mark.parametrize(
    ("op", "inputs", "size"),
    [("MultiHeadAttention", ("x", "x", "x", "c"), 36), ("Attention", ("x", "w", "c"), 36)],
)
def test_a_bias_that_is_computed_is_not_left_out(tmp_path, op, inputs, size):
    given = {"x": TOKENS, "c": numbers(size)}
    path = saved(tmp_path / "m.onnx", [node(op, inputs, num_heads=3)], given, {"w": QKV["w"]})
    assert [one.get("source_op") for one in ONNX.load(Request(str(path))).unknown]
