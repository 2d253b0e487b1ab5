from zoolens.findings.graph.diff.alignment import align
from zoolens.findings.graph.diff.conftest import resnet


def test_extra_blocks_stand_at_the_end_of_their_stage():
    rows = align(resnet((2, 2)), resnet((2, 4))).rows
    assert [(row.b.stage, row.b.index) for row in rows if row.a is None] == [("stage 2", 3), ("stage 2", 4)]


def test_every_node_is_in_one_pair():
    a, b = resnet((2, 2)), resnet((2, 4), strided="1x1", bias=True)
    pairs = align(a, b).pairs
    assert sorted(pair.a.node.name for pair in pairs if pair.a) == sorted(node.name for node in a)
    assert sorted(pair.b.node.name for pair in pairs if pair.b) == sorted(node.name for node in b)
