"""Each figure and each operator of a gate on a divergence that is written by hand. `make mutants` runs these."""

import math

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.deviation import Deviation
from zoolens.base.verdicts import Coverage, Gap, NotKnown
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.divergence_answers import AnswerPair, AnswerPairs, OtherOutput
from zoolens.findings.divergence.divergence_causes import Cause, Kind
from zoolens.findings.divergence.gates import DivergenceGate, parse_divergence_gate
from zoolens.findings.divergence.inspection import InspectedLayer
from zoolens.findings.divergence.result import Divergence, LayerFacts, SideSummary
from zoolens.inventory.runtimes.runtime import TensorSpec

SIDE = SideSummary("model", "fake", None, "float32", 0)
SPEC = TensorSpec("out", (1, 2), "float32")


def answer(error=0.0, relative=0.0, *, flips=False, not_finite=""):
    return AnswerPair(0, "image", 0, 0, 0, error, Deviation(relative), flips, not_finite)


def layer(error, floor):
    moved = None if error is None else Deviation(error)
    return LayerFacts("layer", InspectedLayer(NodePair("x", "x"), moved, floor, None, None))


def divergence(*rows, others=(), layers=(), causes=(), understood=None):
    pairs = AnswerPairs(rows or (answer(),), "raw outputs", others=others)
    return Divergence(
        a=SIDE, b=SIDE, data="demo", answers=pairs, floor=1e-5, measured_floor=True, layers=layers, first=None,
        parts=None, causes=causes, examined=(), notes=(), memory=0, understood=understood or Coverage(),
    )  # fmt: skip


def holds(condition, found):
    return parse_divergence_gate(condition).verdict(found)[0]


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [(">", False, False, True), (">=", False, True, True), ("<", True, False, False), ("<=", True, True, False)],
)
def test_operators(op, below, equal, above):
    found = [holds(f"max_error {op} 0.5", divergence(answer(error))) for error in (0.25, 0.5, 0.75)]
    assert found == [below, equal, above]


def test_the_figures_of_the_answers():
    rows = (answer(0.5, 0.1, flips=True), answer(0.25, 0.2, not_finite="A"), answer(), answer())
    found = divergence(*rows)
    told = [
        parse_divergence_gate(f"{figure} > 0").verdict(found)[1]
        for figure in ("max_error", "relative_error", "flips", "flip_rate", "not_finite")
    ]
    assert told == [
        "max_error > 0: max_error is 0.5",
        "relative_error > 0: relative_error is 0.2",
        "flips > 0: flips is 1",
        "flip_rate > 0: flip_rate is 0.25",
        "not_finite > 0: not_finite is 1",
    ]


def test_outputs_beside_the_main_one_count():
    others = (OtherOutput(SPEC, SPEC, error=0.5, relative_error=0.25), OtherOutput(SPEC, SPEC, error=0.1))
    found = divergence(answer(0.2, 0.1), others=others)
    assert parse_divergence_gate("max_error > 0.4").verdict(found) == (True, "max_error > 0.4: max_error is 0.5")
    assert holds("relative_error >= 0.25", found)
    assert not holds("relative_error > 0.25", found)


def test_causes_without_a_proof_are_counted():
    causes = (Cause(Kind.KERNEL, "seen", seen=True), Cause(Kind.UNEXPLAINED, "a"), Cause(Kind.UNEXPLAINED, "b"))
    assert parse_divergence_gate("unproved > 1").verdict(divergence(causes=causes)) == (
        True, "unproved > 1: unproved is 2",
    )  # fmt: skip


def test_layers_beyond_rounding_are_counted():
    found = divergence(layers=(layer(1e-3, 1e-5), layer(1e-3, 1e-5), layer(1e-7, 1e-5), layer(None, 1e-5)))
    assert parse_divergence_gate("layers_beyond > 0").verdict(found) == (True, "layers_beyond > 0: layers_beyond is 2")
    within = divergence(layers=(layer(1e-7, 1e-5),))
    assert parse_divergence_gate("layers_beyond > 0").verdict(within) == (
        False,
        "layers_beyond > 0: layers_beyond is 0",
    )


def test_layers_that_rounding_may_move_by_their_size_prove_no_agreement():
    with pytest.raises(NotKnown, match="rounding may move 2 of them"):
        holds("layers_beyond > 0", divergence(layers=(layer(0.1, 1.0), layer(0.1, 2.0), layer(1e-7, 1e-5))))
    assert holds("layers_beyond > 0", divergence(layers=(layer(0.1, 1.0), layer(1e-3, 1e-5))))
    with pytest.raises(NotKnown, match="no layer was compared"):
        holds("layers_beyond > 0", divergence(layers=(layer(None, 1e-5),)))


@pytest.mark.parametrize("op", [">", ">=", "<", "<="])
def test_what_is_not_a_number_passes_no_gate(op):
    with pytest.raises(NotKnown, match="max_error is not a number") as refused:
        holds(f"max_error {op} 0.5", divergence(answer(math.nan)))
    assert refused.value.exit_code == 4


def test_infinite_errors_fail():
    assert holds("max_error > 1e30", divergence(answer(math.inf)))


def test_an_unknown_verdict_can_be_refused():
    gate = parse_divergence_gate(" unknown ")
    assert gate.verdict(divergence()) == (False, "unknown: whether A and B agree: same")
    unread = Coverage((), (Gap("the graph of B"),))
    with pytest.raises(NotKnown, match="whether A and B agree"):
        gate.verdict(divergence(answer(1e-7, 1e-7), understood=unread))


@pytest.mark.parametrize(
    ("text", "figure", "op", "limit"),
    [
        ("max_error > 1e-3", "max_error", ">", 1e-3),
        ("  flips>=2  ", "flips", ">=", 2.0),
        ("flip_rate > 2.5 %", "flip_rate", ">", 0.025),
        ("flip_rate <= 1E-2%", "flip_rate", "<=", 1e-4),
        ("max_error < 0.5", "max_error", "<", 0.5),
    ],
)
def test_conditions_are_read(text, figure, op, limit):
    assert parse_divergence_gate(text) == DivergenceGate(text, figure, op, pytest.approx(limit))


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("max_error", "'max_error' is no condition", 'Write one such as "max_error > 1e-3"'),
        ("max_error > x", "is no condition", "flips > 0"),
        ("max_error > 1 or flips > 1", "is no condition", ""),
        ("errors > 1", "no figure 'errors' of a divergence", "There are max_error, relative_error, flips"),
    ],
)
def test_what_is_no_condition_is_refused(text, words, hint):
    with pytest.raises(ZoolensError, match=words) as refused:
        parse_divergence_gate(text)
    assert hint in refused.value.hint
