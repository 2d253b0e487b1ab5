import numpy as np
import pytest

from zoolens.base.statistics.binomial import binomial_lowers
from zoolens.base.statistics.multiplicity import corrected, holm


def test_bonferroni_covers_the_best_of_many_candidates():
    generator = np.random.default_rng(1)
    counts = generator.binomial(300, 0.8, (2000, 20)).max(axis=1)
    naive = np.mean(binomial_lowers(counts, 300, 0.05) > 0.8)
    held = np.mean(binomial_lowers(counts, 300, corrected(0.05, 20)) > 0.8)
    assert naive > 0.3
    assert held <= 0.06


def test_holm_steps_down():
    assert holm([0.01, 0.04, 0.03, 0.5]).tolist() == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([]).tolist() == []


def test_one_candidate_needs_no_correction_and_no_p_value_is_above_one():
    assert corrected(0.05, 1) == 0.05
    adjusted = holm([1, 0])
    assert (adjusted.tolist(), adjusted.dtype) == ([1.0, 0.0], np.float64)
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]


def test_holm_is_the_published_example():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_no_candidates_cannot_be_corrected_for():
    with pytest.raises(ValueError, match="at least one"):
        corrected(0.05, 0)
