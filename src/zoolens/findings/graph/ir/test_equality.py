from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.equality import same_structure, signature, structure_hash
from zoolens.findings.graph.ir.model import Graph, Node, Parameter


def dense(name, source, width=4, **attributes):
    return Node(name, "dense", (source,), (1, width), attributes, (Parameter("kernel", (width, 4), name),))


def network(*middle, last="b", op="add"):
    x = Node("x", "input", (), (1, 4))
    return Graph("net", (x, *middle, Node("sum", op, ("x", last), (1, 4))), ("sum",))


BASE = network(dense("a", "x"), dense("b", "a"))


def test_names_sources_and_keys_do_not_matter():
    other = network(replace(dense("first", "x"), source="layer.0"), dense("b", "first"))
    assert same_structure(BASE, other)
    assert structure_hash(BASE) == structure_hash(other)


def test_what_matters():
    for other in (
        network(dense("a", "x"), dense("b", "x")),  # other wiring
        network(dense("a", "x"), dense("b", "a", norm="batch")),  # an attribute
        network(dense("a", "x"), dense("b", "a"), op="mul"),
        network(dense("a", "x"), last="a"),  # a layer less
    ):
        assert not same_structure(BASE, other)
        assert structure_hash(BASE) != structure_hash(other)


def test_the_order_of_a_sum_does_not_change_the_hash():
    swapped = replace(BASE, nodes=(*BASE.nodes[:-1], replace(BASE.nodes[-1], inputs=("b", "x"))))
    assert structure_hash(BASE) == structure_hash(swapped)
    difference = [replace(g, nodes=(*g.nodes[:-1], replace(g.nodes[-1], op="sub"))) for g in (BASE, swapped)]
    assert structure_hash(difference[0]) != structure_hash(difference[1])


def test_numbers_are_compared_as_float32_blurs_them():
    assert signature(dense("a", "x", epsilon=1e-3)) == signature(dense("a", "x", epsilon=0.0010000000474974513))
    assert signature(dense("a", "x", epsilon=1e-5)) != signature(dense("a", "x", epsilon=1.001e-5))
    assert signature(dense("a", "x", flag=True)) != signature(dense("a", "x", flag=1))
