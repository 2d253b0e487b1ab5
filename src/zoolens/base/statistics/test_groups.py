import numpy as np
import pytest

from zoolens.base.statistics.binomial import binomial_lower
from zoolens.base.statistics.groups import GroupSample, worst_group


def counts(groups):
    """Groups given as successes and inputs, bounded as counts are."""
    return {
        name: GroupSample(n, right / n, lambda alpha, right=right, n=n: binomial_lower(right, n, alpha))
        for name, (right, n) in groups.items()
    }


def test_the_lowest_bound_decides_not_the_lowest_share():
    found = worst_group(counts({"large": (9_400, 10_000), "small": (19, 20)}), 0.05)
    assert found.worst.name == "small"
    assert found.lower == binomial_lower(19, 20, 0.05)
    large = found.groups[0]
    assert (large.n, large.value) == (10_000, 0.94)
    assert large.simultaneous == binomial_lower(9_400, 10_000, 0.025)


def test_one_group_is_the_plain_bound():
    found = worst_group(counts({"only": (90, 100)}), 0.05)
    assert found.lower == found.worst.simultaneous == binomial_lower(90, 100, 0.05)


def simulated(truths, reps=600, n=150, alpha=0.1, seed=0):
    """How often the claim about the worst group is wrong, and how often any of the simultaneous ones is."""
    drawn = np.random.default_rng(seed).binomial(n, truths, (reps, len(truths)))
    found = [worst_group(counts({str(i): (int(k), n) for i, k in enumerate(row)}), alpha) for row in drawn]
    worst = np.mean([one.lower > min(truths) for one in found])
    together = np.mean([any(g.simultaneous > t for g, t in zip(one.groups, truths, strict=True)) for one in found])
    alone = np.mean([any(g.lower > t for g, t in zip(one.groups, truths, strict=True)) for one in found])
    return worst, together, alone


def test_the_worst_of_several_groups_is_covered_without_correction_and_all_together_with_it():
    worst, together, alone = simulated([0.9] * 6)
    assert worst <= 0.1
    assert together <= 0.1 + 0.03
    assert alone > 0.2  # which is why quoting them side by side takes the correction


def test_the_bound_is_as_sharp_as_that_of_the_one_bad_group():
    worst, _, _ = simulated([0.7, 1.0, 1.0, 1.0])
    assert 0.05 < worst <= 0.1 + 0.03


def test_no_groups_are_refused():
    with pytest.raises(ValueError):
        worst_group({}, 0.05)
