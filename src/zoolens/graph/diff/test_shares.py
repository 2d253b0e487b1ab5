from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.graph.diff import causes
from zoolens.graph.diff.conftest import alexnet, densenet, mobilenet, resnet, resnet_v2, squeezenet
from zoolens.graph.diff.report import diff
from zoolens.graph.diff.shares import split

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
    assert found[causes.INPUT_SIZE] > 0 > found[causes.STRIDE_PLACEMENT]
    assert found[causes.STRIDE_PLACEMENT] == pytest.approx(alone[causes.STRIDE_PLACEMENT], rel=0.2)


def test_the_width_of_a_layer_also_pays_for_the_input_of_the_next():
    (one,) = diff(alexnet((96, 256, 384, 384, 256)), alexnet((64, 256, 384, 384, 256))).differences
    first, second = 55 * 55 * 11 * 11 * 3, 27 * 27 * 5 * 5 * 256 // 2
    assert one.macs == -32 * (first + second)


def test_parameters_that_only_one_side_has_go_to_their_cause():
    found = {one.cause: one.parameters for one in diff(resnet(), resnet(bias=True)).differences}
    assert found == {causes.BIAS: 6640}
