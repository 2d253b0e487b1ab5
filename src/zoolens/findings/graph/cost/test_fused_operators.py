import numpy as np
import pytest

from zoolens.findings.graph.cost.fused_operators import longest_path, operators
from zoolens.findings.graph.cost.test_cost import small
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.reference.interpreter import run


def test_a_layer_and_its_activation_are_one_operator():
    found = operators(small())
    assert [[node.op for node in one.nodes] for one in found] == [
        ["conv", "relu"], ["conv"], ["add"], ["global_avg_pool"], ["dense"],
    ]  # fmt: skip


def test_equal_operators_have_equal_keys_and_other_shapes_others():
    graph, again = operators(small()), operators(small())
    assert [one.key for one in graph] == [one.key for one in again]
    assert len({one.key for one in graph}) == len(graph)


def test_it_does_not_matter_who_made_the_input():
    def sums(op):
        nodes = (
            Node("x", "input", (), (1, 2)),
            Node("y", op, ("x",), (1, 2)),
            Node("z", "add", ("x", "y"), (1, 2)),
        )
        return operators(Graph("g", nodes, ("z",)))[-1]

    assert sums("softmax").key == sums("tanh").key


@pytest.mark.parametrize("place", range(5))
def test_an_operator_alone_can_be_computed(place):
    alone = operators(small())[place].as_graph()
    feeds = {node.name: np.ones(node.shape, np.float32) for node in alone.inputs}
    (value,) = run(alone, feeds).values()
    assert value.shape == operators(small())[place].nodes[-1].shape
    assert np.isfinite(value).all()


def test_the_longest_path_takes_the_slower_branch():
    nodes = (
        Node("x", "input", (), (1, 2)),
        Node("slow", "relu", ("x",), (1, 2)),
        Node("quick", "tanh", ("x",), (1, 2)),
        Node("sum", "add", ("slow", "quick"), (1, 2)),
    )
    graph = Graph("g", nodes, ("sum",))
    assert longest_path(graph, {"slow": 5.0, "quick": 1.0, "sum": 2.0}) == 7.0
