"""The released trials against the paper: what matches, what does not, and why."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.contrib.crossedwires.paper import agrees, compare_with_paper
from zoolens.contrib.crossedwires.trials import read_published
from zoolens.training.crosstrain.study.analysis.analysis_tables import accuracy_table, apart, delta_table
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial


@pytest.fixture(scope="module")
def studies():
    if not ASSETS.is_dir():
        pytest.skip(f"PUBLISHED TRIALS ABSENT: nothing at {ASSETS}; set ZOOLENS_ASSETS to test against them")
    return read_published(ASSETS / "crossedwires")


@pytest.fixture(scope="module")
def labels():
    with np.load(ASSETS / "data" / "cifar10" / "train_subset.npz", allow_pickle=False) as file:
        return file["y_test_full"]


def find(figures, start):
    return next(one for one in figures if one.what.startswith(start))


def test_printed_figures_may_be_rounded_or_cut():
    assert agrees("0.681", 0.681519)
    assert agrees("0.682", 0.681519)
    assert not agrees("0.680", 0.681519)
    assert agrees("2.17e-4", 2.1711e-4)
    assert not agrees("2.17e-4", 9.99e-5)
    assert not agrees("0.0", 0.1)


@pytest.mark.assets
def test_the_tables_are_reproduced(studies):
    share = apart(studies)
    assert (share.count, share.total) == (628, 1200)
    deltas = [(one.minimum, one.maximum, one.median, one.mean) for one in delta_table(studies)]
    assert deltas[0] == pytest.approx((4.17e-10, 0.681519, 0.0843388, 0.122801), rel=1e-5)
    assert deltas[1] == pytest.approx((1.36947e-4, 0.452007, 0.0418368, 0.0779302), rel=1e-5)
    assert deltas[2] == pytest.approx((9.99e-5, 0.43896, 0.05447, 0.10978), rel=1e-4)
    ranges = [tuple((one.minimum, one.maximum) for one in accuracy_table(study)) for study in studies]
    assert ranges[0][0] == pytest.approx((0.0959127, 0.7856), rel=1e-5)
    assert ranges[1][1] == pytest.approx((0.0493, 0.6713), rel=1e-5)
    assert ranges[2] == (pytest.approx((0.0919, 0.7760), rel=1e-3), pytest.approx((0.0883, 0.7656), rel=1e-3))


@pytest.mark.assets
def test_what_matches_and_what_does_not(studies, labels):
    found = compare_with_paper(studies, labels)
    assert [one.what.partition(":")[0] for one in found.matches] == [
        "pairs at least 5 % apart", "largest Δ", "Table 2, vgg16", "Table 3, vgg16", "Table 4, vgg16",
        "Table 2, resnet50", "Table 3, resnet50", "Table 6, densenet121",
    ]  # fmt: skip
    assert [one.what.partition(":")[0] for one in found.mismatches] == [
        "Table 5, resnet50", "Table 2, densenet121", "Table 3, densenet121", "the record pair",
        "Table 1, batch size", "accuracy of PyTorch",
        "overlap of the search's subspaces", "bivariate mutual information", "seeds", "one setting trained twice",
    ]  # fmt: skip
    assert "0 of the 6 rows" in find(found.mismatches, "Table 5").ours
    assert "always answers class 5" in find(found.mismatches, "the record pair").why
    assert "off by up to 1.73 points" in find(found.mismatches, "accuracy of PyTorch").why
    assert "112 released" in find(found.mismatches, "overlap").why
    twice = find(found.mismatches, "one setting").ours
    assert "0.1195" in twice
    assert "0.0447" in twice
    assert "Does not match the paper" in found.words()
    assert json.loads(json.dumps(found.as_data()))[0]["paper"] == "52.3%"


@pytest.mark.assets
def test_one_study_alone_is_compared_as_far_as_it_goes(studies):
    figures = compare_with_paper(studies[:1]).figures
    assert "always answering class 5" in find(figures, "the record pair").why
    assert not any(one.what.startswith("pairs at least") for one in figures)
    assert compare_with_paper([Study("ours", ("torch", "jax"), ())]).words() == []


def test_a_study_that_only_says_it_is_the_published_one_is_not_compared():
    said = {"published": True, "architecture": "vgg16"}
    sides = (TrainedSide("pytorch", accuracy=0.5), TrainedSide("tensorflow", accuracy=0.25))
    settings = {"adam_epsilon": 0.1, "batch_size": 0, "learning_rate": 0.1, "epochs": 1}
    names = ("pytorch", "tensorflow")
    for trials, details in (
        ((), said),
        ((Trial("a", {}, sides),), said),
        ((Trial("a", settings, sides),), said),
        ((Trial("a", {**settings, "batch_size": 8}, sides[:1]),), said),
        ((Trial("a", {**settings, "batch_size": 8}, sides),), {"published": True}),
    ):
        assert compare_with_paper([Study("crossedwires-vgg16", names, trials, details)]).words() == []


@pytest.mark.assets
def test_altered_trials_no_longer_match(studies):
    """A verdict comes from the trials, not from a list."""
    vgg = studies[0]
    altered = [
        replace(one, sides=tuple(replace(side, accuracy=side.accuracy / 2) for side in one.sides)) for one in vgg.trials
    ]
    found = compare_with_paper([replace(vgg, trials=tuple(altered)), *studies[1:]])
    assert {"pairs at least 5 % apart", "largest Δ"} <= {one.what for one in found.mismatches}
    assert find(found.mismatches, "Table 4").verdict == "differs"
