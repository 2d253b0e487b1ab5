"""Layers of an IR against OpenVINO itself, and files that are damaged."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.openvino import OPENVINO
from zoolens.findings.graph.ir.file_operators import with_file_operators
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.graph.structures.weighted_graph import canonical_with_facts

openvino = pytest.importorskip("openvino")
pytest.importorskip("onnx")
ops = openvino.opset13
GENERATOR = np.random.default_rng(0)


def numbers(*shape):
    return GENERATOR.normal(size=shape).astype(np.float32)


def real(value):
    return ops.constant(np.float32(value))


def whole(*values):
    return ops.constant(np.asarray(values, np.int64))


AXIS = ops.constant(np.int64(1))


def recurrent(make, gates, biases, **settings):
    """A recurrent layer over three steps, with a learned first state."""

    def build(x):
        x = ops.reshape(x, whole(1, 3, 4), False)
        first = [numbers(1, 1, 5)] * (2 if make is ops.lstm_sequence else 1)
        weights = [numbers(1, gates * 5, 4), numbers(1, gates * 5, 5), numbers(1, biases * 5)]
        lengths = np.asarray([settings.pop("length", 3)], np.int32)
        made = make(
            x, *first, lengths, *weights, hidden_size=5, direction=settings.pop("direction", "forward"), **settings
        )
        return made.outputs()

    return build


CASES = {
    "arithmetic": ((2, 3), lambda x: ops.divide(
        ops.power(ops.abs(x), real(1.5)), ops.add(ops.maximum(x, real(-0.2)), real(2)))),
    "minimum": ((2, 3), lambda x: ops.minimum(ops.subtract(x, real(0.1)), ops.multiply(x, numbers(3)))),
    "relu": ((1, 4, 3), lambda x: ops.relu(x)),
    "leaky": ((1, 4, 3), lambda x: ops.prelu(x, np.asarray([0.2], np.float32))),
    "prelu": ((1, 4, 3, 3), lambda x: ops.prelu(x, numbers(4))),
    "clamp": ((1, 9), lambda x: ops.clamp(x, -0.3, 0.5)),
    "elu": ((1, 9), lambda x: ops.elu(x, 0.7)),
    "selu": ((1, 9), lambda x: ops.selu(x, real(1.5), real(0.9))),
    "hard sigmoid": ((1, 9), lambda x: ops.hard_sigmoid(x, real(0.3), real(0.4))),
    "hsigmoid": ((1, 9), lambda x: ops.hsigmoid(x)),
    "hswish": ((1, 9), lambda x: ops.hswish(x)),
    "swish": ((1, 9), lambda x: ops.swish(x, real(1.7))),
    "mish": ((1, 9), lambda x: ops.mish(x)),
    "gelu": ((1, 9), lambda x: ops.gelu(x, "ERF")),
    "gelu tanh": ((1, 9), lambda x: ops.gelu(x, "TANH")),
    "softmax": ((1, 4, 3), lambda x: ops.softmax(x, -2)),
    "log softmax": ((1, 4, 3), lambda x: ops.log_softmax(x, 1)),
    "softplus": ((1, 9), lambda x: ops.softsign(ops.exp(x))),
    "erf": ((1, 9), lambda x: ops.erf(ops.sin(x))),
    "mean": ((1, 4, 3, 3), lambda x: ops.reduce_mean(x, whole(2, 3), keep_dims=False)),
    "sum": ((1, 4, 3), lambda x: ops.reduce_sum(x, whole(-1), keep_dims=True)),
    "norm of rows": ((1, 4, 3), lambda x: ops.reduce_l2(x, whole(1), keep_dims=False)),
    "mvn": ((1, 4, 8), lambda x: ops.mvn(x, whole(-1), True, 1e-3, "inside_sqrt")),
    "mvn outside": ((1, 4, 8), lambda x: ops.mvn(x, whole(1, 2), True, 0.1, "outside_sqrt")),
    "centred": ((1, 4, 8), lambda x: ops.mvn(x, whole(-1), False, 1e-3, "inside_sqrt")),
    "normalize": ((1, 4, 8), lambda x: ops.normalize_l2(x, whole(1), 0.1, "add")),
    "normalize max": ((1, 4, 8), lambda x: ops.normalize_l2(x, whole(2), 9.0, "max")),
    "batch norm": ((1, 4, 3, 3), lambda x: ops.batch_norm_inference(x, numbers(4), numbers(4), numbers(4),
                                                                   np.abs(numbers(4)), 0.01)),
    "group norm": ((1, 4, 3, 3), lambda x: ops.group_normalization(x, numbers(4), numbers(4), 2, 0.01)),
    "matmul": ((2, 5), lambda x: ops.matmul(x, numbers(7, 5), False, True)),
    "matmul turned": ((2, 5, 3), lambda x: ops.matmul(x, numbers(2, 7, 5), True, True)),
    "matmul of a vector": ((2, 5, 3), lambda x: ops.matmul(x, numbers(3), False, True)),
    "conv": ((1, 3, 8, 7), lambda x: ops.convolution(x, numbers(5, 3, 3, 2), [2, 1], [1, 0], [0, 1], [1, 2])),
    "conv same": ((1, 3, 8, 7), lambda x: ops.convolution(x, numbers(5, 3, 3, 2), [2, 2], [0, 0], [0, 0], [1, 1],
                                                          "same_upper")),
    "groups": (
        (1, 4, 8, 7), lambda x: ops.group_convolution(x, numbers(2, 3, 2, 3, 3), [1, 2], [1, 1], [1, 1], [1, 1])),
    "transposed": ((1, 3, 4, 4), lambda x: ops.convolution_backprop_data(x, numbers(3, 5, 3, 3), strides=[2, 2],
                   pads_begin=[1, 1], pads_end=[1, 1], output_padding=[1, 0])),
    "transposed groups": ((1, 4, 4, 4), lambda x: ops.group_convolution_backprop_data(
        x, numbers(2, 2, 3, 3, 3), strides=[2, 1], pads_begin=[0, 1], pads_end=[1, 0])),
    "max pool": ((1, 3, 9, 8), lambda x: ops.max_pool(x, [2, 2], [1, 1], [0, 1], [1, 0], [3, 2]).output(0)),
    "max pool ceil": (
        (1, 3, 9, 8), lambda x: ops.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 3], "ceil").output(0)),
    "avg pool": ((1, 3, 9, 8), lambda x: ops.avg_pool(x, [2, 2], [1, 1], [1, 1], [3, 3], True)),
    "avg pool counted": ((1, 3, 9, 8), lambda x: ops.avg_pool(x, [2, 1], [1, 0], [1, 1], [3, 3], False)),
    "resize linear": (
        (1, 2, 4, 5), lambda x: ops.interpolate(x, whole(8, 7), "linear_onnx", "sizes", axes=whole(2, 3))),
    "resize nearest": ((1, 2, 4, 5), lambda x: ops.interpolate(
        x, ops.constant(np.asarray([2, 2], np.float32)), "nearest", "scales", axes=whole(2, 3),
        coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    "resize cubic": ((1, 2, 4, 5), lambda x: ops.interpolate(
        x, whole(8, 7), "cubic", "sizes", axes=whole(2, 3), coordinate_transformation_mode="align_corners")),
    "reshape": ((1, 4, 6), lambda x: ops.reshape(x, whole(0, 2, -1), True)),
    "transpose": ((1, 4, 6), lambda x: ops.transpose(x, whole(2, 0, 1))),
    "squeeze": ((1, 4, 1), lambda x: ops.unsqueeze(ops.squeeze(x, whole(-1)), whole(1))),
    "concat": ((1, 4, 2), lambda x: ops.concat([x, ops.tanh(x), ops.constant(numbers(1, 1, 2))], 1)),
    "split": ((1, 6, 2), lambda x: ops.split(x, AXIS, 3).output(1)),
    "variadic split": ((1, 6, 2), lambda x: ops.variadic_split(x, AXIS, whole(1, -1, 2)).output(1)),
    "strided slice": ((2, 6, 4), lambda x: ops.strided_slice(
        x, whole(1, -5, -1), whole(0, 5, 4), whole(1, 2, 1), [0, 0, 0], [1, 0, 0], shrink_axis_mask=[0, 0, 1])),
    "slice": ((2, 6, 4), lambda x: ops.slice(x, whole(-5), whole(5), whole(2), whole(1))),
    "gather": ((2, 6, 4), lambda x: ops.gather(x, whole(3, -1), AXIS)),
    "gather elements": ((2, 3), lambda x: ops.gather_elements(x, np.asarray([[1, 0, 1]], np.int64), 0)),
    "broadcast": ((1, 3, 1), lambda x: ops.broadcast(x, whole(2, 3, 4))),
    "pad": ((1, 3, 4), lambda x: ops.pad(x, whole(0, 1, 2), whole(0, 0, 1), "constant", real(0.5))),
    "reflect": ((1, 3, 4), lambda x: ops.pad(x, whole(0, 1, 2), whole(0, 0, 1), "reflect")),
    "tile": ((1, 3), lambda x: ops.tile(x, whole(2, 3))),
    "cumulative": ((1, 5), lambda x: ops.cum_sum(x, AXIS, True, True)),
    "select": ((1, 5), lambda x: ops.select(ops.greater_equal(x, real(0.1)), x, ops.negative(x))),
    "not equal": ((1, 5), lambda x: ops.select(ops.not_equal(ops.floor(x), real(0)), ops.sign(x), ops.ceiling(x))),
    "embedding": ((1, 5), lambda x: ops.gather(numbers(7, 3), ops.convert(ops.abs(ops.multiply(x, real(2))), "i64"),
                                               ops.constant(np.int64(0)))),
    "computed shape": ((1, 5, 4), lambda x: ops.reshape(x, ops.concat(
        [ops.gather(ops.shape_of(x), whole(0), ops.constant(np.int64(0))), whole(-1)], 0), False)),
    "top": ((2, 6), lambda x: ops.topk(x, ops.constant(np.int64(3)), 1, "min", "value").output(0)),
    "attention": ((1, 2, 4, 8), lambda x: ops.scaled_dot_product_attention(x, ops.tanh(x), ops.sin(x))),
    "attention, masked and scaled": ((1, 2, 4, 8), lambda x: ops.scaled_dot_product_attention(
        x, ops.tanh(x), x, numbers(4, 4), real(0.3))),
    "attention to chosen ones": ((1, 2, 4, 8), lambda x: ops.scaled_dot_product_attention(
        x, ops.tanh(x), x, ops.constant(np.tri(4, 4, 1) > 0))),
    "causal attention": ((1, 2, 4, 8), lambda x: ops.scaled_dot_product_attention(x, ops.tanh(x), x, causal=True)),
    "lstm": ((1, 12), recurrent(ops.lstm_sequence, 4, 4)),
    "lstm reversed, clipped": ((1, 12), recurrent(ops.lstm_sequence, 4, 4, direction="reverse", clip=0.4)),
    "lstm of other functions": ((1, 12), recurrent(ops.lstm_sequence, 4, 4, activations=["sigmoid", "relu", "tanh"])),
    "lstm of two steps": ((1, 12), recurrent(ops.lstm_sequence, 4, 4, length=2)),
    "gru": ((1, 12), recurrent(ops.gru_sequence, 3, 3)),
    "gru late": ((1, 12), recurrent(ops.gru_sequence, 3, 4, linear_before_reset=True)),
    "rnn": ((1, 12), recurrent(ops.rnn_sequence, 1, 1)),
}  # fmt: skip


def saved(folder, shape, build, *, half=False):
    given = ops.parameter(shape, np.float32, "given")
    made = build(given)
    model = openvino.Model(made if isinstance(made, list) else [made], [given], "case")
    openvino.save_model(model, folder / "case.xml", compress_to_fp16=half)
    return folder / "case.xml"


def answers(path, value):
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.asarray(output) for output in compiled([value]).values()]


@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_openvino_does(tmp_path, name):
    shape, build = CASES[name]
    path = saved(tmp_path, shape, build)
    value = GENERATOR.normal(size=shape).astype(np.float32)
    raw = with_file_operators(OPENVINO.load(Request(str(path), weights=True)))
    unknown = [node.get("source_op") for node in raw.nodes if node.op == "unknown" and node.get("domain") == "openvino"]
    assert not unknown
    for graph in (raw, canonical_with_facts(raw)):
        entry = graph.inputs[0]
        found = run(graph, {entry.name: value.reshape(entry.shape).astype(np.float64)})
        for output, expected in zip(graph.outputs, answers(path, value), strict=True):
            assert np.size(found[output]) == expected.size
            np.testing.assert_allclose(np.ravel(found[output]), expected.ravel(), rtol=2e-4, atol=2e-5)


def test_a_layer_that_onnx_cannot_say_stays_unknown(tmp_path):
    path = saved(
        tmp_path, (2, 6), lambda x: ops.strided_slice(x, whole(0, -1), whole(2, -9), whole(1, -1), [0, 0], [0, 0])
    )
    graph = OPENVINO.load(Request(str(path)))
    (node,) = [node for node in graph.nodes if node.op == "unknown"]
    assert node.shape == (2, 6)
    assert "StridedSlice" in str(node.get("source_op"))


@pytest.mark.parametrize(
    ("extent", "build"),
    [
        # The last window lies in padding alone, or reaches behind it; extents of the output that ONNX would choose.
        (7, lambda x: ops.max_pool(x, [2, 2], [1, 1], [1, 1], [1, 1], [2, 2], "ceil")),
        (6, lambda x: ops.avg_pool(x, [2, 2], [0, 0], [0, 0], [3, 3], False, "ceil")),
        (6, lambda x: ops.convolution_backprop_data(x, numbers(4, 8, 3, 3), [2, 2], auto_pad="same_upper")),
    ],
)
def test_windows_that_onnx_places_in_another_way_stay_unknown(tmp_path, extent, build):
    path = saved(tmp_path, (1, 4, extent, extent), build)
    graph = OPENVINO.load(Request(str(path)))
    (node,) = [node for node in graph.nodes if node.op == "unknown"]
    assert node.shape == openvino.Core().read_model(path).output(0).shape


def test_settings_that_older_files_leave_out_have_their_defaults(tmp_path):
    path = saved(tmp_path, (2, 6, 4), lambda x: ops.gather(x, whole(3, -1), AXIS))
    path.write_text(path.read_text().replace('batch_dims="0"', ""))
    graph = OPENVINO.load(Request(str(path)))
    assert [node.op for node in graph.nodes if node.op not in ("input", "constant")] == ["gather"]


def test_constants_in_float16_are_read_through_the_cast_behind_them(tmp_path):
    kernel = numbers(4, 5)
    path = saved(tmp_path, (1, 5), lambda x: ops.matmul(x, kernel, False, True), half=True)
    graph = OPENVINO.load(Request(str(path), weights=True))
    (values,) = graph.weights.values()
    np.testing.assert_array_equal(np.asarray(values, np.float32), kernel.astype(np.float16).astype(np.float32))


def test_extents_that_the_file_leaves_open_are_those_that_are_asked_for(tmp_path):
    path = saved(tmp_path, (-1, -1, 5), lambda x: ops.reduce_max(ops.matmul(x, numbers(4, 5), False, True), whole(1)))
    name = next(iter(openvino.Core().read_model(path).input(0).get_names()), "given")
    graph = OPENVINO.load(Request(str(path), extents={name: (1, 7, 5)}))
    assert [node.shape for node in graph.nodes if node.op == "dense"] == [(1, 7, 4)]


# --- damaged files


@pytest.fixture
def written(tmp_path):
    path = saved(tmp_path, (1, 5), lambda x: ops.relu(ops.matmul(x, numbers(4, 5), False, True)))
    return path, path.read_text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</net>", "", "cannot be read as XML"),
        ('version="11"', 'version="7"', "version 7"),
        ('from-layer="0"', 'from-layer="77"', "starts at an output that no layer has"),
        ("<edges>", "<old>", "cannot be read as XML"),
        ('to-port="1"', 'to-port="8"', "nothing is connected to an input"),
        ('offset="0"', 'offset="x"', "cannot be read"),
        ('offset="0"', 'offset="4"', "does not hold the values"),
        ('size="80"', 'size="76"', "does not hold the values"),
        ('element_type="f32" shape="4, 5"', 'element_type="u4" shape="4, 5"', "u4"),
        ("<dim>4</dim>", "<dim>999999999999</dim>", "no real layer has"),
    ],
)  # fmt: skip
def test_an_altered_file_is_one_sentence(written, old, new, said):
    path, text = written
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=said):
        canonical_with_facts(OPENVINO.load(Request(str(path), weights=True)))


@pytest.mark.parametrize("content", [None, b"", b"\0" * 79])
def test_numbers_that_are_missing_or_cut_off(written, content):
    path, _ = written
    numbers_file = path.with_suffix(".bin")
    numbers_file.unlink() if content is None else numbers_file.write_bytes(content)
    with pytest.raises(ModelError):
        OPENVINO.load(Request(str(path), weights=True))


def test_numbers_in_another_folder_are_refused(written, tmp_path):
    path, _ = written
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = path.with_suffix(".bin").rename(elsewhere / "case.bin")
    with pytest.raises(ModelError, match="does not lie beside"):
        OPENVINO.load(Request(str(path), files={"weights": str(moved)}, weights=True))
