import zlib
from dataclasses import replace

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import MAX_ELEMENTS, Graph, Node, checked
from zoolens.findings.graph.ir.serialisation import from_json, pack, to_json, unpack


def chain():
    build = GraphBuilder("chain")
    image = build.add("input", [], (1, 3, 4, 4), axes="NCHW")
    conv = build.add(
        "conv", [image], (1, 2, 4, 4), source="stem", axes="NCHW", kernel=(1, 1), stride=(1, 1), groups=None,
        parameters=[build.parameter("kernel", (2, 3, 1, 1), "stem.weight")],
    )  # fmt: skip
    noise = build.add("identity", [conv], (1, 2, 4, 4))
    return build.finish([build.add("relu", [noise], (1, 2, 4, 4), source="stem")], {"library": "none"})


def test_a_graph_survives_json_and_packing():
    graph = chain()
    for again in (from_json(to_json(graph)), unpack(pack(graph))):
        assert again == graph
        assert again.facts == graph.facts


@pytest.mark.parametrize("packed", [b"", b"nonsense", pack(chain())[:40], pack(chain())[:-20] + b"x" * 20])
def test_a_damaged_pack_is_refused_in_words(packed):
    with pytest.raises(ModelError, match="A stored graph is damaged"):
        unpack(packed)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"name": "x", "nodes": [5], "outputs": [], "facts": {}}',
        b'{"name": "x", "nodes": [{"name": "a", "op": "relu", "in": [], "shape": ["1"]}], "outputs": [], "facts": {}}',
        b'{"name": "x", "nodes": [{"name": [], "op": "relu", "in": [], "shape": [1]}], "outputs": [], "facts": {}}',
        b'{"name": "x", "nodes": [{"name": "a", "op": "b", "in": 5, "shape": []}], "outputs": [], "facts": {}}',
        b"[]",
    ],
)
def test_a_pack_of_other_things_is_refused_in_words(text):
    """Who took over the process that packs could send anything."""
    with pytest.raises(ModelError, match="A stored graph is damaged"):
        unpack(zlib.compress(text))


def test_names_are_made_unique_and_absent_attributes_left_out():
    graph = chain()
    assert [node.name for node in graph] == ["input", "stem", "identity", "stem#2"]
    assert dict(graph.nodes[1].attributes) == {"kernel": (1, 1), "stride": (1, 1)}


def test_sole_consumer_is_none_for_outputs_and_shared_values():
    graph = chain()
    assert graph.sole_consumer("stem").name == "identity"
    assert graph.sole_consumer("stem#2") is None
    assert replace(graph, outputs=("stem", "stem#2")).sole_consumer("stem") is None


@pytest.mark.parametrize(
    ("nodes", "outputs", "said"),
    [
        ([Node("a", "relu", ("b",), (1,)), Node("b", "relu", ("a",), (1,))], ("a",), "before it is made"),
        ([Node("a", "input", (), (1,)), Node("a", "input", (), (1,))], ("a",), "two nodes are called"),
        ([Node("a", "input", (), (1,))], ("b",), "no node produces the output"),
        ([Node("a", "input", (), (1,))], (), "it has no outputs"),
        ([Node("a", "input", (), (MAX_ELEMENTS, 2))], ("a",), "no real layer has"),
        ([Node("a", "input", (), (-1, 2))], ("a",), "no real layer has"),
    ],
)
def test_damaged_graphs_are_refused_in_words(nodes, outputs, said):
    with pytest.raises(ModelError, match=said):
        checked(Graph("bad", tuple(nodes), outputs))


def test_a_stored_graph_that_is_damaged_is_refused():
    document = to_json(chain())
    del document["nodes"][0]["shape"]
    with pytest.raises(ModelError, match="damaged"):
        from_json(document)
