import numpy as np
import pytest

from zoolens.training.crosstrain.study.analysis.scales import logarithmic, planned, spans_decades
from zoolens.training.crosstrain.training.trials import Study

NARROW, WIDE = np.linspace(1.0, 30.0, 40), np.geomspace(1e-5, 1e-1, 40)
SPACE = [
    {"name": "rate", "low": 1, "high": 30, "log": True},
    {"name": "wide", "low": 1e-5, "high": 1e-1},
    {"name": "listed", "choices": [1, 3, 1000]},
]


def study(space):
    return Study("made", ("torch", "jax"), (), {"space": space})


def test_the_plan_s_word_counts_and_without_one_the_values():
    columns = {"rate": NARROW, "wide": WIDE, "listed": WIDE, "text": np.array(["a", "b"] * 20)}
    assert logarithmic(columns) == {"wide", "listed"}
    assert logarithmic(columns, study([])) == {"wide", "listed"}
    assert logarithmic(columns, study(SPACE)) == {"rate", "listed"}


def test_values_that_have_no_logarithm_stay_linear_whatever_the_plan_says():
    assert logarithmic({"rate": np.array([0.0, 2.0]), "none": np.full(3, np.nan)}, study(SPACE)) == frozenset()
    assert logarithmic({"rate": np.array(["1", "x"])}, study(SPACE)) == frozenset()


@pytest.mark.parametrize("space", [None, 7, "log", [3], [{"name": "rate"}], [{"name": 1, "low": 1, "high": 2}]])
def test_what_is_no_space_says_nothing(space):
    assert planned(study(space)) == {}


def test_one_value_near_zero_does_not_make_a_scale_logarithmic():
    assert spans_decades(WIDE)
    assert not spans_decades(np.r_[1e-8, np.linspace(0.01, 0.1, 99)])
    assert not spans_decades(np.array([0.0, 1.0, 1000.0]))
    assert not spans_decades(np.array([np.nan]))
