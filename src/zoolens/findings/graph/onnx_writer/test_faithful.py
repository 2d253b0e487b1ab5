"""A model that is read and written again computes what it did in its own runtime, or is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.importers.tflite import TFLITE
from zoolens.findings.graph.onnx_writer.written_file import onnx_bytes
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.structures.weighted_graph import canonical_with_facts

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
FLOAT, INT32, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.BOOL
node = onnx.helper.make_node
MAP = (1, 6, 5, 8)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def file_of(nodes, shape, constants, opset=17):
    info = onnx.helper.make_tensor_value_info
    tensors = [onnx.numpy_helper.from_array(np.asarray(one), name) for name, one in constants.items()]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", FLOAT, shape)], [info("y", FLOAT, None)], tensors)
    imports = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def one(op, shape=MAP, opset=17, inputs=(), constants=None, **attributes):
    return file_of([node(op, ["x", *inputs], ["y"], **attributes)], shape, constants or {}, opset)


def resize(sizes=None, scales=None, opset=17, **attributes):
    given = {"z": np.int64([1, 6, *sizes])} if sizes else {"s": np.float32([1, 1, *scales])}
    inputs = ("", "", "z") if sizes else ("", "s")
    return one("Resize", opset=opset, inputs=inputs, constants=given, **attributes)


def in_a_row(shape, constants, *calls):
    """Each call: operator, further inputs, attributes."""
    names = ["x", *(f"v{i}" for i in range(1, len(calls))), "y"]
    nodes = [node(op, [names[i], *more], [names[i + 1]], **rest) for i, (op, more, rest) in enumerate(calls)]
    return file_of(nodes, shape, constants)


def answered(content, feed):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: feed})[0]


def read(content, tmp_path):
    path = tmp_path / "made.onnx"
    path.write_bytes(content)
    return canonical_with_facts(ONNX.load(Request(str(path), weights=True)))


def same(expected, found):
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


CASES = {
    **{f"resize to sizes, {mode}, {rule}": lambda mode=mode, rule=rule: resize(
           (13, 4), mode=mode, coordinate_transformation_mode=rule)
       for mode in ("linear", "cubic") for rule in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")},
    "resize by factors": lambda: resize(scales=(2, 1.5), mode="linear"),
    "resize, corners, by a factor that leaves a rest": lambda: resize(
        scales=(1.5, 2.2), mode="linear", coordinate_transformation_mode="align_corners"),
    "resize of old, linear": lambda: one("Resize", opset=10, inputs=("s",), constants={"s": np.float32([1, 1, 2, 2])},
                                         mode="linear"),
    "upsample": lambda: one("Upsample", opset=9, inputs=("s",), constants={"s": np.float32([1, 1, 2, 3])},
                            mode="nearest"),
    "nearest": lambda: resize((10, 16)),
    "nearest, as torch": lambda: resize((13, 4), coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "nearest, as onnx": lambda: resize((13, 4)),
    "truth": lambda: in_a_row((1, 6), {}, ("Relu", (), {}), ("Cast", (), {"to": BOOL}), ("Cast", (), {"to": FLOAT})),
    "slopes by channel": lambda: one("PRelu", (1, 6, 6, 6), inputs=("a",), constants={"a": random(6, 1, 1)}),
    "slopes by row": lambda: one("PRelu", (1, 6, 6, 6), inputs=("a",), constants={"a": random(6, 1)}),
    "slopes by column": lambda: one("PRelu", (1, 6, 6, 6), inputs=("a",), constants={"a": random(6)}),
    "slopes of each": lambda: one("PRelu", inputs=("a",), constants={"a": random(6, 5, 8)}),
    "selu of its own": lambda: one("Selu", alpha=2.0, gamma=3.0),
    "pool, ceil, pads count": lambda: one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
                                          ceil_mode=1, count_include_pad=1),
    "pool, ceil": lambda: one("AveragePool", kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1),
    "max pool, wide": lambda: one("MaxPool", kernel_shape=[2, 2], strides=[2, 1], dilations=[2, 3], ceil_mode=1),
    "conv, uneven": lambda: one("Conv", inputs=("w",), constants={"w": random(4, 3, 2, 3)}, pads=[0, 1, 2, 1],
                                dilations=[2, 1], strides=[2, 1], group=2),
    "conv, same lower": lambda: one("Conv", inputs=("w",), constants={"w": random(4, 6, 3, 4)}, strides=[2, 3],
                                    auto_pad="SAME_LOWER"),
    "conv of one axis": lambda: one("Conv", (1, 6, 11), inputs=("w", "b"), pads=[2, 0], dilations=[2],
                                    constants={"w": random(4, 6, 3), "b": random(4)}),
    "scale by column": lambda: in_a_row((1, 6, 6, 6), {"w": random(6, 6, 1, 1), "s": random(6)},
                                        ("Conv", ("w",), {}), ("Mul", ("s",), {})),
    "softmax of old": lambda: one("Softmax", (1, 3, 4), opset=11, axis=1),
    "gemm": lambda: one("Gemm", (1, 6), inputs=("w", "b"), constants={"w": random(6, 3), "b": np.float32(0.7)},
                        alpha=0.5, beta=2.0),
    "nothing at all": lambda: one("Identity", (1, 6)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_file_computes_the_same_once_written_again(tmp_path, name):
    content = CASES[name]()
    shape = onnxruntime.InferenceSession(content).get_inputs()[0].shape
    feed = 2 * random(*shape, seed=5)
    graph = read(content, tmp_path)
    same(answered(content, feed), answered(onnx_bytes(graph), feed))


REFUSED = {
    "resize, antialiased": lambda: resize((3, 4), opset=18, mode="linear", antialias=1),
    "resize, other cubic": lambda: resize((3, 4), mode="cubic", cubic_coeff_a=-0.5),
    "resize, cropped": lambda: one(
        "Resize", inputs=("r", "", "z"), mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
        constants={"r": np.float32([0, 0, 0.2, 0.3, 1, 1, 0.8, 0.7]), "z": np.int64([1, 6, 4, 4])}),
    "resize, rest": lambda: resize(scales=(1.5, 2.2), mode="linear"),
    "nearest, up": lambda: resize((13, 4), nearest_mode="ceil"),
    "resize of channels": lambda: one("Resize", inputs=("", "s"), constants={"s": np.float32([1, 2, 1, 1])}),
    "fractions cut off": lambda: in_a_row((1, 6), {}, ("Cast", (), {"to": INT32}), ("Cast", (), {"to": FLOAT})),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_compute_another_thing_is_refused(tmp_path, name):
    graph = read(REFUSED[name](), tmp_path)
    assert len(graph) > 1
    with pytest.raises(ModelError, match="cannot be written as ONNX"):
        onnx_bytes(graph)


def test_a_resize_that_nothing_could_hold_allocates_nothing(tmp_path):
    graph = read(
        one("Resize", (1, 1, 1, 1), inputs=("", "", "z"), constants={"z": np.int64([1, 1, 1, 1 << 35])}), tmp_path
    )
    assert graph.nodes[-1].shape == (1, 1, 1, 1 << 35)


def test_an_int8_kernel_that_is_used_with_two_scales_is_two_kernels(tmp_path):
    kernel = np.arange(-18, 18, dtype=np.int8).reshape(6, 6, 1, 1)
    scale, zero = np.float32(0.5), np.uint8(128)
    constants = {"s": scale, "z": zero, "w": kernel, "a": np.float32(0.25), "b": np.float32(2), "o": np.int8(0)}
    quantised = in_a_row(
        MAP, constants, ("QuantizeLinear", ("s", "z"), {}),
        ("QLinearConv", ("s", "z", "w", "a", "o", "s", "z"), {}),
        ("QLinearConv", ("s", "z", "w", "b", "o", "s", "z"), {}), ("DequantizeLinear", ("s", "z"), {}),
    )  # fmt: skip
    graph = read(quantised, tmp_path)
    found = [graph.weights[layer.parameter("kernel").key] for layer in graph if layer.op == "conv"]
    np.testing.assert_array_equal(found[0], kernel * np.float32(0.25))
    np.testing.assert_array_equal(found[1], kernel * np.float32(2))


# --- other sources


def torch_cases(nn):
    functional = pytest.importorskip("torch").nn.functional

    class Cut(nn.Module):
        def forward(self, x):
            return (3 * x).long().float()

    class Smooth(nn.Module):
        def forward(self, x):
            return functional.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)

    good = {
        "pool, ceil, pads count": nn.AvgPool2d(3, 2, 1, ceil_mode=True),
        "aligned": nn.Upsample(size=(13, 4), mode="bilinear", align_corners=True),
        "nearest": nn.Upsample(size=(13, 4)),
    }
    bad = {"rest": nn.Upsample(scale_factor=1.55, mode="bilinear"), "cut": Cut(), "antialiased": Smooth()}
    return good, bad


def test_torch_modules_compute_the_same_once_written():
    torch = pytest.importorskip("torch")
    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    good, bad = torch_cases(torch.nn)
    feed = random(*MAP)
    for name, module in good.items():
        content = onnx_bytes(canonical(graph_of_module(module, [torch.zeros(MAP)], name, weights=True)))
        same(module(torch.from_numpy(feed)).numpy(), answered(content, feed))
    for name, module in bad.items():
        with pytest.raises(ModelError, match="cannot be written as ONNX"):
            onnx_bytes(canonical(graph_of_module(module, [torch.zeros(MAP)], name, weights=True)))


def tflite_cases(tf):
    kernel = tf.constant(random(3, 3, 4, 6))
    good = {
        f"bilinear, aligned={aligned}, centred={centred}": lambda x, aligned=aligned, centred=centred: (
            tf.raw_ops.ResizeBilinear(images=x, size=(13, 7), align_corners=aligned, half_pixel_centers=centred)
        )
        for aligned, centred in ((False, False), (True, False), (False, True))
    }
    good["grown"] = lambda x: tf.nn.conv2d_transpose(x, kernel, (1, 12, 18, 4), 2, "VALID")
    bad = {
        "aligned": lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=(13, 7), align_corners=True),
        "cut": lambda x: tf.cast(tf.cast(3 * x, tf.int32), tf.float32),
    }
    return good, bad


@pytest.mark.slow
def test_tflite_files_compute_the_same_once_written(tmp_path):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tf = pytest.importorskip("tensorflow")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    good, bad = tflite_cases(tf)
    feed = random(1, 5, 8, 6)
    path = tmp_path / "made.tflite"
    for name, function in {**good, **bad}.items():
        traced = tf.function(function, autograph=False, input_signature=[tf.TensorSpec(feed.shape, tf.float32)])
        path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([traced.get_concrete_function()]).convert())
        graph = canonical(TFLITE.load(Request(str(path), weights=True)))
        if name in bad:
            with pytest.raises(ModelError, match="cannot be written as ONNX"):
                onnx_bytes(graph)
            continue
        lite = interpreter.Interpreter(model_path=str(path))
        lite.allocate_tensors()
        lite.set_tensor(lite.get_input_details()[0]["index"], feed)
        lite.invoke()
        expected = np.moveaxis(lite.get_tensor(lite.get_output_details()[0]["index"]), -1, 1)
        same(expected, answered(onnx_bytes(graph), np.moveaxis(feed, -1, 1)))
