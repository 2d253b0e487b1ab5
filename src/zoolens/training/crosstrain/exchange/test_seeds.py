"""Replicates travel as a study of their own, and meet the trials they belong to, and no others."""

from __future__ import annotations

import pytest

from zoolens.training.crosstrain.exchange.conftest import VERSIONS, file_numbered
from zoolens.training.crosstrain.exchange.exchange_export import export_study
from zoolens.training.crosstrain.exchange.merge import SubmissionRefused, submit
from zoolens.training.crosstrain.exchange.seeds import replicates_of
from zoolens.training.crosstrain.study.store_training import REPLICATES, replicates
from zoolens.training.crosstrain.study.stored_studies import file_study, study_names

SEEDS = f"small{REPLICATES}"


@pytest.fixture
def out(store, tmp_path):
    """Where to export to; the study of the store has a replicate now."""
    file_study(store, SEEDS, tuple(VERSIONS), {})
    file_numbered(store, 7, SEEDS, name="0000.1")
    return tmp_path / "exported"


def test_replicates_are_named_and_find_their_trials_again(store, elsewhere, out):
    assert replicates_of(store, "small") == SEEDS
    assert replicates_of(store, SEEDS) is None
    trials, seeds = export_study(store, "small", out / "a"), export_study(store, SEEDS, out / "b")
    assert f"a study of their own, {SEEDS}" in (trials / "datasheet.md").read_text()
    assert "seed noise" not in (trials / "datasheet.md").read_text()
    for folder in (seeds, trials, seeds):  # in whatever order
        submit(elsewhere, folder)
    assert replicates(elsewhere, "small") == replicates(store, "small")
    assert list(replicates(elsewhere, "small")) == ["0000"]


def test_both_may_have_another_name(store, elsewhere, out):
    submit(elsewhere, export_study(store, SEEDS, out / "b"), into=f"theirs{REPLICATES}")
    submit(elsewhere, export_study(store, "small", out / "a"), into="theirs")
    assert list(replicates(elsewhere, "theirs")) == ["0000"]


def test_seeds_of_another_training_are_refused_in_either_order(store, elsewhere, out):
    trials, seeds = export_study(store, "small", out / "a"), export_study(store, SEEDS, out / "b")
    file_study(elsewhere, "small", tuple(VERSIONS), {})
    file_numbered(elsewhere, 0, rate=0.2)
    with pytest.raises(SubmissionRefused, match=r"'0000.1' would be read as another seed of trial '0000'"):
        submit(elsewhere, seeds)
    assert SEEDS not in study_names(elsewhere)
    submit(elsewhere, seeds, into=f"theirs{REPLICATES}")
    file_study(elsewhere, f"mine{REPLICATES}", tuple(VERSIONS), {})
    file_numbered(elsewhere, 8, f"mine{REPLICATES}", name="0000.1", rate=0.2)
    with pytest.raises(SubmissionRefused, match=r"'0000' would be read as another seed of trial '0000.1'"):
        submit(elsewhere, trials, into="mine")
