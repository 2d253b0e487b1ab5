"""Networks that compute something else are not called the same, in whatever form they are compared."""

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.picture_cards import State, cards
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical

onnx = pytest.importorskip("onnx")
CONV = "Conv<pads=[1,1,1,1]>"
POOL = "MaxPool<kernel_shape=[2,2]>"
NORM = "BatchNormalization<epsilon=0.001>"
SHAPES = {
    "w": (4, 4, 3, 3), "b": (4,), "v": (4, 4, 3, 3), "wide": (4, 8, 3, 3), "pairs": (8, 4, 3, 3), "each": (8, 1, 3, 3),
    "point": (4, 4, 1, 1), "s": (1, 4, 1, 1), "t": (1, 4, 1, 1), "down": (4, 1), "along": (4,),
    "g": (4,), "h": (4,), "mean": (4,), "var": (4,),
}  # fmt: skip
ENDS = f"y = {CONV}(z, v)"


def network(folder, body, **numbers):
    """The canonical graph of x -> y over maps of four channels, written in ONNX's text."""
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[1,4,6,6] x) => (float[a,b,c,d] y) '
    model = onnx.parser.parse_model(f"{head}{{ {body} }}")
    arrays = {name: np.full(shape, 0.5, np.float32) for name, shape in SHAPES.items()}
    arrays |= {name: np.asarray(number, np.float32) for name, number in numbers.items()}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(arrays[name], name) for name in sorted(used & {*arrays})
    )
    path = folder / f"{len(list(folder.iterdir()))}.onnx"
    onnx.save(model, str(path))
    return canonical(ONNX.load(Request(str(path))))


def outcome(folder, one, other):
    return diff(network(folder, one), network(folder, other)).decision.outcome


@pytest.mark.parametrize("step", ["z = Mul(r, k)", "z = Div(r, k)"])
def test_a_constant_that_both_have_is_compared(tmp_path, step):
    body = f"p = {CONV}(x, w, b) r = Relu(p) {step} {ENDS}"
    found = diff(network(tmp_path, body, k=2), network(tmp_path, body, k=3))
    assert found.same_cost
    assert found.decision.outcome is Outcome.DIFFERENT
    without = network(tmp_path, f"p = {CONV}(x, w, b) z = Relu(p) {ENDS}")
    assert diff(network(tmp_path, body, k=2), without).same  # an optimiser may have folded it


@pytest.mark.parametrize(
    "before", ["q = Mul(p, k) z = Relu(q)", "r = Relu(p) z = Mul(r, k)", "r = Relu(p) z = Div(r, k)"]
)
@pytest.mark.parametrize("number", [0.0, float("inf")])
def test_constants_that_no_weights_could_hold_are_a_difference(tmp_path, before, number):
    plain = network(tmp_path, f"p = {CONV}(x, w, b) z = Relu(p) {ENDS}")
    scaled = network(tmp_path, f"p = {CONV}(x, w, b) {before} {ENDS}", k=number)
    assert diff(plain, scaled).decision.outcome is Outcome.DIFFERENT


NORMED = f"p = {CONV}(x, w) q = {NORM}(p, g, h, mean, var) z = Relu(q) {ENDS}"
PLAIN = f"p = {CONV}(x, w, b) z = Relu(p) {ENDS}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A scale is in another place, where it does not commute with what is between.
        (NORMED, f"p = {CONV}(x, w) r = Relu(p) m = Mul(r, s) z = Add(m, t) {ENDS}"),
        (
            f"p = {CONV}(x, w) m = Mul(p, s) z = {POOL}(m) {ENDS}",
            f"p = {CONV}(x, w) m = {POOL}(p) z = Mul(m, s) {ENDS}",
        ),
        # Zeros that pad what is normed are not those that pad what is not.
        (f"p = {CONV}(x, w, b) r = Relu(p) z = {NORM}(r, g, h, mean, var) {ENDS}", PLAIN),
    ],
)
def test_norms_that_no_exporter_could_have_folded_are_a_difference(tmp_path, one, other):
    assert outcome(tmp_path, one, other) is Outcome.DIFFERENT
    assert outcome(tmp_path, other, one) is Outcome.DIFFERENT


def test_norms_that_may_be_folded_are_left_out(tmp_path):
    assert outcome(tmp_path, NORMED, PLAIN) is Outcome.SAME
    body = f"p = {CONV}(x, w, b) r = Relu(p) "
    normed = f"{body} z = {NORM}(r, g, h, mean, var) y = Conv(z, point)"
    assert outcome(tmp_path, normed, f"{body} y = Conv(r, point)") is Outcome.SAME


def test_a_norm_in_training_mode_is_not_the_one_that_was_trained(tmp_path):
    training = NORMED.replace("epsilon=0.001", "epsilon=0.001, training_mode=1").replace("q =", "q, m1, v1 =")
    assert outcome(tmp_path, NORMED, training) is Outcome.NOT_KNOWN


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("y = Tanh(c)", Outcome.DIFFERENT),
        ("y = Conv<pads=[1,1,1,1], group=2>(c, pairs)", Outcome.DIFFERENT),
        ("y = Conv<pads=[1,1,1,1], group=8>(c, each)", Outcome.DIFFERENT),
        (f"y = {CONV}(c, wide)", Outcome.SAME),
        (f"d = Conv<pads=[1,1,1,1], group=8>(c, each) r6 = Tanh(d) y = {CONV}(r6, wide)", Outcome.SAME),
    ],
)
def test_the_order_of_a_concat_is_free_only_before_weights_for_all_channels(tmp_path, end, expected):
    body = f"p = {CONV}(x, w, b) r = Relu(p) c = Concat<axis=1>(%s) {end}"
    assert outcome(tmp_path, body % "p, r", body % "r, p") is expected


def test_the_order_of_a_concat_of_places_is_compared(tmp_path):
    body = f"p = {CONV}(x, w, b) r = Relu(p) c = Concat<axis=2>(%s) y = {CONV}(c, v)"
    assert outcome(tmp_path, body % "p, r", body % "r, p") is Outcome.DIFFERENT


@pytest.mark.parametrize("pair", [("s", "down"), ("s", "along"), ("down", "along")])
def test_scales_along_different_axes_of_one_extent_differ(tmp_path, pair):
    one, other = (f"p = Conv(x, w, b) m = Mul(p, {name}) z = Relu(m) {ENDS}" for name in pair)
    assert outcome(tmp_path, one, other) is Outcome.DIFFERENT


def test_values_in_another_arrangement_are_neither_the_same_nor_different(tmp_path):
    """Whether a transposition changes what is computed depends on the layers around it."""
    plain = f"p = {CONV}(x, w, b) z = Relu(p) {ENDS}"
    turned = f"p = {CONV}(x, w, b) r = Relu(p) z = Transpose<perm=[0,1,3,2]>(r) {ENDS}"
    found = diff(network(tmp_path, plain), network(tmp_path, turned))
    assert found.decision.outcome is Outcome.NOT_KNOWN
    assert found.rearranged
    assert {card.state for card in cards(found)} == {State.SAME, State.NOT_KNOWN}
    costly = replace(found, differences=tuple(replace(one, macs=1_000) for one in found.differences))
    assert {card.state for card in cards(costly)} == {State.SAME, State.NOT_KNOWN}
    assert "up to the arrangement of values, and it is not known whether" in found.verdict
    assert [gap.remedy for gap in found.coverage.gaps] == [
        "`zoolens diverge` runs both on the same inputs and compares their layers."
    ]


def masked(folder, mask):
    """Scores of six places with each other, with numbers that the file adds before the softmax."""
    steps = "s = MatMul(x, x) m = Add(s, mask) p = Softmax<axis=3>(m) y = MatMul(p, x)"
    return network(folder, steps, mask=mask)


def test_a_mask_is_compared_by_the_places_that_it_hides(tmp_path):
    causal = np.triu(np.full((1, 1, 6, 6), -np.inf), 1)
    other = np.swapaxes(causal, 2, 3)
    finite = np.where(np.isinf(causal), -100, 0)
    learned = np.linspace(-1, 1, 36).reshape(causal.shape)
    nets = [masked(tmp_path, mask) for mask in (causal, other, finite, learned)]
    outcomes = [diff(nets[0], net).decision.outcome for net in nets]
    assert outcomes == [Outcome.SAME, Outcome.DIFFERENT, Outcome.SAME, Outcome.DIFFERENT]
    assert [net.parameters for net in nets] == [0, 0, 0, 36]  # nobody learned a mask
    assert "instead of causal in a" in diff(nets[0], nets[1]).differences[0].text


def over_rows(folder, rows, steps="h = MatMul(x, w) z = Relu(h) y = MatMul(z, v)"):
    head = f'<ir_version: 8, opset_import: ["": 17]> g (float[{rows},4,5] x) => (float[a,b,c] y) '
    model = onnx.parser.parse_model(f"{head}{{ {steps} }}")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.ones((5, 5), np.float32), name) for name in "wv")
    path = folder / f"{len(list(folder.iterdir()))}.onnx"
    onnx.save(model, str(path))
    return canonical(ONNX.load(Request(str(path))))


def test_files_for_other_batch_sizes_are_not_known_to_be_different_unless_their_layers_are(tmp_path):
    one, eight = over_rows(tmp_path, 1), over_rows(tmp_path, 8)
    found = diff(one, eight)
    assert found.decision.outcome is Outcome.NOT_KNOWN
    assert "1×4×5 in a and 8×4×5 in b" in found.coverage.text
    assert not found.differences
    shallow = over_rows(tmp_path, 8, "y = MatMul(x, w)")
    assert diff(one, shallow).decision.outcome is Outcome.DIFFERENT
