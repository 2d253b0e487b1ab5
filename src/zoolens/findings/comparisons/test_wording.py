"""Sentences that several commands say in the same words."""

import pytest

from zoolens.base.statistics.intervals import Interval
from zoolens.findings.comparisons.vector_changes import MetricChange
from zoolens.findings.comparisons.wording import metric_words


@pytest.mark.parametrize(("p", "said"), [(0.0042, "p = 0.0042"), (1.1e-16, "p < 1e-15"), (0.0, "p < 1e-15")])
def test_no_test_claims_to_be_surer_than_floats_can_say(p, said):
    assert metric_words(MetricChange("ap", "fraction", 0.65, 0.51, Interval(-0.16, -0.12), p)) == (
        f"ap 65.00 % in A and 51.00 % in B, B − A -14.00 points [-16.00, -12.00], {said} (resampling of inputs)"
    )
