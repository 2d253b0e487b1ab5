from collections import Counter
from dataclasses import replace

from zoolens.findings.graph.diff.conftest import Sketch, alexnet, densenet, mobilenet, resnet, resnet_v2, squeezenet
from zoolens.findings.graph.outline.outline import outline


def stages(graph):
    """Blocks per stage, where there are any."""
    return Counter(block.stage for block in outline(graph) if block.index)


def test_every_node_is_in_the_outline_once():
    for graph in (resnet(), resnet_v2(), alexnet(), squeezenet(), mobilenet(), densenet()):
        names = [layer.node.name for block in outline(graph) for layer in block.layers]
        assert sorted(names) == sorted(node.name for node in graph)


def test_a_resnet_has_four_stages_of_residual_blocks_between_stem_and_head():
    blocks = outline(resnet((3, 4, 6, 3)))
    assert stages(resnet((3, 4, 6, 3))) == {"stage 1": 3, "stage 2": 4, "stage 3": 6, "stage 4": 3}
    assert {block.kind for block in blocks if block.index} == {"residual"}
    assert [block.layers[0].node.op for block in blocks if block.stage == "stem"] == ["conv", "relu", "max_pool"]
    assert [block.layers[0].node.op for block in blocks if block.stage == "head"] == ["global_avg_pool", "dense"]


def test_layers_of_a_block_know_their_path_and_number():
    first = next(block for block in outline(resnet()) if block.stage == "stage 3" and block.index == 1)
    convs = [(layer.path, layer.index, layer.node.get("kernel")[0]) for layer in first.layers if layer.kind == "conv"]
    assert convs == [("main", 1, 1), ("main", 2, 3), ("main", 3, 1), ("shortcut", 1, 1)]


def test_a_stride_in_the_last_block_of_a_stage_moves_no_block_to_another_stage():
    assert stages(resnet_v2(pooled_shortcuts=True)) == stages(resnet_v2()) == stages(resnet())


def test_preactivation_belongs_to_the_block_after_it():
    blocks = [block for block in outline(resnet_v2()) if block.index]
    assert {block.layers[0].node.op for block in blocks} == {"batch_norm"}
    assert {block.output.op for block in blocks} == {"add"}


def test_plain_chains_have_their_layers_in_stages():
    blocks = outline(alexnet())
    convs = [(block.stage, layer.index) for block in blocks for layer in block.layers if layer.kind == "conv"]
    assert convs == [("stage 1", 1), ("stage 2", 1), ("stage 3", 1), ("stage 3", 2), ("stage 3", 3)]
    assert all(block.plain for block in blocks)


def test_inverted_residuals_are_blocks_with_and_without_a_shortcut():
    blocks = [block for block in outline(mobilenet()) if block.index]
    assert [sum(layer.kind == "conv" for layer in block.layers) for block in blocks] == [2, 3, 3, 3, 3]
    assert stages(mobilenet()) == {"stage 1": 1, "stage 2": 2, "stage 3": 2}


def test_a_dense_block_is_split_into_its_layers_and_transitions_stand_apart():
    assert stages(densenet((3, 4))) == {"stage 1": 3, "stage 2": 4}
    assert [block.kind for block in outline(densenet((3, 4)))].count("transition") == 1


def test_a_fire_has_its_squeeze_and_two_branches():
    fires = [block for block in outline(squeezenet()) if block.kind == "fire"]
    assert len(fires) == 8
    assert fires[0].paths == ("", "branch 1", "branch 2")


def test_the_order_of_the_file_decides_nothing():
    graph = resnet((1, 1))
    shortcut_first = []
    waiting = {node.name: node for node in graph}
    while waiting:  # another order of computation: always the ready node that comes last in the file
        ready = [node for node in waiting.values() if not any(name in waiting for name in node.inputs)]
        shortcut_first.append(waiting.pop(ready[-1].name))
    other = replace(graph, nodes=tuple(shortcut_first))
    assert [node.name for node in other] != [node.name for node in graph]
    assert [block.signature for block in outline(other)] == [block.signature for block in outline(graph)]


def test_what_comes_in_aside_does_not_hide_the_cuts():
    net = Sketch()
    net.conv(8)
    token = net.build.add("parameter", [], (1, 8, 1, 1))
    net.add("add", net.last, token)
    entry = net.last
    net.add("add", net.conv(8, act=None), entry)
    net.head()
    assert any(block.kind == "residual" for block in outline(net.finish()))


def test_further_outputs_are_auxiliary():
    net = Sketch()
    trunk = net.conv(8)
    extra = net.head()
    net.last = trunk
    net.conv(8)
    main = net.head()
    blocks = outline(net.build.finish([main, extra]))
    assert blocks[-1].stage == "auxiliary"
    assert [layer.node.op for layer in blocks[-1].layers] == ["global_avg_pool", "dense"]
