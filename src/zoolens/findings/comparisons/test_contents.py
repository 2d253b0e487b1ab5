"""A name whose file was replaced means the content that was evaluated last."""

import json

import numpy as np
import pytest

from zoolens.base.errors import AmbiguousName
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.contents import changed_on_disk, without_replaced
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.matrix import agreement_matrix
from zoolens.findings.comparisons.runs import runs_of
from zoolens.findings.comparisons.wording import changed_file_note
from zoolens.findings.index.opener import build_index
from zoolens.findings.measure.evaluate import evaluate

LABELS = np.arange(20) % 4


@pytest.fixture
def written(store):
    """A run of the model `net`, whose content is this number; keywords go into its manifest."""

    def write(number, evaluated=None, *, folder=None, file="", **manifest):
        run = write_run(store, "net", one_hot(LABELS, 4), LABELS, attributes={"content": number}, **manifest)
        if folder:
            store.set_resolved(run.id, {"origin": {"ref": "file:net@1.0.0", "folder": folder, "file": file}})
        if evaluated:
            store.set_resolved(run.id, {"evaluated": evaluated})
        return store.run(run.id)

    return write


def kept(*runs):
    return [run.model.manifest["attributes"]["content"] for run in without_replaced(runs, ())]


def test_the_content_that_was_evaluated_last_counts(written):
    assert kept(written(1, "2026-01-01"), written(2, "2026-01-02")) == [2]
    assert kept(written(1, "2026-01-03"), written(2, "2026-01-02")) == [1]  # the old file was put back


def test_what_the_doctor_tried_replaces_nothing(written):
    declared = written(1, "2026-01-01")
    variant = written(2, outputs=[{"scores": "probabilities"}])
    assert kept(declared, variant) == [1]


def test_of_unmarked_runs_only_those_with_the_same_manifest_replace_each_other(written):
    assert kept(written(1), written(2)) == [2]
    assert kept(written(3), written(4, outputs=[{"scores": "probabilities"}])) == [3, 4]


def test_formats_and_folders_are_other_models(store, written):
    assert kept(written(1, "2026-01-01", folder="/a"), written(2, "2026-01-02", folder="/b")) == [1, 2]


def test_two_manifests_of_one_folder_may_have_one_name(written):
    base = written(1, "2026-01-01", folder="/a", file="base.yaml")
    candidate = written(2, "2026-01-02", folder="/a", file="candidate.yaml")
    newer = written(3, "2026-01-03", folder="/a", file="candidate.yaml")
    unnoted = written(4, "2025-01-01", folder="/a")
    assert kept(base, candidate) == [1, 2]
    assert kept(base, candidate, newer, unnoted) == [1, 3]
    assert kept(unnoted, newer) == [3]


# --- through the front door


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes a model file under one name; each seed is another content."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).random((60, 4, 4), np.float32), y=np.arange(60) % 6)

    def write(seed, name="net", folder=tmp_path):
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({"classes": 6, "input": [4, 4], "seed": seed}))
        path = folder / f"{name}.yaml"
        path.write_text(
            f"zoolens: 1\nname: {name}\nversion: 1.0.0\ninputs: [{{modality: array, shape: [null, 4, 4]}}]\n"
            f"outputs: [{{}}]\nassets: [{{format: fake, files: [{{location: {name}.json}}]}}]\n"
        )
        return path

    return write


@pytest.fixture
def measure(store, tmp_path):
    def run(*paths):
        outcomes = evaluate(paths, tmp_path / "d.npz", batches=(), cold=False, store=store)
        assert not [outcome.errors for outcome in outcomes if outcome.errors]
        return [outcome.run for outcome in outcomes]

    return run


def test_query_and_equiv_take_the_file_that_is_there_now(store, model, measure):
    first, other = measure(model(1), model(1, "other"))
    assert first.key.model == other.key.model
    (second,) = measure(model(2))
    index = build_index(store)
    assert index.rows[index.find("net")].key == second.id
    assert index.agreement(index.find("other"))[index.find("net")] < 1
    assert [run.id for run in runs_of(store, "net")] == [second.id]
    measure(model(1, "net"))  # put back
    index = build_index(store)
    assert [row.ref for row in index.rows] == [
        "file:net@1.0.0"
    ]  # the same content as `other`, which it was last called
    assert index.notes == (f"file:net@1.0.0 was replaced: what was measured before ({second.id[:8]}) is left out.",)


def test_models_of_one_name_in_two_folders_are_two_models(store, model, measure, tmp_path):
    from zoolens.findings.queries.query import query

    measure(model(1, folder=tmp_path / "a"), model(2, folder=tmp_path / "b"), model(3, "third"))
    found = query(ref="third", store=store)
    assert [match.row.attributes["folder"] for match in found.matches] == [str(tmp_path / "a"), str(tmp_path / "b")]
    with pytest.raises(AmbiguousName, match=r"a/net\.yaml, .*b/net\.yaml"):
        build_index(store).find("net")


def test_a_file_that_changed_and_was_not_measured_again_is_told(store, model, measure):
    from zoolens.findings.queries.query import query

    (run, _) = measure(model(1), model(2, "other"))
    assert not changed_on_disk(run)
    assert not query(ref="other", store=store).notes
    model(3)
    assert changed_on_disk(run)
    assert any("file:net@1.0.0 has another file than" in said for said in query(ref="other", store=store).notes)
    note = changed_file_note(run.ref, run.id)
    assert f"file:net@1.0.0 has changed since it was measured in run {run.id[:8]}" in note
    assert note in equiv("net", "other", store=store).on[0].fit.notes
    assert note in disagree("other", store=store).notes
    assert note in agreement_matrix(["net", "other"], store=store).notes


def test_a_file_in_a_folder_that_may_not_be_looked_into_is_not_judged(store, model, measure, monkeypatch):
    (run,) = measure(model(1))

    def refused(path, *given, **asked):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.exists", refused)
    assert not changed_on_disk(run)
