import pytest

from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.tracing.operators import TracedGraph, canonical_nodes


def node(name, op, *inputs, source=None, parameters=()):
    tensors = tuple(Parameter("kernel", (4,), key) for key in parameters)
    return Node(name, op, inputs, (1, 4), {}, tensors, name if source is None else source)


RAW = Graph(
    "raw",
    (
        node("x", "input"),
        node("conv", "conv", "x", parameters=["w"]),
        node("norm", "batch_norm", "conv", parameters=["s"]),
        node("relu", "relu", "norm"),
        node("q", "dense", "relu", parameters=["q"]),
        node("scores", "matmul", "q", "q"),
        node("weights", "softmax", "scores"),
        node("mixed", "matmul", "weights", "q"),
        node("flat", "flatten", "mixed"),
        node("head", "dense", "flat", parameters=["h"]),
    ),
    ("head",),
)
CANONICAL = Graph(
    "canonical",
    (
        node("x", "input"),
        node("c", "conv", "x", source="conv", parameters=["w", "s"]),
        node("r", "relu", "c", source="relu"),
        node("d", "dense", "r", source="q", parameters=["q"]),
        node("a", "attention", "d", source="mixed"),
        node("h", "dense", "a", source="head", parameters=["h"]),
    ),
    ("h",),
)


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("conv", "c"),  # it has its name
        ("norm", "c"),  # its learned tensor is there
        ("scores", "a"),  # the node behind it was made of several operators
        ("weights", "a"),
        ("flat", "a"),  # the node before it
        ("head", "h"),
    ],
)
def test_operators_are_found_in_the_node_that_took_them_in(operator, expected):
    assert TracedGraph(CANONICAL, *canonical_nodes(RAW, CANONICAL)).nodes([operator]) == [expected]


def test_what_a_layer_has_besides_operators_that_are_known_by_name_does_not_join_it_with_others():
    traced = TracedGraph(CANONICAL, *canonical_nodes(RAW, CANONICAL))
    assert traced.nodes(["norm", "relu"]) == ["r"]


def test_inputs_are_no_operators():
    assert all("x" not in nodes for nodes in canonical_nodes(RAW, CANONICAL))


def test_an_operator_behind_the_input_goes_into_the_next_one():
    raw = Graph(
        "raw", (node("x", "input"), node("quantize", "quantize", "x"), node("conv", "conv", "quantize")), ("conv",)
    )
    canonical = Graph("c", (node("x", "input"), node("conv", "conv", "x")), ("conv",))
    assert canonical_nodes(raw, canonical)[1] == {"quantize": ("conv",)}


def test_an_operator_of_which_nothing_is_left_is_not_there():
    raw = Graph("raw", (node("x", "input"), node("identity", "identity", "x")), ("identity",))
    assert canonical_nodes(raw, Graph("c", (node("x", "input"),), ("x",))) == ({}, {})
