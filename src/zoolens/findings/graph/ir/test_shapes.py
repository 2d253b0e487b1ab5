"""Shape rules, against numpy where numpy has the operator."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Parameter
from zoolens.findings.graph.ir.shapes import RULES, broadcast, filled, output_shape
from zoolens.findings.graph.ir.vocabulary import OPS

WITHOUT_RULE = {
    "input",
    "parameter",
    "constant",
    "recurrent",
    "recurrent_layer",
    "reshape",
    "expand",
    "resize",
    "output_of",
    "unknown",
}


def test_every_op_has_a_rule_or_none_is_possible():
    assert set(OPS) - set(RULES) == WITHOUT_RULE
    assert set(RULES) <= set(OPS)


def test_convolutions_follow_the_layout():
    kernel = [Parameter("kernel", (8, 3, 3, 3))]
    attributes = {"kernel": (3, 3), "stride": (2, 2), "pads": (0, 0, 1, 1)}
    assert output_shape("conv", [(1, 3, 32, 20)], attributes, kernel) == (1, 8, 16, 10)
    assert output_shape("conv", [(1, 32, 20, 3)], attributes, kernel, "NHWC") == (1, 16, 10, 8)
    depthwise = [Parameter("kernel", (6, 1, 3, 3))]
    assert output_shape("conv", [(1, 3, 5, 5)], {"kernel": (3, 3), "groups": 3}, depthwise) == (1, 6, 3, 3)
    with pytest.raises(ModelError, match="over 3 channels follows a value with 4"):
        output_shape("conv", [(1, 4, 32, 32)], attributes, kernel)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        ("max_pool", [(1, 2, 7, 7)], {"kernel": (3, 3), "stride": (2, 2)}, (1, 2, 3, 3)),
        ("adaptive_avg_pool", [(1, 2, 9, 7)], {"size": (2, 3)}, (1, 2, 2, 3)),
        ("global_avg_pool", [(1, 5, 7, 7)], {}, (1, 5)),
        ("mean", [(1, 5, 7, 7)], {"axes": (2, 3)}, (1, 5)),
        ("mean", [(1, 5, 7, 7)], {"axes": (2, 3), "keep": True}, (1, 5, 1, 1)),
        ("concat", [(1, 2, 4), (1, 3, 4)], {"axis": 1}, (1, 5, 4)),
        ("slice", [(1, 9)], {"axis": 1, "start": 1, "stop": 100, "step": 3}, (1, 3)),
        ("pad", [(1, 2)], {"pads": (0, 1, 0, 2)}, (1, 5)),
        ("transpose", [(1, 2, 3)], {"perm": (2, 0, 1)}, (3, 1, 2)),
        ("matmul", [(2, 1, 3, 4), (5, 3, 6)], {"transpose_a": True}, (2, 5, 4, 6)),
        ("gather", [(4, 5, 6)], {"axis": 1, "indices": ((0, 1, 2),)}, (4, 1, 3, 6)),
        ("space_to_depth", [(1, 3, 4, 6)], {"block": 2}, (1, 12, 2, 3)),
        ("depth_to_space", [(1, 12, 2, 3)], {"block": 2, "mode": "DCR"}, (1, 3, 4, 6)),
        ("tile", [(1, 3)], {"repeats": (2, 2)}, (2, 6)),
        ("flatten", [(1, 3, 4, 5)], {}, (1, 60)),
        ("add", [(1, 3, 4, 5)], {"scalar": 2.0}, (1, 3, 4, 5)),
    ],
)
def test_rules(op, inputs, attributes, expected):
    assert output_shape(op, inputs, attributes) == expected


extents = st.lists(st.sampled_from([1, 2, 3]), max_size=4).map(tuple)


@given(extents, extents)
def test_broadcasting_is_numpys(left, right):
    try:
        expected = np.broadcast_shapes(left, right)
    except ValueError:
        with pytest.raises(ModelError):
            broadcast([left, right])
    else:
        assert broadcast([left, right]) == expected


def test_reshape_targets_are_resolved():
    assert filled([0, -1], (2, 3, 4)) == (2, 12)
    assert filled([-1], ()) == (1,)
    for target in ([5, -1], [-1, -1], [0, 0, 0, 0], [-2, -12], [24, 2]):
        with pytest.raises(ModelError, match="cannot be reshaped"):
            filled(target, (2, 3, 4))


@pytest.mark.parametrize("op", sorted(RULES))
def test_nonsense_is_a_model_error(op):
    """No inputs, no attributes: a rule may refuse, and may refuse in one way only."""
    for inputs in ([], [()], [(1,)], [(1, 2), (3, 4)]):
        try:
            shape = output_shape(op, inputs, {})
        except ModelError:
            continue
        assert all(extent >= 0 for extent in shape)
