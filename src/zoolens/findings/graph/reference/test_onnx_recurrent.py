"""The recurrent layers against onnxruntime, which computes them by kernels of its own."""

import numpy as np
import pytest

from zoolens.findings.graph.reference.onnx_recurrent import recurrent, sigmoid
from zoolens.findings.graph.reference.recurrent_layer import CELL_ACTIVATIONS

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")
onnxruntime = pytest.importorskip("onnxruntime")
STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def drawn(kind, ways, *left_out):
    generator = np.random.default_rng(3)
    rows = GATES[kind] * HIDDEN
    shapes = {
        "X": (STEPS, BATCH, WIDTH), "W": (ways, rows, WIDTH), "R": (ways, rows, HIDDEN), "B": (ways, 2 * rows),
        "initial_h": (ways, BATCH, HIDDEN), "initial_c": (ways, BATCH, HIDDEN), "P": (ways, 3 * HIDDEN),
    }  # fmt: skip
    values = {name: (0.5 * generator.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    values["sequence_lens"] = np.array([5, 2, 4], np.int32)
    names = INPUTS if kind == "LSTM" else INPUTS[:6]
    return [None if name in left_out else values[name] for name in names]


def by_onnxruntime(kind, given, attributes):
    outputs = ["Y", "Y_h", "Y_c"][: 3 if kind == "LSTM" else 2]
    fed = {name: value for name, value in zip(INPUTS, given, strict=False) if value is not None}
    names = [name if name in fed else "" for name in INPUTS[: len(given)]]
    node = helper.make_node(kind, names, outputs, hidden_size=HIDDEN, **attributes)
    types = {np.dtype("float32"): 1, np.dtype("int32"): 6}
    graph = helper.make_graph(
        [node],
        kind,
        [helper.make_tensor_value_info(name, types[value.dtype], value.shape) for name, value in fed.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, fed)


@pytest.mark.parametrize(
    ("kind", "left_out", "attributes"),
    [
        ("LSTM", (), {}),
        ("LSTM", ("B", "sequence_lens", "initial_h", "initial_c", "P"), {"direction": "reverse"}),
        ("LSTM", ("P",), {"direction": "bidirectional"}),
        ("LSTM", ("P",), {"input_forget": 1, "activations": ["Sigmoid", "Relu", "Tanh"]}),
        ("LSTM", ("P", "sequence_lens"), {"clip": 0.3}),
        ("GRU", (), {"direction": "bidirectional"}),
        ("GRU", ("sequence_lens",), {"linear_before_reset": 1}),
        ("GRU", ("initial_h",), {"direction": "reverse", "linear_before_reset": 1}),
        ("RNN", (), {}),
        ("RNN", ("B",), {"direction": "bidirectional", "activations": ["Relu", "Tanh"]}),
        ("RNN", (), {"direction": "reverse", "activations": ["Softsign"]}),
    ],
)
def test_all_directions_states_and_settings(kind, left_out, attributes):
    ways = 2 if attributes.get("direction") == "bidirectional" else 1
    given = drawn(kind, ways, *left_out)
    exact = recurrent(kind, [value if value is None or value.dtype.kind == "i" else value.astype(float)
                             for value in given], attributes)  # fmt: skip
    for ours, theirs in zip(exact, by_onnxruntime(kind, given, attributes), strict=False):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_batches_may_come_first():
    given = drawn("LSTM", 1, "sequence_lens", "P")
    plain = recurrent("LSTM", given, {})
    turned = [given[0].swapaxes(0, 1), *given[1:5], *(state.swapaxes(0, 1) for state in given[5:7]), None]
    states, last, cell = recurrent("LSTM", turned, {"layout": 1})
    np.testing.assert_array_equal(states, plain[0].transpose(2, 0, 1, 3))
    np.testing.assert_array_equal(last, plain[1].swapaxes(0, 1))
    np.testing.assert_array_equal(cell, plain[2].swapaxes(0, 1))


def test_an_activation_with_numbers_of_its_own_is_refused():
    with pytest.raises(ValueError, match="its activations are HardSigmoid"):
        recurrent("RNN", drawn("RNN", 1), {"activations": ["HardSigmoid"]})


@pytest.mark.parametrize("sigmoid", [sigmoid, CELL_ACTIVATIONS["sigmoid"]], ids=["file", "layer"])
def test_a_sigmoid_keeps_its_digits_where_it_is_small(sigmoid):
    """1 + tanh has none there, so that a floor of rounding measured with it lets anything pass."""
    far = np.array([-30.0, -80.0, 0.0, 80.0])
    np.testing.assert_allclose(sigmoid(far), 1 / (1 + np.exp(-far)), rtol=1e-14)
    single = sigmoid(far.astype(np.float32))
    np.testing.assert_allclose(single, 1 / (1 + np.exp(-far)), rtol=1e-5)
