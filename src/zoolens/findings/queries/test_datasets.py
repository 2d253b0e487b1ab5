"""Datasets that share their name are told apart, by the same rule and by the same names in every command."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.faces.cli.query import command as query_command
from zoolens.faces.cli.runs import command as runs_command
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.matrix import agreement_matrix
from zoolens.findings.queries.query import query

SMALL, LARGE = np.arange(30) % 4, np.arange(40) % 4


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Three models on 40 inputs of "val", and later two of them on 30 others of that name."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with open_store(tmp_path / "store.sqlite") as opened:
        for labels, names in ((LARGE, ("a", "b", "c")), (SMALL, ("a", "b"))):
            for number, name in enumerate(names):
                answers = labels.copy()
                answers[:number] = (answers[:number] + 1) % 4
                write_run(opened, name, one_hot(answers, 4), labels, dataset="val")
        yield opened


@pytest.fixture
def datasets(store):
    return {run.dataset.size: run.dataset for run in store.runs()}


def test_every_command_takes_the_same_one(store, datasets):
    full = f"val#{datasets[40].fingerprint[:8]}"
    assert query(ref="a", store=store).dataset == full
    assert disagree("a", store=store).dataset == full
    assert agreement_matrix("*", store=store).dataset == full
    assert {one.dataset for one in equiv("a", "b", store=store).on} == {one.name for one in datasets.values()}


@pytest.mark.parametrize("spelling", ["{name}#{digits}", "{digits}", "{fingerprint}"])
def test_full_names_and_fingerprints_are_accepted_everywhere(store, datasets, spelling):
    one = datasets[30]
    data = spelling.format(name="val", digits=one.fingerprint[:8], fingerprint=one.fingerprint)
    assert query(ref="a", data=data, store=store).n == 30
    assert query(f"CORR a DATA '{data}'", store=store).n == 30
    assert disagree("a", data=data, store=store).run.dataset.size == 30
    assert equiv("a", "b", data=data, store=store).worst.n == 30
    assert agreement_matrix("*", data=data, store=store).n == 30
    assert len(store.runs(dataset=data)) == 2
    assert len(store.runs(dataset="val")) == 5


def test_they_are_shown_apart(store, datasets, tmp_path):
    path = str(tmp_path / "store.sqlite")
    listed = json.loads(CliRunner().invoke(runs_command, ["--json", "--store", path]).stdout)
    assert {one["dataset"] for one in listed} == {f"val#{one.fingerprint[:8]}" for one in datasets.values()}
    assert "Several datasets have this name" in CliRunner().invoke(query_command, ["CORR a", "--store", path]).stdout


def test_a_name_of_its_own_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with open_store(tmp_path / "other.sqlite") as opened:
        run = write_run(opened, "a", one_hot(SMALL, 4), SMALL, dataset="val")
        assert run.dataset.name == "val"


def test_a_first_query_says_how_far_it_is(store):
    """A store of 100,000 runs takes a while, and said nothing."""
    begun = []

    class Watching(Silent):
        def begin(self, title, stage, total, unit=""):
            begun.append((title, stage, total))

    query(ref="a", store=store, progress=Watching())
    assert begun == [("index", "runs", 5), ("index", "rows", 3), ("index", "signatures", 3)]
