"""At another image size, what only follows from the size is not a cause of its own."""

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, slid


def ceil_pooled(size, *, base=(0, 0, 0, 0)):
    """As SqueezeNet does it: pools with "ceil", whose padding depends on what they are given."""
    net = Sketch(size=size)
    net.conv(8, 3, 2, pads=(0,) * 4)
    for width in (16, 24):
        extents, window = net.shape()[2:], ((3, 3), (2, 2), (1, 1))
        pads = ceil_pads(extents, *window, base)
        shape = (1, net.shape()[1], *slid(extents, *window, pads))
        net.add("max_pool", shape=shape, kernel=(3, 3), stride=(2, 2), pads=pads)
        net.conv(width, 3)
    net.head()
    return net.finish()


@pytest.mark.parametrize(("one", "two"), [(224, 227), (227, 224), (65, 70), (64, 67)])
def test_ceil_pads_otherwise_on_other_maps(one, two):
    found = diff(ceil_pooled(one), ceil_pooled(two))
    assert [difference.cause for difference in found.differences] == [diff_causes.INPUT_SIZE]
    assert found.differences[0].macs == found.macs_gap


def test_padding_that_differs_by_itself_is_still_named():
    found = diff(ceil_pooled(64), ceil_pooled(67, base=(1, 1, 1, 1)))
    assert {diff_causes.INPUT_SIZE, diff_causes.PADDING} == {difference.cause for difference in found.differences}


def pooled_to_six(size):
    """As AlexNet does it: a pool down to 6×6 that is nothing where the map is 6×6 already."""
    net = Sketch(size=size)
    net.conv(8, 3, 2)
    net.conv(8, 3, 2)
    if net.shape()[2] != 6:
        net.add("adaptive_avg_pool", shape=(1, 8, 6, 6), size=(6, 6))
    net.add("flatten", shape=(1, 288))
    net.dense(10)
    return net.finish()


def test_a_pool_down_to_a_fixed_size_is_called_for_by_the_image():
    for pair in ((24, 32), (32, 24)):
        found = diff(*(pooled_to_six(size) for size in pair))
        assert [difference.cause for difference in found.differences] == [diff_causes.INPUT_SIZE]
        assert found.differences[0].macs == found.macs_gap
