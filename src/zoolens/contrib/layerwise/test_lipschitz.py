from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise import lipschitz
from zoolens.contrib.layerwise.lipschitz import STEEPEST, gain, joined
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.ir.vocabulary import OPS
from zoolens.findings.graph.reference.interpreter import run

random = np.random.default_rng(11)


def single(op, shape, out, parameters=None, **attributes):
    """A network of one operator."""
    learned = parameters or {}
    described = tuple(Parameter(role, np.shape(value), role) for role, value in learned.items())
    nodes = (Node("x", "input", (), shape), Node("y", op, ("x",), out, attributes, described))
    return Graph(op, nodes, ("y",), {role: np.asarray(value, np.float64) for role, value in learned.items()})


def constant(graph):
    return gain(graph, graph.by_name["y"])


def stretched(graph, x, step):
    """How much longer a difference is behind the operator than before it."""
    one, two = (run(graph, {"x": value})["y"] for value in (x, x + step))
    return np.linalg.norm(one - two) / np.linalg.norm(step)


def slopes(graph, low=-8.0, high=8.0):
    """Of an operator that works number by number: finite differences on a fine grid."""
    size = graph.by_name["x"].shape[1]
    x = np.linspace(low, high, size)[None]
    y = run(graph, {"x": x})["y"]
    return np.abs(np.diff(y) / np.diff(x)).max()


ACTIVATIONS = [
    *((op, {}) for op in sorted(STEEPEST) if op not in ("clip", "neg", "abs")),
    ("clip", {"low": -1.0, "high": 2.0}), ("neg", {}), ("abs", {}),
    ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("gelu", {"approximate": "quick"}),
    ("leaky_relu", {"alpha": 0.2}), ("elu", {"alpha": 1.5}), ("hard_sigmoid", {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes"), ACTIVATIONS)
def test_the_slope_of_an_activation_is_bounded_and_the_bound_is_met(op, attributes):
    size = 40_001
    graph = single(op, (1, size), (1, size), **attributes)
    found, steepest = constant(graph).value, slopes(graph)
    assert steepest <= found * (1 + 1e-9)
    assert steepest >= found * 0.999


def test_the_constants_that_people_get_wrong():
    assert constant(single("gelu", (1, 4), (1, 4))).value == pytest.approx(1.1289, abs=1e-4)
    overlapping = single("max_pool", (1, 2, 9, 9), (1, 2, 4, 4), kernel=(3, 3), stride=(2, 2))
    assert constant(overlapping).value == 2


LINEAR = [
    ("avg_pool", (1, 2, 7, 6), (1, 2, 4, 3), {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 0)}),
    ("avg_pool", (1, 1, 6, 6), (1, 1, 6, 6), {"kernel": (3, 3), "pads": (1, 1, 1, 1), "count_pad": True}),
    ("adaptive_avg_pool", (1, 2, 7, 5), (1, 2, 3, 3), {"size": (3, 3)}),
    ("global_avg_pool", (1, 3, 4, 5), (1, 3), {}),
    ("mean", (1, 4, 6), (1, 6), {"axes": (1,)}),
    ("sum", (1, 4, 6), (1, 6), {"axes": (1,)}),
    ("resize", (1, 1, 4, 4), (1, 1, 7, 7), {"mode": "linear"}),
    ("pad", (1, 1, 4, 4), (1, 1, 6, 7), {"pads": (0, 0, 1, 1, 0, 0, 1, 2), "mode": "reflect"}),
    ("pad", (1, 1, 4), (1, 1, 7), {"pads": (0, 0, 1, 0, 0, 2), "mode": "edge"}),
    ("tile", (1, 3), (1, 6), {"repeats": (1, 2)}),
    ("expand", (1, 3, 1), (1, 3, 5), {}),
    ("gather", (1, 4), (1, 5), {"axis": 1, "indices": (0, 0, 2, 3, 0)}),
    ("mul", (1, 4), (1, 4), {"scalar": -2.5}),
    ("div", (1, 4), (1, 4), {"scalar": 4.0}),
    ("transpose", (1, 3, 4), (1, 4, 3), {"perm": (0, 2, 1)}),
]


@pytest.mark.parametrize(("op", "shape", "out", "attributes"), LINEAR)
def test_linear_operators_are_exact(op, shape, out, attributes):
    graph = single(op, shape, out, **attributes)
    nothing = np.zeros(shape)
    every = np.eye(nothing.size).reshape(-1, *shape)
    matrix = np.stack([(run(graph, {"x": one})["y"] - run(graph, {"x": nothing})["y"]).reshape(-1) for one in every])
    assert constant(graph).value == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-6)


def layers():
    c = random.standard_normal
    yield "conv", (1, 3, 6, 6), (1, 4, 6, 6), {"kernel": c((4, 3, 3, 3)), "bias": c(4)}, {
        "kernel": (3, 3), "pads": (1, 1, 1, 1),
    }  # fmt: skip
    merged = {
        "kernel": c((4, 3, 3, 3)), "norm_scale": c(4), "norm_shift": c(4), "norm_mean": c(4),
        "norm_variance": c(4) ** 2 + 0.1,
    }  # fmt: skip
    yield "conv", (1, 3, 7, 7), (1, 4, 4, 4), merged, {
        "kernel": (3, 3), "pads": (1, 1, 1, 1), "stride": (2, 2), "norm": "batch", "epsilon": 1e-3,
    }  # fmt: skip
    yield "conv_transpose", (1, 3, 4, 4), (1, 2, 8, 8), {"kernel": c((3, 2, 4, 4))}, {
        "kernel": (4, 4), "stride": (2, 2), "pads": (1, 1, 1, 1),
    }  # fmt: skip
    yield "dense", (1, 5, 6), (1, 5, 7), {"kernel": c((7, 6)), "bias": c(7)}, {}
    yield "batch_norm", (1, 3, 4), (1, 3, 4), {"scale": c(3), "mean": c(3), "variance": c(3) ** 2}, {"epsilon": 1e-5}
    yield "affine", (1, 3, 4), (1, 3, 4), {"scale": c(3), "shift": c(3)}, {"axis": 1}
    yield "prelu", (1, 3, 4), (1, 3, 4), {"alpha": c(3) * 3}, {}
    yield "layer_norm", (1, 6), (1, 6), {"scale": c(6), "shift": c(6)}, {"epsilon": 1e-2, "axes": (1,)}
    yield "rms_norm", (1, 6), (1, 6), {"scale": c(6)}, {"epsilon": 1e-2, "axes": (1,)}
    yield "group_norm", (1, 6, 3), (1, 6, 3), {"scale": c(6)}, {"epsilon": 1e-2, "groups": 2}
    yield "lrn", (1, 8, 3, 3), (1, 8, 3, 3), {}, {"size": 5, "alpha": 2.0, "beta": 0.75, "bias": 1.0}
    yield "softmax", (1, 5), (1, 5), {}, {"axis": 1}
    yield "log_softmax", (1, 5), (1, 5), {}, {"axis": 1}
    yield "l2_normalize", (1, 5), (1, 5), {}, {"axes": (1,), "epsilon": 0.5}
    yield "max_pool", (1, 2, 7, 7), (1, 2, 3, 3), {}, {"kernel": (3, 3), "stride": (2, 2)}
    yield "max_pool", (1, 2, 8, 8), (1, 2, 4, 4), {}, {"kernel": (3, 3), "dilation": (2, 2)}
    yield "adaptive_max_pool", (1, 2, 7, 7), (1, 2, 3, 3), {}, {"size": (3, 3)}
    yield "max", (1, 4, 5), (1, 5), {}, {"axes": (1,)}


@pytest.mark.parametrize("case", list(layers()), ids=lambda case: case[0])
def test_no_difference_is_stretched_by_more(case):
    op, shape, out, parameters, attributes = case
    graph = single(op, shape, out, parameters, **attributes)
    most = constant(graph).value
    assert most < inf
    for size in (1e-3, 0.1, 3.0, 30.0):
        for _ in range(40):
            x = size * random.standard_normal(shape)
            step = 10 ** random.uniform(-4, 1) * random.standard_normal(shape)
            assert stretched(graph, x, step) <= most * (1 + 1e-6)


def test_softmax_attains_its_constant():
    graph = single("softmax", (1, 2), (1, 2), axis=1)
    assert stretched(graph, np.zeros((1, 2)), np.array([[1e-5, -1e-5]])) == pytest.approx(0.5)


def test_overlapping_windows_attain_theirs():
    graph = single("max_pool", (1, 1, 5, 5), (1, 1, 2, 2), kernel=(3, 3), stride=(2, 2))
    step = np.zeros((1, 1, 5, 5))
    step[0, 0, 2, 2] = 1.0  # in all four windows
    assert stretched(graph, np.zeros((1, 1, 5, 5)), step) == 2


def test_what_has_no_constant_says_why():
    nodes = (Node("x", "input", (), (1, 4)), Node("y", "mul", ("x", "x"), (1, 4)))
    found = constant(Graph("square", nodes, ("y",)))
    assert found.value == inf
    assert "product" in found.reason
    assert "attention" in constant(single("attention", (1, 4), (1, 4))).reason
    assert constant(single("exp", (1, 4), (1, 4))).value == inf


def test_a_product_with_a_learned_value_has_one():
    scale = Node("s", "parameter", (), (4,), {}, (Parameter("value", (4,), "s"),))
    nodes = (Node("x", "input", (), (1, 4)), scale, Node("y", "mul", ("x", "s"), (1, 4)))
    graph = Graph("scaled", nodes, ("y",), {"s": np.array([1.0, -3.0, 2.0, 0.5])})
    assert constant(graph).value == 3


def test_what_is_not_known_is_unbounded_and_named():
    known = lipschitz.LINEAR | STEEPEST.keys() | lipschitz.MOVES | lipschitz.CHOICES | lipschitz._RULES.keys()
    assert known <= OPS.keys()
    for op in OPS.keys() - known:
        found = constant(single(op, (1, 4), (1, 4)))
        assert found.value == inf
        assert op in found.reason


def test_differences_of_several_inputs():
    one, two = np.array([[3.0]]), np.array([[4.0]])
    assert joined(Node("y", "add", ("a", "b"), (1,)), [one, two]) == 7
    assert joined(Node("y", "concat", ("a", "b"), (1,)), [one, two]) == 5
    assert joined(Node("y", "maximum", ("a", "b"), (1,)), [one, two]) == sqrt(25)


def test_weights_that_are_not_there():
    graph = single("dense", (1, 3), (1, 3), {"kernel": np.eye(3)})
    with pytest.raises(ModelError, match="no values for the kernel"):
        constant(Graph(graph.name, graph.nodes, graph.outputs))
