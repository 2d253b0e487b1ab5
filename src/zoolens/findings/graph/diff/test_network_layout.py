import pytest

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff.conftest import Sketch, densenet, resnet
from zoolens.findings.graph.diff.network_layout import LIMITS, MEASURES, heat, network_layout
from zoolens.findings.graph.ir.builder import GraphBuilder


@pytest.fixture(scope="module")
def graph():
    return resnet()


@pytest.fixture(scope="module")
def layout(graph):
    return network_layout(graph)


def test_equal_blocks_are_one_part_and_every_layer_is_in_one_block(layout, graph):
    stage = [part for part in layout.parts if part.stage == "stage 3"]
    assert [(part.title, len(part.blocks)) for part in stage] == [
        ("residual block 1", 1),
        ("residual blocks 2–6 ×5", 5),
    ]
    sources = [layer.source for part in layout.parts for block in part.blocks for layer in block.layers]
    assert sorted(sources) == sorted(node.source or node.name for node in graph)
    assert layout.layers == len(graph)


def test_parts_add_up_to_what_the_network_costs(layout, graph):
    spent = cost(graph)
    totals = {"macs": spent.macs, "parameters": spent.parameters, "moved_bytes": spent.moved_bytes, "uncounted": 0}
    assert layout.totals == totals
    for measure in MEASURES:
        of_blocks = sum(block.amounts[measure] for part in layout.parts for block in part.blocks)
        assert sum(part.amounts[measure] for part in layout.parts) == of_blocks == layout.totals[measure]


def test_every_line_is_an_input_of_a_layer_and_none_is_missing(layout, graph):
    drawn = 0
    for part in layout.parts:
        for block in part.blocks:
            assert len({(layer.row, layer.column) for layer in block.layers}) == len(block.layers)
            for start, end in block.lines:
                assert start == -1 or block.layers[start].row < block.layers[end].row
                drawn += start >= 0
    home = {
        layer.source: (place, at)
        for place, part in enumerate(layout.parts)
        for at, block in enumerate(part.blocks)
        for layer in block.layers
    }
    names = {node.name: node.source or node.name for node in graph}
    inside = [
        (name, node.name) for node in graph for name in node.inputs if home[names[name]] == home[names[node.name]]
    ]
    assert drawn == len(inside)
    for node in graph:
        for name in node.inputs:
            source, target = home[names[name]][0], home[names[node.name]][0]
            assert source == target or source in layout.parts[target].inputs


def test_a_dense_network_tells_which_parts_it_goes_back_to():
    layout = network_layout(densenet((3, 4)))
    dense = [part for part in layout.parts if "dense" in part.title]
    assert max(len(part.inputs) for part in dense) > 1


def test_a_shared_tensor_counts_once():
    build = GraphBuilder("shared")
    value = build.add("input", [], (1, 4))
    for _ in range(2):
        kernel = build.parameter("kernel", (4, 4), "the same")
        value = build.add("dense", [value], (1, 4), parameters=[kernel])
    layout = network_layout(build.finish([value]))
    assert layout.totals["parameters"] == 16
    assert layout.totals["macs"] == 32


def test_of_a_network_with_too_many_layers_only_the_insides_are_left_out(graph, layout):
    folded = network_layout(graph, most=10)
    assert not folded.whole
    assert [part.title for part in folded.parts] == [part.title for part in layout.parts]
    assert not any(block.layers or block.lines for part in folded.parts for block in part.blocks)
    assert folded.totals == layout.totals


def test_heat_rises_with_the_share():
    assert heat(0) == 0
    assert heat(1e-9) == 1
    assert [heat(limit) for limit in LIMITS] == [2, 3, 4, 5, 6, 7]
    assert heat(1) == 7


def test_equal_blocks_tell_which_of_them_they_use():
    """Cells that use the one before them and the one before that, as NASNet has them."""
    net = Sketch("cells", 8)
    before = net.conv(16)
    last = net.conv(16)
    for _ in range(6):
        net.conv(8, of=last)
        left, right = net.conv(8), net.conv(8, of=before)
        before, last = last, net.concat(left, right)
    net.head()
    cells = max(network_layout(net.finish()).parts, key=lambda part: len(part.blocks))
    assert len(cells.blocks) > 3
    for place, block in enumerate(cells.blocks):
        assert block.inputs == tuple(sorted({max(place - 2, -1), max(place - 1, -1)}))


def test_blocks_in_a_row_use_each_their_neighbour(layout):
    row = max(layout.parts, key=lambda part: len(part.blocks))
    assert [block.inputs for block in row.blocks] == [(place - 1,) for place in range(len(row.blocks))]
