from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.graph.ir.model import Graph, Node, Parameter, pruned
from zoolens.findings.graph.segments.segment import Segment
from zoolens.findings.graph.segments.single_entry_exit import chains, dominators, homes, joined

SHAPE = (1, 4)


def value(name, op="relu", *inputs, **attributes):
    parameters = (Parameter("kernel", (4, 4), f"{name}.kernel"),) if op == "dense" else ()
    return Node(name, op, inputs, SHAPE, attributes, parameters)


def network(*nodes, outputs=None):
    return Graph("net", (Node("x", "input", (), SHAPE), *nodes), outputs or (nodes[-1].name,))


def is_single(graph, segment):
    """Whether one value goes in and one comes out: by the definition, whatever made the segment."""
    inside = set(segment.nodes)
    if segment.exit not in inside or segment.entry in inside or len(inside) != len(segment.nodes):
        return False
    enters = {name for node in segment.of(graph) for name in node.inputs if name not in inside}
    used_outside = {name for name in inside if {user.name for user in graph.consumers[name]} - inside}
    return enters == {segment.entry} and used_outside | (inside & set(graph.outputs)) <= {segment.exit}


def names(chain):
    return [step.exit for step in chain.steps]


@st.composite
def graphs(draw, ops=("relu", "tanh"), most=9):
    """Any network of one input, whether or not its paths nest; what leads nowhere is cut off."""
    nodes = []
    for number in range(draw(st.integers(1, most))):
        known = ["x", *(node.name for node in nodes)]
        count = draw(st.integers(1, min(2, len(known))))
        taken = draw(st.lists(st.sampled_from(known[-4:]), min_size=count, max_size=count, unique=True))
        op = "add" if len(taken) == 2 else draw(st.sampled_from(ops))
        nodes.append(value(f"n{number}", op, *taken))
    outputs = {nodes[-1].name, *draw(st.lists(st.sampled_from([node.name for node in nodes]), max_size=1))}
    return pruned(network(*nodes, outputs=tuple(sorted(outputs))))


def below(graph, start):
    found = {start}
    for node in graph.nodes:
        if any(name in found for name in node.inputs):
            found.add(node.name)
    return found - {start}


def above(graph, end):
    found = {end}
    for node in reversed(graph.nodes):
        if node.name in found:
            found.update(node.inputs)
    return found


def every_segment(graph):
    """By trying all pairs of values."""
    for entry in graph.by_name:
        for exit_ in below(graph, entry):
            inside = below(graph, entry) & above(graph, exit_)
            segment = Segment(entry, exit_, tuple(node.name for node in graph if node.name in inside))
            if is_single(graph, segment):
                yield segment


def every_run(graph):
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    for chain in chains(graph):
        for start in range(len(chain.steps)):
            for stop in range(start + 1, len(chain.steps) + 1):
                yield joined(chain.steps[start:stop], place)


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_the_runs_of_all_chains_are_all_segments_there_are(graph):
    found = list(every_run(graph))
    assert len(found) == len(set(found))
    assert set(found) == set(every_segment(graph))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_dominators(graph):
    for name, nearest in dominators(graph).items():
        on_every_way = {
            one for one in above(graph, name) - {name} if name not in reached_without(graph, one) and one != name
        }
        assert on_every_way == set(climbed(dominators(graph), nearest))


def climbed(found, name):
    while name:
        yield name
        name = found[name]


def reached_without(graph, missing):
    found = {"x"} - {missing}
    for node in graph.nodes:
        if node.name != missing and any(name in found for name in node.inputs):
            found.add(node.name)
    return found


def test_a_residual_block_is_a_step_and_its_path_a_chain_inside_it():
    graph = network(
        value("a", "relu", "x"),
        value("b", "dense", "a"),
        value("c", "dense", "b"),
        value("sum", "add", "a", "c"),
        value("y", "relu", "sum"),
    )
    found = chains(graph)
    assert [names(chain) for chain in found] == [["a", "sum", "y"], ["b", "c"]]
    assert found[0].steps[1] == Segment("a", "sum", ("b", "c", "sum"))
    assert homes(found) == {"": (found[0],), "sum": (found[1],)}


def test_two_paths_of_three_are_a_segment_too():
    graph = network(
        value("a", "relu", "x"),
        value("b", "tanh", "x"),
        value("some", "add", "a", "b"),
        value("c", "abs", "x"),
        value("all", "add", "some", "c"),
    )
    assert Segment("x", "some", ("a", "b", "some")) in set(every_run(graph))


def test_a_value_that_an_output_shows_ends_a_chain():
    graph = network(value("a", "relu", "x"), value("b", "tanh", "a"), outputs=("a", "b"))
    assert [names(chain) for chain in chains(graph)] == [["a"], ["b"]]


def test_a_learned_value_belongs_to_the_step_that_uses_it():
    token = Node("token", "parameter", (), SHAPE, {}, (Parameter("value", SHAPE, "t"),))
    graph = network(value("a", "relu", "x"), token, value("sum", "add", "a", "token"), value("y", "relu", "sum"))
    assert chains(graph)[0].steps[1] == Segment("a", "sum", ("token", "sum"))
    shared = network(
        value("a", "relu", "x"), token, value("sum", "add", "a", "token"), value("y", "mul", "sum", "token")
    )
    assert [names(chain) for chain in chains(shared)] == [["a"]]


def test_two_inputs_meet_in_no_segment():
    second = Node("z", "input", (), SHAPE)
    graph = network(second, value("sum", "add", "x", "z"), value("y", "relu", "sum"))
    assert [names(chain) for chain in chains(graph)] == [["y"]]
