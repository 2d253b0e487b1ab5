import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from zoolens.training.crosstrain.study.analysis.information import (
    FEWEST,
    TooFewTrials,
    bins_for,
    coded,
    crossed,
    information,
    mutual_information,
)

numbers = st.one_of(st.floats(-1e9, 1e9), st.integers(0, 3).map(float), st.just(np.nan))
texts = st.sampled_from(["sgd", "adam", "", "sign"])


@st.composite
def studies(draw):
    n = draw(st.integers(FEWEST, 50))
    columns = {
        "number": np.array(draw(st.lists(numbers, min_size=n, max_size=n))),
        "few": np.array(draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)), np.float64),
        "text": np.array(draw(st.lists(texts, min_size=n, max_size=n))),
    }
    target = np.array(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))
    return columns, target


@settings(max_examples=60, deadline=None)
@given(studies())
def test_two_never_say_less_than_either_alone(study):
    found = information(*study, "Δ", permutations=9)
    alone = {one.name: one.nats for one in found.singles}
    assert len(found.joints) == 3
    for one in found.joints:
        assert one.nats >= max(alone[name] for name in one.names)
        assert one.synergy == pytest.approx(one.nats - sum(alone[name] for name in one.names), abs=1e-12)
        assert one.nats <= found.entropy + 1e-12


@settings(max_examples=60, deadline=None)
@given(studies(), st.randoms(use_true_random=False))
def test_the_order_of_trials_is_nothing(study, random):
    columns, target = study
    order = list(range(len(target)))
    random.shuffle(order)
    shuffled = {name: column[order] for name, column in columns.items()}
    assert information(columns, target, "Δ", permutations=19) == information(
        shuffled, target[order], "Δ", permutations=19
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=60))
def test_it_is_the_textbook_sum(pairs):
    a, b = np.array(pairs).T
    table = np.zeros((5, 4))
    np.add.at(table, (a, b), 1)
    expected = entropy(table.sum(1)) + entropy(table.sum(0)) - entropy(table.ravel())
    assert mutual_information(a, b) == pytest.approx(expected, abs=1e-12)


@given(st.lists(numbers, min_size=1, max_size=60).map(np.array), st.integers(2, 8))
def test_equal_values_share_a_bin_and_bins_follow_the_ranks(values, bins):
    codes = coded(values, bins)
    assert codes.max() <= bins  # one more for the missing
    known = ~np.isnan(values)
    order = np.argsort(values[known], kind="stable")
    assert (np.diff(codes[known][order]) >= 0).all()
    for value in np.unique(values[known]):
        assert len(set(codes[values == value])) == 1


def test_crossing_refines_both():
    a, b = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 0, 1])
    assert crossed(a, b).tolist() == [0, 1, 2, 2, 3]


def test_what_only_two_say_together_is_synergy():
    a, b = np.tile([0.0, 0, 1, 1], 100), np.tile([0.0, 1, 0, 1], 100)  # balanced: each alone says exactly nothing
    target = np.where(a != b, 0.9, 0.1)
    found = information({"a": a, "b": b}, target, "Δ")
    (pair,) = found.joints
    assert pair.nats == pytest.approx(found.entropy)
    assert pair.synergy == pytest.approx(np.log(2))
    assert pair.p_value == pytest.approx(1 / 1000)
    assert [(one.nats, one.p_value) for one in found.singles] == [(pytest.approx(0, abs=1e-12), 1.0)] * 2


def test_chance_alone_is_not_significant_and_explains_the_bias():
    rng = np.random.default_rng(1)
    columns = {str(i): rng.uniform(size=200) for i in range(8)}
    found = information(columns, rng.uniform(size=200), "Δ")
    p_values = [one.p_value for one in (*found.singles, *found.joints)]
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.2)
    assert np.mean([one.nats - one.chance for one in found.joints]) == pytest.approx(0, abs=0.02)
    assert np.mean([one.nats for one in found.joints]) > 0.1  # which counting alone makes
    assert np.mean([one.synergy - one.synergy_chance for one in found.joints]) == pytest.approx(0, abs=0.02)


def test_a_missing_hyperparameter_is_a_level_and_a_missing_target_is_left_out():
    column = np.r_[np.full(20, np.nan), np.linspace(1, 2, 20)]
    target = np.r_[np.full(20, 0.9), np.linspace(0, 0.1, 19), np.nan]
    found = information({"x": column}, target, "Δ")
    assert (found.n, found.left_out) == (39, 1)
    assert found.singles[0].levels == found.bins + 1
    assert found.singles[0].p_value < 0.01


def test_of_many_hyperparameters_only_the_telling_are_paired():
    rng = np.random.default_rng(2)
    columns = {str(i): rng.uniform(size=60) for i in range(11)}
    found = information(columns, columns["10"], "Δ", permutations=9)
    assert len(found.singles) == 11
    assert len(found.joints) == 28
    assert any("10" in one.names for one in found.joints)


def test_too_few_trials_are_refused_in_words():
    with pytest.raises(TooFewTrials, match=r"mutual information: 3, at least 20"):
        information({"x": np.arange(4.0)}, np.array([0.1, 0.2, np.nan, 0.3]), "Δ")


def test_bins_grow_slowly_with_the_trials():
    assert [bins_for(n) for n in (20, 60, 400, 10**6)] == [2, 3, 5, 8]
