"""ONNX files become graphs that count and compute what the files do; hostile ones become one sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.inventory.runtimes.onnx.onnx_file import read_graph
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.testing import models

onnx = pytest.importorskip("onnx")
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def macs(graph: Graph) -> int:
    """Of convolutions and dense layers, channels first."""
    total = 0
    for one in graph.nodes:
        kernel = one.parameter("kernel")
        if one.op in ("conv", "dense") and kernel is not None:
            total += kernel.size * int(np.prod(one.shape[2:] if one.op == "conv" else one.shape[:-1]))
    return total


def made(tmp_path, nodes, inputs, outputs, constants=None, *, opset=17) -> Path:
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(name, kind, shape) for name, kind, shape in inputs],
        [value(name, FLOAT, None) for name in outputs],
        tensors,
    )
    path = tmp_path / "made.onnx"
    imports = [onnx.helper.make_opsetid("", opset)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), str(path))
    return path


def load(path: Path, **details) -> Graph:
    return ONNX.load(Request(str(path), **details))


def agrees_with_onnxruntime(path: Path, feed: np.ndarray, tolerance: float = 1e-4) -> Graph:
    """Raw and canonical graph answer as onnxruntime does."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path))
    expected = session.run(None, {session.get_inputs()[0].name: feed})[0]
    graph = load(path, weights=True)
    assert not graph.unknown
    for one in (graph, canonical(graph)):
        answer = run(one, {one.inputs[0].name: feed})[one.outputs[0]]
        np.testing.assert_allclose(answer.ravel(), expected.ravel(), rtol=tolerance, atol=tolerance)
    return graph


@pytest.mark.parametrize(
    ("name", "expected", "parameters"),
    [
        ("bvlc_alexnet", 654_560_384, 60_965_224),
        ("vgg19", 19_632_062_464, 143_667_240),
        ("densenet121", 2_834_161_664, 8_062_504),
        ("squeezenet", 349_151_936, 1_235_496),
        ("resnet50", 4_089_184_256, 25_557_032),
        ("inception_v1", 1_431_556_352, 6_998_552),
        ("inception_v2", 2_018_851_840, 11_214_888),
        ("shufflenet", 124_664_528, 1_393_320),
        ("zfnet512", 1_481_727_008, 87_250_536),
    ],
)
def test_light_graphs_count_as_the_networks_they_stand_for(name, expected, parameters):
    path = LIGHT / f"light_{name}.onnx"
    if not path.exists():
        pytest.skip("this onnx package has no light graphs")
    graph = load(path, weights=True)  # weights that are one repeated number are never allocated
    assert (macs(graph), graph.parameters, graph.unknown) == (expected, parameters, ())
    assert canonical(graph).facts["parameters_total"] == parameters  # passes join a norm and the scale after it


@pytest.mark.parametrize("path", sorted(MODELS_FOLDER.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_demo_zoo_computes_what_onnxruntime_does(path):
    feed = np.random.default_rng(0).random((1, 28, 28)).astype(np.float32)
    quantised = "int8" in path.stem
    graph = agrees_with_onnxruntime(path, feed, 0.1 if quantised else 1e-4)
    assert graph.parameters == read_graph(path).parameters()


@pytest.mark.skipif(not ASSETS.is_dir(), reason="the reference assets are not here")
@pytest.mark.parametrize(
    ("name", "relus", "op"), [("shufflenet-v2-12-int8", 37, "relu"), ("nnstreamer_mobilenet_v2_quant", 35, "relu6")]
)
def test_quantised_classifiers_get_their_activations_back(name, relus, op):
    path = ASSETS / "imagenet" / "onnx" / f"{name}.onnx"
    graph = load(path)
    assert sum(one.op == op for one in graph) == relus
    assert graph.parameters == read_graph(path).parameters()
    assert not graph.unknown


@pytest.mark.skipif(not ASSETS.is_dir(), reason="the reference assets are not here")
def test_a_float_classifier_from_another_exporter():
    feed = np.random.default_rng(0).random((1, 3, 32, 32)).astype(np.float32)
    agrees_with_onnxruntime(ASSETS / "cifar10" / "samplenet" / "samplenet.onnx", feed)


def test_shape_arithmetic_folds_and_pools_resolve(tmp_path):
    """Shape → Gather → Unsqueeze → Concat → Reshape, SAME_UPPER, ceil_mode with counted padding, Split, Clip, Gemm."""
    random = np.random.default_rng(1)
    constants = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "zero": np.array(0),
        "zeros": np.array([0]),
        "minus": np.array([-1]),
        "low": np.float32(0),
        "high": np.float32(6),
        "k": random.normal(size=(50, 5)).astype(np.float32),
        "b": random.normal(size=(5,)).astype(np.float32),
        "scale": random.normal(size=(4, 1, 1)).astype(np.float32),
        "bias": random.normal(size=(1, 4, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Add", ["a", "bias"], ["a2"]),
        node("Mul", ["a2", "scale"], ["a3"]),
        node("Clip", ["a3", "low", "high"], ["c"]),
        node("AveragePool", ["c"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1,
             count_include_pad=1),
        node("Split", ["p"], ["s", "t"], axis=1),
        node("Sub", ["s", "t"], ["d"]),
        node("Shape", ["d"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "zeros"], ["n1"]),
        node("Concat", ["n1", "minus"], ["target"], axis=0),
        node("Reshape", ["d", "target"], ["f"]),
        node("MatMul", ["f", "k"], ["m"]),
        node("Add", ["b", "m"], ["y"]),
    ]  # fmt: skip
    path = made(tmp_path, nodes, [("x", FLOAT, ["n", 3, 17, 17])], ["y"], constants)
    feed = random.normal(size=(1, 3, 17, 17)).astype(np.float32)
    graph = agrees_with_onnxruntime(path, feed)
    ops = [one.op for one in graph]
    assert ops == ["input", "conv", "affine", "relu6", "avg_pool", "slice", "slice", "sub", "flatten", "dense"]
    assert [one.role for one in graph.nodes[1].parameters] == ["kernel", "bias"]
    assert graph.nodes[-1].parameters[0].shape == (5, 50)


@pytest.mark.parametrize(
    ("kind", "op", "parameters"),
    [
        ("BatchNormalization", "batch_norm", "wbmv"),
        ("InstanceNormalization", "instance_norm", "wb"),
        ("LayerNormalization", "layer_norm", "c"),
    ],
)
def test_a_norm_that_names_no_epsilon_has_that_of_onnx(tmp_path, kind, op, parameters):
    """The specification's default is 1e-5, which decides the answer where the variance is as small."""
    constants = {name: np.arange(1, 4, dtype=np.float32) for name in "wbmv"} | {"c": np.ones(5, np.float32)}
    constants["v"] = np.full(3, 1e-5, np.float32)
    one = node(kind, ["x", *parameters], ["y"])
    kept = {name: constants[name] for name in parameters}
    path = made(tmp_path, [one], [("x", FLOAT, [1, 3, 5, 5])], ["y"], kept)
    feed = np.random.default_rng(0).normal(size=(1, 3, 5, 5)).astype(np.float32) * 1e-3
    graph = agrees_with_onnxruntime(path, feed)
    assert [(n.op, n.get("epsilon")) for n in graph.nodes if n.op == op] == [(op, 1e-5)]


def test_old_operators_read_their_attributes(tmp_path):
    """Opset 9: Clip, Pad, Slice, Upsample and Softmax as they were."""
    nodes = [
        node("Pad", ["x"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1], mode="constant"),
        node("Slice", ["p"], ["s"], axes=[2, 3], starts=[0, 1], ends=[-1, 1000]),
        node("Clip", ["s"], ["c"], min=-0.5, max=0.5),
        node("LeakyRelu", ["c"], ["l"], alpha=0.1),
        node("Softmax", ["l"], ["y"]),
    ]
    path = made(tmp_path, nodes, [("x", FLOAT, [1, 3, 5, 5])], ["y"], opset=9)
    graph = agrees_with_onnxruntime(path, np.random.default_rng(0).normal(size=(1, 3, 5, 5)).astype(np.float32))
    assert graph.nodes[-1].shape == (1, 3, 6, 6)


def test_dynamic_quantisation_is_the_float_network(tmp_path):
    random = np.random.default_rng(2)
    constants = {
        "w": random.integers(-128, 127, (6, 4)).astype(np.int8),
        "wz": np.int8(3),
        "ws": np.float32(0.02),
    }
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"]),
        node("MatMulInteger", ["q", "w", "qz", "wz"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["qs", "ws"], ["s"]),
        node("Mul", ["f", "s"], ["y"]),
    ]
    path = made(tmp_path, nodes, [("x", FLOAT, ["n", 6])], ["y"], constants)
    graph = agrees_with_onnxruntime(path, random.normal(size=(1, 6)).astype(np.float32), 0.1)
    assert graph.parameters == 24


def test_a_learned_table_is_counted_once_however_it_is_read(tmp_path):
    constants = {"t": np.ones((7, 3), np.float32), "i": np.arange(7)[::-1].repeat(9)}
    nodes = [node("Gather", ["t", "i"], ["g"]), node("MatMul", ["x", "g"], ["y"])]
    assert load(made(tmp_path, nodes, [("x", FLOAT, ["n", 63])], ["y"], constants)).parameters == 21


def test_unknown_operators_are_named_and_keep_the_files_shape(tmp_path):
    nodes = [node("Odd", ["x", "x"], ["e"]), node("Relu", ["e"], ["y"])]
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", FLOAT, [2, 3])], [value("y", FLOAT, [2, 2])], value_info=[value("e", FLOAT, [2, 2])]
    )
    path = tmp_path / "made.onnx"
    onnx.save(onnx.helper.make_model(graph), str(path))
    (unknown,) = load(path).unknown
    assert (unknown.get("source_op"), unknown.shape) == ("Odd", (2, 2))


@pytest.mark.parametrize(
    ("one", "shapes", "expected"),
    [
        (node("GatherElements", ["x", "i"], ["u"], axis=1), {"i": (1, 128)}, (1, 128)),
        (node("GatherND", ["x", "i"], ["u"]), {"i": (5, 2)}, (5,)),
        (node("TopK", ["x", "k"], ["u", "v"]), {}, (1, 7)),
        (node("OneHot", ["j", "k", "w"], ["u"]), {"j": (3,), "w": (2,)}, (3, 7)),
        (node("ArgMax", ["x"], ["u"], axis=1, keepdims=0, select_last_index=1), {}, (1,)),
        (node("CumSum", ["x", "k1"], ["u"]), {}, (1, 512)),
        (node("Einsum", ["x", "x", "m"], ["u"], equation="ij,ij,jk->ki"), {"m": (512, 9)}, (9, 1)),
        (node("And", ["a", "b"], ["u"]), {"a": (1, 4), "b": (3, 1)}, (3, 4)),
    ],
    ids=lambda value: value.op_type if hasattr(value, "op_type") else "",
)  # fmt: skip
def test_an_operator_without_a_word_has_the_shape_that_onnx_gives_it(tmp_path, one, shapes, expected):
    inputs = [("x", FLOAT, [1, 512]), *((name, FLOAT, list(shape)) for name, shape in shapes.items())]
    constants = {"k": np.array([7]), "k1": np.array([1])}
    (unknown,) = load(made(tmp_path, [one], inputs, ["u"], constants)).unknown
    assert (unknown.shape, unknown.get("extents")) == (expected, None)


def test_the_weights_of_an_unknown_operator_are_counted(tmp_path):
    constants = {"w": np.ones((4, 6), np.float32), "b": np.ones(6, np.float32), "one": np.ones((), np.float32)}
    odd = node("Frobnicate", ["x", "w", "b", "one"], ["y"], domain="com.acme")
    graph = canonical(load(made(tmp_path, [odd], [("x", FLOAT, [1, 4])], ["y"], constants)))
    assert (graph.parameters, cost(graph).unknown) == (30, {"com.acme:Frobnicate": 1})


def test_an_operand_that_begins_at_an_axis_is_not_taken_for_one_at_the_end(tmp_path):
    add = node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)
    path = made(tmp_path, [add], [("x", FLOAT, [1, 4, 4, 4])], ["y"], {"b": np.ones(4, np.float32)}, opset=6)
    (unknown,) = load(path).unknown
    assert (unknown.get("source_op"), unknown.shape) == ("Add along an axis", (1, 4, 4, 4))


@pytest.mark.parametrize(("opset", "width", "known"), [(18, 2, False), (21, 4, True)])
def test_a_group_norm_has_a_scale_for_each_group_or_channel(tmp_path, opset, width, known):
    layer = node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    constants = {name: np.ones(width, np.float32) for name in "sb"}
    graph = load(made(tmp_path, [layer], [("x", FLOAT, [1, 4, 3, 3])], ["y"], constants, opset=opset))
    assert (graph.parameters, not graph.unknown, graph.nodes[-1].shape) == (2 * width, known, (1, 4, 3, 3))


def test_what_a_loop_begins_with_is_not_learned(tmp_path):
    inside = [value("n", INT64, []), value("on", onnx.TensorProto.BOOL, []), value("s", FLOAT, [1, 4])]
    steps = [node("Identity", ["on"], ["on2"]), node("Add", ["s", "x"], ["s2"])]
    made_inside = [value("on2", onnx.TensorProto.BOOL, []), value("s2", FLOAT, [1, 4])]
    body = onnx.helper.make_graph(steps, "body", inside, made_inside)
    constants = {"go": np.array(True), "start": np.ones((1, 4), np.float32)}
    loop = node("Loop", ["times", "go", "start"], ["y"], body=body)
    graph = load(made(tmp_path, [loop], [("x", FLOAT, [1, 4]), ("times", INT64, [])], ["y"], constants))
    assert (graph.parameters, cost(graph).unknown) == (0, {"Loop whose number of steps is computed": 1})
    assert not cost(graph).macs_whole


def test_a_shape_that_nobody_tells_is_unknown_and_so_is_all_that_depends_on_it(tmp_path):
    """A guess (the first input's shape) would make up costs, or refuse the file with a false reason."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Frobnicate", ["r"], ["f"], domain="com.acme"),
        node("NonZero", ["r"], ["z"]),
        node("MatMul", ["f", "m"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Reshape", ["r", "s"], ["y"]),
        node("MatMul", ["r", "m"], ["q"]),
    ]
    graph = load(made(tmp_path, nodes, [("x", FLOAT, [1, 4])], ["y", "z", "q"], {"m": np.ones((4, 3), np.float32)}))
    named = {one.get("source_op"): one for one in graph.unknown}
    assert list(named) == [
        "com.acme:Frobnicate", "NonZero", "MatMul of a value of unknown shape", "Shape of a value of unknown shape",
        "Reshape whose shape is computed",
    ]  # fmt: skip
    assert {one.get("extents") for one in named.values()} == {"unknown"}
    assert cost(canonical(graph)).macs == 12  # of the product that is known
    assert sum(cost(canonical(graph)).unknown.values()) == 5


def test_the_files_shapes_hold_at_its_own_image_size_only(tmp_path):
    graph = onnx.helper.make_graph(
        [node("Odd", ["x"], ["y"], domain="com.acme")], "g", [value("x", FLOAT, [1, 3, 8, 8])],
        [value("y", FLOAT, [1, 5, 4, 4])],
    )  # fmt: skip
    path = tmp_path / "made.onnx"
    onnx.save(onnx.helper.make_model(graph), str(path))
    assert load(path).unknown[0].shape == (1, 5, 4, 4)
    assert load(path, size=(16, 16)).unknown[0].get("extents") == "unknown"


@pytest.mark.parametrize("equation", ["bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "bhqd,bkd->bqh", "bhqd,zhq->bzd"])
def test_einsum_of_two_values_is_a_product(tmp_path, equation):
    extents = {"b": 1, "h": 2, "q": 3, "k": 4, "d": 5, "z": 6}
    left, right = ([extents[letter] for letter in term] for term in equation.partition("->")[0].split(","))
    nodes = []
    constants = {"zero": np.array([0]), "one": np.array([1])}
    for name, shape in (("a", left), ("b", right)):
        constants |= {f"{name}stop": np.array([np.prod(shape)]), f"{name}shape": np.array(shape)}
        nodes.append(node("Slice", ["x", "zero", f"{name}stop", "one"], [f"{name}part"]))
        nodes.append(node("Reshape", [f"{name}part", f"{name}shape"], [name]))
    nodes.append(node("Einsum", ["a", "b"], ["y"], equation=equation))
    feed = np.random.default_rng(0).standard_normal((1, 60)).astype(np.float32)
    agrees_with_onnxruntime(made(tmp_path, nodes, [("x", FLOAT, [1, 60])], ["y"], constants), feed)


@pytest.mark.parametrize("kind", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"])
def test_reductions_with_a_step_before_or_after(tmp_path, kind):
    feed = np.random.default_rng(0).uniform(0.1, 1, (1, 4, 5)).astype(np.float32)
    path = made(tmp_path, [node(kind, ["x"], ["y"], axes=[2])], [("x", FLOAT, [1, 4, 5])], ["y"])
    agrees_with_onnxruntime(path, feed)


def test_places_taken_one_after_the_other_are_an_arrangement(tmp_path):
    """torch's exporter writes the strides of a mean over channels-last maps as a gather of all places, in order."""
    constants = {"flat": np.array([-1]), "all": np.arange(24).reshape(1, 6, 4), "some": np.arange(4, 20)}
    nodes = [node("Reshape", ["x", "flat"], ["f"])]
    nodes += [node("Gather", ["f", places], [name]) for places, name in (("all", "a"), ("some", "y"))]
    feed = np.random.default_rng(0).standard_normal((1, 24)).astype(np.float32)
    for output in ("a", "y"):
        graph = agrees_with_onnxruntime(made(tmp_path, nodes, [("x", FLOAT, [1, 24])], [output], constants), feed)
        assert "gather" not in {one.op for one in graph}


def test_padding_that_is_worked_out_from_constants_is_known(tmp_path):
    """timm's SAME padding, as torch's older exporter writes it: clipped, halved, cut to whole numbers, turned round."""
    constants = {
        "p": np.array(1.0, np.float32), "zero": np.array(0.0, np.float32), "two": np.array(2.0, np.float32),
        "ends": np.array([0, 1]), "head": np.zeros(2, np.int64), "w": np.ones((4, 2, 3, 3), np.float32),
        "one": np.array([1]), "axis": np.array([0]), "last": np.array([-1]), "least": np.array([-(2**60)]),
    }  # fmt: skip
    nodes = [
        node("Clip", ["p", "zero"], ["c"]), node("Div", ["c", "two"], ["h"]), node("Cast", ["h"], ["b"], to=INT64),
        node("Cast", ["c"], ["e"], to=INT64), node("Unsqueeze", ["b", "axis"], ["b1"]),
        node("Unsqueeze", ["e", "axis"], ["e1"]), node("Concat", ["e1", "b1"], ["t"], axis=0),
        node("Slice", ["t", "last", "least", "axis", "last"], ["r"]),
        node("Concat", ["head", "r", "head", "r"], ["pads"], axis=0), node("Pad", ["x", "pads"], ["q"]),
        node("Conv", ["q", "w"], ["y"]),
    ]  # fmt: skip
    feed = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
    agrees_with_onnxruntime(made(tmp_path, nodes, [("x", FLOAT, [1, 2, 6, 6])], ["y"], constants), feed)


def test_a_kernel_computed_from_weights_alone_is_a_kernel(tmp_path):
    """As weight standardisation writes it: the kernel is normalised by its own mean and variance on the way."""
    random = np.random.default_rng(0)
    constants = {
        "w": random.standard_normal((1, 4, 18)).astype(np.float32), "g": np.ones(4, np.float32),
        "z": np.zeros(4, np.float32), "s": np.array([4, 2, 3, 3]),
    }  # fmt: skip
    nodes = [
        node("ReduceMean", ["w"], ["m"], axes=[0, 2], keepdims=0), node("ReduceMean", ["w"], ["k"], axes=[0, 2]),
        node("Sub", ["w", "k"], ["d"]), node("Mul", ["d", "d"], ["q"]),
        node("ReduceMean", ["q"], ["v"], axes=[0, 2], keepdims=0),
        node("BatchNormalization", ["w", "g", "z", "m", "v"], ["n"]), node("Reshape", ["n", "s"], ["kernel"]),
        node("Conv", ["x", "kernel"], ["y"]),
    ]  # fmt: skip
    feed = random.standard_normal((1, 2, 6, 6)).astype(np.float32)
    graph = agrees_with_onnxruntime(made(tmp_path, nodes, [("x", FLOAT, [1, 2, 6, 6])], ["y"], constants), feed)
    assert ([one.op for one in graph], graph.parameters) == (["input", "conv"], 72)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_a_recurrent_layers_bias_is_no_product(tmp_path, kind, gates):
    constants = {
        "w": np.ones((2, gates * 5, 3), np.float32),
        "r": np.ones((2, gates * 5, 5), np.float32),
        "b": np.ones((2, 2 * gates * 5), np.float32),
    }
    layer = node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=5, direction="bidirectional")
    graph = load(made(tmp_path, [layer], [("x", FLOAT, [7, 1, 3])], ["y"], constants))
    found = cost(graph)
    assert found.macs == 7 * 2 * gates * 5 * (3 + 5)
    assert found.parameters == 2 * gates * 5 * (3 + 5 + 2)


CELL = {
    "w": np.ones((1, 20, 3), np.float32),
    "r": np.ones((1, 20, 5), np.float32),
    "b": np.ones((1, 40), np.float32),
}


def test_zeros_that_an_exporter_spreads_over_the_batch_are_no_state_to_begin_with(tmp_path):
    constants = {**CELL, "zeros": np.zeros((1, 1, 5), np.float32), "shape": np.array([1, 1, 5])}
    nodes = [
        node("Expand", ["zeros", "shape"], ["h"]),
        node("LSTM", ["x", "w", "r", "b", "", "h", "h"], ["y"], hidden_size=5),
    ]
    graph = load(made(tmp_path, nodes, [("x", FLOAT, [7, 1, 3])], ["y"], constants))
    assert [one.op for one in graph] == ["input", "recurrent"]


def test_the_encoder_whose_states_a_decoder_begins_with_is_counted(tmp_path):
    layers = [
        node("LSTM", ["x", "w", "r", "b"], ["", "h", "c"], hidden_size=5),
        node("LSTM", ["z", "w2", "r2", "b2", "", "h", "c"], ["y"], hidden_size=5),
    ]
    constants = {**CELL, **{f"{name}2": array for name, array in CELL.items()}}
    path = made(tmp_path, layers, [("x", FLOAT, [7, 1, 3]), ("z", FLOAT, [2, 1, 3])], ["y"], constants)
    graph = canonical(load(path))
    assert (cost(graph).macs, graph.parameters) == ((7 + 2) * 20 * (3 + 5), 2 * 20 * (3 + 5 + 2))


def test_states_that_are_learned_count_and_zeros_do_not(tmp_path):
    layer = node("LSTM", ["x", "w", "r", "b", "", "h", "c", "p"], ["y"], hidden_size=5)
    for states, learned in ((np.zeros, 15), (np.ones, 15 + 10)):
        start = {name: states((1, 1, 5), np.float32) for name in "hc"}
        constants = {**CELL, **start, "p": np.ones((1, 15), np.float32)}
        graph = canonical(load(made(tmp_path, [layer], [("x", FLOAT, [7, 1, 3])], ["y"], constants)))
        assert graph.parameters == 20 * (3 + 5 + 2) + learned


def test_a_recurrent_layer_that_takes_the_batch_first(tmp_path):
    layer = node("LSTM", ["x", "w", "r", "b"], ["y", "h"], hidden_size=5, layout=1)
    graph = load(made(tmp_path, [layer], [("x", FLOAT, [2, 7, 3])], ["y", "h"], CELL))
    assert [graph.by_name[name].shape for name in graph.outputs] == [(2, 7, 1, 5), (2, 1, 5)]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"direction": "reverse"}, {"reverse": True}),
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, {"activations": ("Sigmoid", "Relu", "Tanh")}),
        ({"activations": ["Sigmoid", "Tanh", "Tanh"]}, {}),
        ({"clip": 2.0}, {"clip": 2.0}),
        ({"input_forget": 1}, {"coupled": True}),
    ],
)
def test_what_a_cell_does_otherwise_is_told(tmp_path, settings, told):
    layer = node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=5, **settings)
    graph = load(made(tmp_path, [layer], [("x", FLOAT, [7, 1, 3])], ["y"], CELL))
    usual = {"kind": "lstm", "hidden": 5, "layers": 1, "bidirectional": False}
    assert graph.nodes[-1].attributes == {**usual, **told}


def test_a_free_image_size_is_asked_for(tmp_path):
    path = made(tmp_path, [node("Relu", ["x"], ["y"])], [("x", FLOAT, ["n", 3, "h", "w"])], ["y"])
    with pytest.raises(ModelError, match=r"leaves 2 of its extents open \(1×3×\?×\?\).* such as --size 224."):
        load(path)
    assert load(path, size=(12, 14)).inputs[0].shape == (1, 3, 12, 14)


def test_a_free_length_is_asked_for_and_taken_for_one_input_or_all(tmp_path):
    inputs = [("ids", INT64, ["n", "t"]), ("mask", INT64, ["n", "t"])]
    path = made(tmp_path, [node("Mul", ["ids", "mask"], ["y"])], inputs, ["y"])
    with pytest.raises(ModelError, match=r"'ids' leaves 1 of its extents open \(1×\?\).* --shape ids=1x128"):
        load(path)
    for extents in ({"": (1, 7)}, {"ids": (1, 7), "mask": (1, 7)}):
        assert [given.shape for given in load(path, extents=extents).inputs] == [(1, 7), (1, 7)]


def test_the_largest_place_of_a_map_and_a_cast_of_places_are_understood(tmp_path):
    codes = {"codes": np.arange(12, dtype=np.uint8).reshape(3, 4)}
    nodes = [
        node("ArgMax", ["x"], ["classes"], axis=1, keepdims=0),
        node("Gather", ["codes", "classes"], ["chosen"]),
        node("Cast", ["chosen"], ["wide"], to=INT64),
        node("Cast", ["wide"], ["y"], to=FLOAT),
    ]
    path = made(tmp_path, nodes, [("x", FLOAT, ["n", 3, 5, 6])], ["y"], codes)
    x = np.random.default_rng(0).normal(size=(1, 3, 5, 6)).astype(np.float32)
    graph = agrees_with_onnxruntime(path, x, 0)
    assert not graph.unknown


def test_a_batch_that_the_file_fixes_becomes_one(tmp_path):
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    path = made(tmp_path, nodes, [("x", FLOAT, [10, 3, 4, 4])], ["y"], {"s": np.array([10, 48])})
    assert load(path).nodes[-1].shape == (1, 48)


def test_external_weights_are_read_from_the_models_folder_only(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = made(
        folder, [node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, [1, 4])], ["y"], {"w": np.eye(4, dtype="f4")}
    )
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (load(path, weights=True).weights["w@10"] == np.eye(4)).all()
    (folder / "w.bin").rename(tmp_path / "w.bin")
    assert load(path).parameters == 16
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="not in the model's folder"):
        load(path, weights=True)


# --- hostile files


def test_a_cycle_is_refused(tmp_path):
    nodes = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    with pytest.raises(ModelError, match=r"the tensor 'b' is used before it is made: .* in a circle"):
        load(made(tmp_path, nodes, [("x", FLOAT, [1, 3])], ["b"]))


def test_a_tensor_made_twice_is_refused(tmp_path):
    nodes = [node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"])]
    with pytest.raises(ModelError, match="made twice"):
        load(made(tmp_path, nodes, [("x", FLOAT, [1, 3])], ["y"]))


def test_an_output_without_a_name_is_refused(tmp_path):
    with pytest.raises(ModelError, match="no node produces the output ''"):
        load(made(tmp_path, [node("Relu", ["x"], ["y"])], [("x", FLOAT, [1, 3])], ["y", ""]))


@pytest.mark.parametrize("side", [{}, {"upper": 0}])
def test_a_mask_that_is_a_triangle_of_numbers_is_known(tmp_path, side):
    constants = {"s": np.array([4, 4]), "k": np.array(1)}
    low = onnx.helper.make_tensor("value", FLOAT, [1], [-9.0])
    nodes = [
        node("ConstantOfShape", ["s"], ["full"], value=low),
        node("Trilu", ["full", "k"], ["mask"], **side),
        node("Add", ["x", "mask"], ["z"]), node("Softmax", ["z"], ["y"]),
    ]  # fmt: skip
    feed = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    graph = agrees_with_onnxruntime(made(tmp_path, nodes, [("x", FLOAT, [1, 4, 4])], ["y"], constants), feed)
    assert not graph.unknown


@pytest.mark.parametrize("shape", [[1 << 40], [1 << 20, 1 << 20], [-5], [1 << 62, 1 << 62]])
def test_a_constant_that_nothing_could_hold_is_refused_unallocated(tmp_path, shape):
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])]
    with pytest.raises(ModelError, match="no real layer has"):
        load(made(tmp_path, nodes, [("x", FLOAT, [1])], ["y"], {"s": np.array(shape)}), weights=True)


@pytest.mark.parametrize("op", ["Expand", "Tile", "Range"])
def test_arithmetic_does_not_grow_without_bound(tmp_path, op):
    big = np.array([1 << 40])
    inputs = {"Expand": ["one", "big"], "Tile": ["one", "big"], "Range": ["zero", "large", "step"]}[op]
    constants = {"one": np.array([1]), "big": big, "zero": np.array(0), "large": np.array(1 << 40), "step": np.array(1)}
    nodes = [node(op, inputs, ["c"]), node("Cast", ["c"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"])]
    with contextlib.suppress(ModelError):
        load(made(tmp_path, nodes, [("x", FLOAT, [1])], ["y"], constants))


def test_repeated_broadcasting_is_bounded(tmp_path):
    """Each step may compute a million numbers; a thousand steps may not."""
    constants = {"a": np.ones((1024, 1), np.int64), "b": np.ones((1, 1024), np.int64)}
    nodes = [node("Add", ["a", "b"], [f"c{i}"]) for i in range(200)]
    nodes.append(node("Relu", ["x"], ["y"]))
    assert len(load(made(tmp_path, nodes, [("x", FLOAT, [1])], ["y"], constants))) == 2


def test_huge_windows_and_negative_pads_are_refused(tmp_path):
    for details in ({"kernel_shape": [1 << 40] * 2}, {"kernel_shape": [2, 2], "strides": [0, 0]}, {}):
        nodes = [node("MaxPool", ["x"], ["y"], **details)]
        with pytest.raises(ModelError):
            load(made(tmp_path, nodes, [("x", FLOAT, [1, 3, 8, 8])], ["y"]))
    nodes = [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1 << 40] * 4)]
    with pytest.raises(ModelError, match="no real layer has"):
        load(made(tmp_path, nodes, [("x", FLOAT, [1, 3, 8, 8])], ["y"]))


def test_millions_of_empty_nodes_are_refused(tmp_path):
    path = tmp_path / "many.onnx"
    body = b"\x0a\x00" * 300_000
    size = len(body)
    path.write_bytes(b"\x3a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + body)
    with pytest.raises(ModelError, match="more than 200,000 nodes"):
        load(path)


def test_a_long_chain_does_not_recurse(tmp_path):
    nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(5_000)]
    assert len(load(made(tmp_path, nodes, [("v0", FLOAT, [1])], ["v5000"]))) == 5_001


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    source = data.draw(st.sampled_from(["made", "lenet-int8", "lenet-narrow"]))
    path = models.onnx(tmp_path).path() if source == "made" else MODELS_FOLDER / f"{source}.onnx"
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, min(len(content), 4_000) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    with contextlib.suppress(ModelError):
        load(damaged, weights=data.draw(st.booleans()))
