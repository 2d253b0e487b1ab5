from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import alexnet, densenet, mobilenet, resnet, resnet_v2, squeezenet
from zoolens.findings.graph.diff.cost_shares import split
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.builder import GraphBuilder

networks = st.one_of(
    st.builds(
        resnet,
        st.lists(st.integers(1, 3), min_size=2, max_size=3),
        strided=st.sampled_from(["3x3", "1x1"]),
        size=st.sampled_from([64, 75, 96]),
        width=st.sampled_from([8, 12]),
        bias=st.booleans(),
    ),
    st.builds(resnet_v2, st.just((2, 2)), pooled_shortcuts=st.booleans(), size=st.sampled_from([64, 75])),
    st.builds(alexnet, st.sampled_from([(64, 192, 384, 256, 256), (96, 256, 384, 384, 256)]), lrn=st.booleans()),
    st.builds(squeezenet, st.sampled_from(["1.0", "1.1"])),
    st.builds(mobilenet, width=st.sampled_from([8, 16])),
    st.builds(densenet, st.sampled_from([(2, 3), (3, 4)]), st.sampled_from([4, 8])),
)


@settings(max_examples=40, deadline=None)
@given(networks, networks)
def test_shares_add_up_to_the_gap_whatever_the_networks(a, b):
    found = diff(a, b)
    assert sum(one.macs for one in found.differences) == found.macs_gap
    assert sum(one.parameters for one in found.differences) == found.parameters_gap


def test_the_logarithmic_mean_splits_by_factors():
    """Twice as wide, half as many cells: the two cancel, each with the same amount."""
    assert split(100, 100, {0: 0.5, 1: -0.5}, {}) == {0: 50.0, 1: -50.0}
    assert split(100, 400, {1: log(4)}, {}) == pytest.approx({1: 300})
    assert split(100, 400, {1: log(2)}, {"kernel": 7}) == pytest.approx({1: 150, 7: 150})


def test_a_larger_input_takes_its_share_and_the_stride_keeps_its_own():
    found = {one.cause: one.macs for one in diff(resnet_v2(), resnet_v2(pooled_shortcuts=True, size=299)).differences}
    alone = {one.cause: one.macs for one in diff(resnet_v2(), resnet_v2(pooled_shortcuts=True)).differences}
    assert found[diff_causes.INPUT_SIZE] > 0 > found[diff_causes.STRIDE_PLACEMENT]
    assert found[diff_causes.STRIDE_PLACEMENT] == pytest.approx(alone[diff_causes.STRIDE_PLACEMENT], rel=0.2)


def test_the_width_of_a_layer_also_pays_for_the_input_of_the_next():
    (one,) = diff(alexnet((96, 256, 384, 384, 256)), alexnet((64, 256, 384, 384, 256))).differences
    first, second = 55 * 55 * 11 * 11 * 3, 27 * 27 * 5 * 5 * 256 // 2
    assert one.macs == -32 * (first + second)


def test_parameters_that_only_one_side_has_go_to_their_cause():
    found = {one.cause: one.parameters for one in diff(resnet(), resnet(bias=True)).differences}
    assert found == {diff_causes.BIAS: 6640}


def tokens(size):
    """A patch embedding, a table of positions, one attention and a head."""
    build = GraphBuilder("tokens")
    side = size // 16
    rows = side * side
    x = build.add("input", (), (1, 3, size, size), name="input")
    kernel = build.parameter("kernel", (8, 3, 16, 16), "")
    x = build.add("conv", [x], (1, 8, side, side), parameters=[kernel], kernel=(16, 16), stride=(16, 16))
    x = build.add("transpose", [build.add("reshape", [x], (1, 8, rows))], (1, rows, 8), perm=(0, 2, 1))
    places = build.add("parameter", (), (1, rows, 8), parameters=[build.parameter("value", (1, rows, 8), "")])
    x = build.add("add", [x, places], (1, rows, 8))
    q = build.add("dense", [x], (1, rows, 8), parameters=[build.parameter("kernel", (8, 8), "")])
    split_ = build.add("transpose", [build.add("reshape", [q], (1, rows, 2, 4))], (1, 2, rows, 4), perm=(0, 2, 1, 3))
    y = build.add("attention", [split_, split_, split_], (1, 2, rows, 4), heads=2)
    y = build.add("reshape", [build.add("transpose", [y], (1, rows, 2, 4), perm=(0, 2, 1, 3))], (1, rows, 8))
    x = build.add("add", [y, x], (1, rows, 8))
    return build.finish([build.add("mean", [x], (1, 8), axes=(1,))])


def test_more_tokens_are_the_input_size_and_nothing_else():
    """The cost of attention is quadratic in the number of tokens, and the table of positions has a row for each."""
    found = diff(tokens(64), tokens(128))
    assert [one.cause for one in found.differences] == [diff_causes.INPUT_SIZE]
    assert found.differences[0].macs == found.macs_gap
    assert found.differences[0].parameters == found.parameters_gap == 48 * 8
