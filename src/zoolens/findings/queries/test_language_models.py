"""Queries over language models find what looking at every run of the store finds."""

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.signatures import probe_runs, signature_of
from zoolens.findings.queries.query import query
from zoolens.inventory.tasks.task import task_named
from zoolens.testing.language_model_runs import answered, written_book

# name -> how far its scores lie from the reference's, bytes of its file
COPIES = {
    "full": (0.0, 500e6), "half": (0.02, 250e6), "q8": (0.1, 140e6), "q5": (0.4, 110e6), "q4": (0.8, 90e6),
    "odd": (0.6, 95e6), "q2": (2.5, 60e6),
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    book = written_book(folder, "AB HELLO WORLD\nWHAT IS IT?\n1234 AB+CD, ABBA\n" * 3, 24)
    with open_store(folder / "store.sqlite") as opened:
        for name, (noise, size) in COPIES.items():
            run = answered(opened, book, name, noise)
            opened.finish_stage(run.id, "size", [Observation("file_size", size, unit="B")])
        yield opened


def agreements(store, reference):
    """How far each run agrees with the reference, and its size, from the store alone."""
    runs = {run.model.manifest["name"]: signature_of(store, run).main for run in probe_runs(store)}
    task = task_named("language-model")
    return {
        name: (float(task.agreement(runs[reference], answers).mean()), COPIES[name][1])
        for name, answers in runs.items()
        if name != reference
    }


@pytest.mark.parametrize("within", [0.3, 0.6, 0.8, 0.97])
@pytest.mark.parametrize("most", [80e6, 150e6, 600e6])
@pytest.mark.parametrize("reference", ["full", "q5"])
def test_the_smallest_copy_within_a_bound_is_found(store, reference, within, most):
    asked = f"TASK language-model CORR {reference} WITHIN {100 * within:g}% ON size <= {most:.0f} B ORDER BY size"
    answer = query(asked, store=store)
    fitting = {name: size for name, (agreement, size) in agreements(store, reference).items() if agreement >= within}
    wanted = [name for name, size in sorted(fitting.items(), key=lambda one: one[1]) if size <= most]
    assert [match.row.attributes["name"] for match in answer.matches] == wanted


def test_equivalence_is_the_agreement_of_the_task(store):
    answer = query("TASK language-model CORR full", store=store)
    found = {match.row.attributes["name"]: match.equivalence for match in answer.matches}
    brute = {name: agreement for name, (agreement, _) in agreements(store, "full").items()}
    assert found.keys() == brute.keys()
    for name, agreement in brute.items():
        assert found[name] == pytest.approx(agreement, abs=1e-9)
    assert np.ptp(list(found.values())) > 0.3


def test_a_query_without_the_task_says_what_to_add(store):
    with pytest.raises(ZoolensError, match=r"full does language-model, and this query is about classification") as said:
        query("CORR full WITHIN 90%", store=store)
    assert said.value.hint == "Add TASK language-model."
