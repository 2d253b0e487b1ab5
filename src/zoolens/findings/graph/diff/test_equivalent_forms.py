"""One network in two spellings is one network, or it is not known; never a difference."""

import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch
from zoolens.findings.graph.diff.picture_cards import cards
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.canonical import canonical

WIDTH = 8


class Tokens:
    """A graph over (1, 6, WIDTH) in which q, k and v may be packed."""

    def __init__(self):
        self.build = GraphBuilder("tokens")
        self.count = 0
        self.x = self.build.add("input", [], (1, 6, WIDTH))

    def dense(self, width, of=None, bias=True):
        self.count += 1
        parameters = [self.build.parameter("kernel", (width, WIDTH), f"kernel {self.count}")]
        if bias:
            parameters.append(self.build.parameter("bias", (width,), f"bias {self.count}"))
        return self.build.add("dense", [of or self.x], (1, 6, width), parameters=parameters)

    def parts(self, packed, count):
        return [
            self.build.add("slice", [packed], (1, 6, WIDTH), axis=2, start=WIDTH * part, stop=WIDTH * (part + 1))
            for part in range(count)
        ]

    def attended(self, q, k, v):
        heads = [self.build.add("reshape", [one], (1, 6, 2, WIDTH // 2)) for one in (q, k, v)]
        turned = [self.build.add("transpose", [one], (1, 2, 6, WIDTH // 2), perm=(0, 2, 1, 3)) for one in heads]
        made = self.build.add("attention", turned, (1, 2, 6, WIDTH // 2), heads=2)
        back = self.build.add("transpose", [made], (1, 6, 2, WIDTH // 2), perm=(0, 2, 1, 3))
        return self.dense(WIDTH, self.build.add("reshape", [back], (1, 6, WIDTH)))

    def finish(self, *of):
        return canonical(self.build.finish([self.attended(*of)]))


def attention(packing, *, bias=True, value=WIDTH):
    net = Tokens()
    if packing == "qkv":
        return net.finish(*net.parts(net.dense(3 * WIDTH, bias=bias), 3))
    q = net.dense(WIDTH, bias=bias)
    if packing == "kv":
        return net.finish(q, *net.parts(net.dense(2 * WIDTH, bias=bias), 2))
    return net.finish(q, net.dense(WIDTH, bias=bias), net.dense(value, bias=bias))


@pytest.mark.parametrize(("ours", "theirs"), [("none", "qkv"), ("none", "kv"), ("kv", "qkv"), ("qkv", "none")])
def test_packed_projections_are_the_separate_ones(ours, theirs):
    found = diff(attention(ours), attention(theirs))
    assert found.same
    assert "such as q, k and v" in found.headline
    assert len(found.as_data()["compared_forms"]) == 1
    for side, spent in (("a", found.cost_a), ("b", found.cost_b)):
        assert sum(getattr(card, f"cost_{side}").macs for card in cards(found)) == spent.macs


def test_packing_hides_no_difference():
    found = diff(attention("none"), attention("qkv", bias=False))
    assert [one.cause for one in found.differences] == [diff_causes.BIAS]
    assert found.differences[0].parameters == -3 * WIDTH


def test_what_is_packed_on_both_sides_is_compared_as_it_is():
    found = diff(attention("qkv"), attention("qkv", bias=False))
    assert found.forms == ()
    assert [one.cause for one in found.differences] == [diff_causes.BIAS]


# --- recurrences


def loop(steps=4, *, inputs=WIDTH, classes=5):
    """An Elman network, step by step."""
    build = GraphBuilder("loop")
    x = build.add("input", [], (1, steps, inputs))
    state = None
    for step in range(steps):
        part = build.add("slice", [x], (1, 1, inputs), axis=1, start=step, stop=step + 1)
        part = build.add("reshape", [part], (1, inputs))
        kernel = build.parameter("kernel", (WIDTH, inputs), "w")
        value = build.add("dense", [part], (1, WIDTH), parameters=[kernel])
        if state is not None:
            recurrent = build.parameter("kernel", (WIDTH, WIDTH), "r")
            again = build.add("dense", [state], (1, WIDTH), parameters=[recurrent])
            value = build.add("add", [value, again], (1, WIDTH))
        state = build.add("tanh", [value], (1, WIDTH))
    head = [build.parameter("kernel", (classes, WIDTH), "h")]
    return canonical(build.finish([build.add("dense", [state], (1, classes), parameters=head)]))


def layer(steps=4, *, inputs=WIDTH, classes=5):
    build = GraphBuilder("layer")
    x = build.add("input", [], (1, steps, inputs))
    kernels = [build.parameter("kernel", (WIDTH, inputs), "w"), build.parameter("recurrent_kernel", (WIDTH,) * 2, "r")]
    y = build.add("recurrent", [x], (1, steps, WIDTH), parameters=kernels, kind="rnn", hidden=WIDTH, batch_first=True)
    last = build.add("slice", [y], (1, 1, WIDTH), axis=1, start=steps - 1, stop=steps)
    last = build.add("reshape", [last], (1, WIDTH))
    head = [build.parameter("kernel", (classes, WIDTH), "h")]
    return canonical(build.finish([build.add("dense", [last], (1, classes), parameters=head)]))


@pytest.mark.parametrize("turned", [False, True])
def test_a_recurrence_that_is_written_out_is_not_known_to_be_the_layer(turned):
    graphs = (loop(), layer())
    found = diff(*(graphs[::-1] if turned else graphs), names=("ours", "theirs"))
    assert found.decision.outcome is Outcome.NOT_KNOWN
    assert not found.differences
    (gap,) = found.coverage.gaps
    assert gap.what == f"recurrence written out step by step in {'theirs' if turned else 'ours'}"
    assert "in the same form" in gap.remedy


def test_a_recurrence_in_one_spelling_is_compared():
    assert diff(loop(), loop()).same
    assert diff(layer(), layer()).same
    assert diff(layer(), layer(classes=6)).decision.outcome is Outcome.DIFFERENT


def test_weights_that_are_shared_side_by_side_are_no_recurrence():
    """A layer that is applied to two inputs, none of which depends on the other."""
    net = Sketch(size=8)
    first, second = net.conv(4), net.conv(4)
    net.add("add", first, second)
    net.head()
    assert not diff(net.finish(), layer()).gaps


# --- numbers


def scaled(by):
    net = Tokens()
    value = net.dense(WIDTH)
    if by is not None:
        value = net.build.add("mul", [value], (1, 6, WIDTH), scalar=by)
    return net.build.finish([value])


def test_an_output_that_is_scaled_is_called_so():
    found = diff(scaled(None), scaled(2.0), names=("ours", "theirs"))
    assert found.same
    assert "outputs of layers are scaled by a constant in theirs" in found.headline
    assert "norm" not in found.headline
    assert found.as_data()["folded_norms"] is None
    assert found.as_data()["scaled_layers"] == "theirs"
