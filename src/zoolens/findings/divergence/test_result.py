"""The verdict of a divergence that is written by hand. `make mutants` runs these."""

import math
from dataclasses import replace

import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.base.verdicts import Coverage, Gap, Outcome, Tally
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.divergence_answers import AnswerPair, AnswerPairs
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Proof
from zoolens.findings.divergence.inspection import InspectedLayer
from zoolens.findings.divergence.result import Divergence, LayerFacts, SideSummary, is_beyond
from zoolens.findings.divergence.small_parts import SmallPart

SIDE = SideSummary("model", "fake", None, "float32", 0)
WHOLE = Coverage((Tally("layers of A", 3, 3),))
UNREAD = Coverage((), (Gap("the graph of B"),))
PROVED = Cause(Kind.WEIGHTS, "other weights", proof=Proof("changed", 1e-3, 1e-9, 1e-5))
RANDOM = Cause(Kind.RANDOM, "drawn", seen=True)


LAYER = LayerFacts("c1", InspectedLayer(NodePair("c1", "c1"), Deviation(1e-3), 1e-5, None, None))


def divergence(error=0.0, **changes):
    row = AnswerPair(0, "image", 0, 0, 0, error, Deviation(error), False)
    made = Divergence(
        a=SIDE, b=SIDE, data="demo", answers=AnswerPairs((row, row), "raw outputs"), floor=1e-5, measured_floor=True,
        layers=(), first=None, parts=None, causes=(), examined=(), notes=(), memory=0, understood=WHOLE,
    )  # fmt: skip
    return replace(made, **changes)


def with_answers(error=1e-7, **changes):
    made = divergence(error)
    return replace(made, answers=replace(made.answers, **changes))


@pytest.mark.parametrize(
    ("error", "floor", "beyond"),
    [
        (1e-6, 1e-5, False), (1e-5, 1e-5, False), (2e-5, 1e-5, True), (0.999, 0.998, True),
        (1.5, 1.0, False), (math.inf, 1.0, True), (math.inf, 1e-5, True), (math.inf, math.inf, False),
    ],
)  # fmt: skip
def test_beyond_rounding(error, floor, beyond):
    assert is_beyond(error, floor) is beyond


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (divergence(0.0), Outcome.SAME),
        (divergence(1e-7), Outcome.SAME),
        (divergence(1e-4), Outcome.DIFFERENT),
        (divergence(0.0, understood=UNREAD), Outcome.SAME),  # equal numbers need no graph
        (divergence(1e-7, understood=UNREAD), Outcome.NOT_KNOWN),
        (divergence(1e-4, understood=UNREAD), Outcome.DIFFERENT),
        (divergence(1e-4, measured_floor=False, understood=UNREAD), Outcome.NOT_KNOWN),
        (divergence(2e-2, measured_floor=False, understood=UNREAD), Outcome.DIFFERENT),
        (divergence(1e-4, measured_floor=False), Outcome.NOT_KNOWN),  # even if all layers were understood
        (divergence(1e-7, measured_floor=False, first=LAYER), Outcome.NOT_KNOWN),
        (divergence(1e-4, measured_floor=False, causes=(PROVED,)), Outcome.DIFFERENT),
        (divergence(0.0, causes=(PROVED,)), Outcome.DIFFERENT),
        (divergence(0.5, causes=(RANDOM,)), Outcome.NOT_KNOWN),
        (divergence(0.5, floor=1.0), Outcome.NOT_KNOWN),
        (divergence(math.inf, floor=1.0), Outcome.DIFFERENT),
    ],
)
def test_verdicts(made, outcome):
    assert made.verdict.outcome is outcome
    assert made.agrees is (outcome is Outcome.SAME)


@pytest.mark.parametrize("error", [0.0, 1e-7, 1e-4, 2e-2, 0.5, math.inf, math.nan])
@pytest.mark.parametrize("floor", [1e-5, 1.0, math.inf])
@pytest.mark.parametrize("causes", [(), (PROVED,), (RANDOM,)])
@pytest.mark.parametrize("first", [None, LAYER])
@pytest.mark.parametrize("measured", [True, False])
def test_what_differs_is_never_called_the_same(error, floor, causes, first, measured):
    made = divergence(error, floor=floor, causes=causes, first=first, measured_floor=measured)
    assert not (made.differs and made.agrees)


def test_what_the_verdict_rests_on():
    found = divergence(1e-7).verdict.coverage
    assert found == Coverage((Tally("inputs", 2, 2), *WHOLE.tallies))
    assert divergence(1e-7, understood=UNREAD).verdict.coverage.gaps == UNREAD.gaps


def test_each_gap_is_said_with_its_remedy():
    def gaps(made):
        return made.verdict.coverage.gaps

    assert gaps(divergence(0.5, causes=(RANDOM,))) == (
        Gap("answers that change from call to call", remedy="Fix the model's random seed."),
    )
    assert gaps(divergence(0.5, floor=1.5)) == (
        Gap("answers that rounding may move by their own size", remedy="Compare on other inputs."),
    )
    part = SmallPart(1, 0, 5e-5, 0.1)
    assert gaps(with_answers(small_part=part)) == (
        Gap("a part of the answers with much smaller numbers", remedy="Compare that part as an output."),
    )
    assert gaps(with_answers(small_part=replace(part, error=3e-5))) == ()
    broken = AnswerPair(0, "image", 0, 0, 0, 0.0, Deviation(0.0), False, "AB")
    assert gaps(with_answers(rows=(broken, broken, replace(broken, not_finite="")))) == (
        Gap("answers that are not finite", 2),
    )
    assert gaps(with_answers(unmatched=("x" * 70, "y"))) == (
        Gap(f"output {'x' * 60}, which has no partner", remedy="Give both outputs the same name."),
        Gap("output y, which has no partner", remedy="Give both outputs the same name."),
    )


def test_a_frame_has_a_row_for_each_layer_and_nothing_where_nothing_is_known():
    pytest.importorskip("pandas")
    pair = NodePair("c2", "c2")
    one_side = LayerFacts("c2", InspectedLayer(pair, None, 1e-5, None, None))
    blind = LayerFacts("c3", InspectedLayer(pair, Deviation(0.5), 1.0, None, None))
    within = LayerFacts("c4", InspectedLayer(pair, Deviation(1e-6), 1e-5, None, None))
    table = divergence(layers=(LAYER, one_side, blind, within)).frame()
    assert table["layer"].tolist() == ["c1", "c2", "c3", "c4"]
    assert table["beyond_rounding"].tolist() == [True, None, None, False]
    assert table["difference"].isna().tolist() == [False, True, False, False]
    assert table["a_alone"].isna().all()
