"""An output that two models answer alike, as far as it was kept, is the same only where all of it was."""

import math

import pytest

from zoolens.base.statistics.intervals import Interval
from zoolens.base.verdicts import Outcome
from zoolens.findings.comparisons.behaviour import Behaviour
from zoolens.findings.comparisons.outcomes import agreement_verdict, open_gap
from zoolens.inventory.tasks.pair_figures import UNKNOWN, NextTokenFigures


@pytest.mark.parametrize(
    ("agreeing", "least", "identical", "outcome"),
    [
        (2.0, 0.97, math.nan, Outcome.NOT_KNOWN),
        (2.0, 0.97, 0.5, Outcome.NOT_KNOWN),
        (2.0, 0.97, 1.0, Outcome.SAME),  # bit-equal outputs
        (2.0, 0.9999995, 0.0, Outcome.SAME),  # all tokens were kept
        (1.9, 0.9, 0.0, Outcome.DIFFERENT),
    ],
)
def test_what_is_the_same_as_far_as_it_was_kept(agreeing, least, identical, outcome):
    figures = NextTokenFigures(0.0, 1.0, Interval(least, agreeing / 2), 20)
    output = Behaviour("logits", "language-model", 2, agreeing, identical, UNKNOWN, next_tokens=figures)
    gap = open_gap(output, identical)
    gaps = [gap] if gap else []
    assert agreement_verdict([output.agreement], 0, (), gaps, len(gaps)).outcome is outcome
