"""Every cause by itself, in the smallest network that can have it."""

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.diff.report import diff


def network(
    *, act="relu", k=3, s=1, groups=1, pads=None, pool="max_pool", gate=False, scaled=False, deep=False, size=32
):  # fmt: skip
    net = Sketch(size=size)
    if scaled:
        net.add("mul", scalar=1 / 255)
    net.conv(8, act=act)
    net.pool(op=pool)
    entry = net.conv(8, k, s, groups=groups, pads=pads, act=None)
    if gate:
        net.add("global_avg_pool", shape=(1, 8))
        net.dense(2)
        net.add("relu")
        net.dense(8)
        net.add("sigmoid")
        net.add("mul", entry, net.last)
    net.conv(8)
    if deep:
        net.conv(8)
    net.head()
    return net.finish()


@pytest.mark.parametrize(
    ("choices", "cause", "text"),
    [
        ({"act": "relu6"}, diff_causes.ACTIVATION, "relu6 in b, relu in a"),
        ({"k": 5}, diff_causes.KERNEL, "a 5×5 window in b instead of 3×3 in a"),
        ({"s": 2}, diff_causes.STRIDE, "stride 2 in b instead of 1 in a"),
        ({"groups": 4}, diff_causes.GROUPS, "4 groups in b, no groups in a"),
        ({"pool": "avg_pool"}, diff_causes.POOLING, "average pool in b, max-pool in a"),
        (
            {"scaled": True},
            diff_causes.PREPROCESSING,
            "preprocessing inside the network in b (right after the input: mul)",
        ),
        ({"gate": True}, diff_causes.GATE, "squeeze-and-excitation in 1 block only in b"),
        ({"deep": True}, diff_causes.DEPTH, "1 more 3×3 conv in b"),
        ({"pads": (0, 0, 2, 2)}, diff_causes.PADDING, "padding 2 at bottom and right only in b"),
        ({"size": 48}, diff_causes.INPUT_SIZE, "input 48×48 in b instead of 32×32 in a"),
    ],
)  # fmt: skip
def test_one_cause(choices, cause, text):
    found = diff(network(), network(**choices))
    assert [one.cause for one in found.differences] == [cause]
    assert text in found.differences[0].text
    assert found.differences[0].macs == found.macs_gap
    assert found.differences[0].parameters == found.parameters_gap
    back = diff(network(**choices), network())
    assert [(one.cause, one.macs) for one in back.differences] == [(cause, -found.macs_gap)]


def test_flattening_in_another_order_permutes_weights_and_is_said():
    def flat(order):
        net = Sketch(size=8)
        net.conv(4)
        net.add("flatten", shape=(1, 256), order=order)
        net.dense(10)
        return net.finish()

    found = diff(flat(None), flat("NHWC"))
    assert [one.cause for one in found.differences] == [diff_causes.FLATTEN]
    assert found.verdict == "the same network up to the order of flattening"


def test_same_padding_on_another_size_is_no_difference():
    """SAME pads 1 at the end on even maps and 1 on every side on odd ones: one rule."""

    def strided(size):
        net = Sketch(size=size)
        net.conv(8, 3, 2, pads=(0, 0, 1, 1) if size % 2 == 0 else (1, 1, 1, 1))
        net.head()
        return net.finish()

    assert [one.cause for one in diff(strided(224), strided(299)).differences] == [diff_causes.INPUT_SIZE]


def between(op, values=1, **attributes):
    """Two convolutions, with an operator on the first one's answer between them."""
    net = Sketch(size=8)
    first = net.conv(4)
    net.add(op, *[first] * values, **attributes)
    net.conv(4)
    net.head()
    return net.finish()


@pytest.mark.parametrize(
    ("op", "setting", "other"),
    [
        ("pow", {"scalar": 2.5}, {"scalar": 3.5}),
        ("maximum", {"scalar": 0.1}, {"scalar": 0.5}),
        ("elu", {"alpha": 1.0}, {"alpha": 0.5}),
        ("clip", {"low": 0.0, "high": 6.0}, {"low": 0.0, "high": 4.0}),
        ("gelu", {}, {"approximate": "tanh"}),
    ],
)
def test_another_number_in_a_layer_is_told(op, setting, other):
    found = diff(between(op, **setting), between(op, **other))
    assert [one.cause for one in found.differences] == [diff_causes.CONSTANT]
    words = "numbers that layers compute with"
    assert found.verdict == f"the same network up to constants that do not change cost ({words})"
    assert diff(between(op, **setting), between(op, **setting)).same


@pytest.mark.parametrize(
    ("op", "setting", "other"),
    [
        ("sub", {"scalar": 2.0}, {"scalar": 2.0, "reverse": True}),
        ("clip", {"low": 0.0, "high": 6.0}, {"low": 0.0}),
        ("group_norm", {"groups": 2}, {"groups": 4}),
        ("channel_shuffle", {"groups": 2}, {"groups": 4}),
        ("softmax", {"axis": 2}, {"axis": 3}),
        ("gather", {"axis": 1, "indices": (1, 0, 3, 2)}, {"axis": 1, "indices": (3, 2, 1, 0)}),
        ("transpose", {"perm": (0, 1, 3, 2)}, {"perm": (0, 1, 2, 3)}),
        ("roll", {"axes": (2,), "shifts": (1,)}, {"axes": (3,), "shifts": (1,)}),
        ("recurrent", {"kind": "lstm"}, {"kind": "lstm", "reverse": True}),
    ],
)
def test_another_setting_is_another_network(op, setting, other):
    found = diff(between(op, **setting), between(op, **other))
    assert [one.cause for one in found.differences] == [diff_causes.SETTING]
    assert found.verdict == "different networks: setting"
    assert diff(between(op, **setting), between(op, **setting)).same


def test_a_constant_with_other_numbers_is_told():
    def masked(*numbers):
        net = Sketch(size=2)
        net.add("where", net.build.add("constant", [], (1, 1, 2, 2), value=numbers), net.conv(4), net.last)
        net.head()
        return net.finish()

    found = diff(masked(True, False, True, True), masked(True, False, False, True))
    assert [one.cause for one in found.differences] == [diff_causes.CONSTANT]
    assert found.differences[0].text.endswith(": other numbers in b than in a")
    assert diff(masked(0.1, 0.2, 0.3, 0.4), masked(0.1, 0.2, 0.3, 0.4 + 1e-8)).same


def test_places_in_values_of_other_shapes_follow_from_these():
    def parted(width):
        net = Sketch(size=8)
        net.conv(width)
        net.add("slice", shape=(1, width // 2, 8, 8), axis=1, start=width // 2, stop=width)
        net.head()
        return net.finish()

    assert {one.cause for one in diff(parted(4), parted(8)).differences} == {diff_causes.WIDTH}


@pytest.mark.parametrize("combined", ["sub", "matmul"])
def test_layers_that_take_other_values_are_told(combined):
    def network(*order):
        net = Sketch(size=8)
        entry = net.conv(4)
        values = [net.add("exp", entry), net.add("tanh", entry)]
        net.add(combined, *(values[place] for place in order))
        net.head()
        return net.finish()

    found = diff(network(0, 1), network(1, 0))
    assert [(one.cause, one.macs) for one in found.differences] == [(diff_causes.CONNECTIONS, 0)]
    assert found.differences[0].text.endswith(f"{combined} takes other values in b than in a")
    assert found.verdict == "different networks: connections"
    assert diff(network(1, 0), network(1, 0)).same


def test_a_shortcut_from_another_layer_is_told():
    def network(start):
        net = Sketch(size=8)
        places = [net.conv(4), net.conv(4), net.conv(4)]
        net.add("add", net.conv(4), places[start])
        net.head()
        return net.finish()

    assert diff(network(0), network(0)).same
    assert not diff(network(0), network(1)).same
