import numpy as np
import pyarrow as pa
import pytest

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.findings.comparisons.conftest import class_columns, one_hot, vector_columns, write_run
from zoolens.findings.comparisons.signatures import probe_runs, signature_of, task_of
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.predictions import KIND

pytestmark = pytest.mark.usefixtures("trusted_models")

LABELS = [0, 1, 2, 3]


def test_a_classifier_of_an_older_store_has_one_output_of_unknown_width(store):
    signature = signature_of(store, write_run(store, "net", one_hot([0, 1, 2, 7]), LABELS))
    assert len(signature) == 4
    assert signature.answers.tolist() == [0, 1, 2, 7]
    assert signature.correct.tolist() == [True, True, True, False]
    assert signature.main.columns["top"].shape == (4, 5)
    assert (signature.main.task, signature.main.width) == ("classification", None)
    assert "vector" not in signature.main.columns


def test_vectors_and_further_outputs_are_read(store):
    columns = vector_columns([[1, 2, 3]] * 4) | class_columns(one_hot([4, 4, 4, 4]), LABELS, "out1.")
    about = [{"name": "vec", "task": "embedding", "width": 3}, {"name": "cls", "task": "classification", "width": 10}]
    signature = signature_of(store, write_run(store, "two", columns, LABELS, about=about))
    vectors, classes = signature.outputs
    assert (vectors.output, vectors.task, vectors.width) == ("vec", "embedding", 3)
    assert vectors.columns["vector"].tolist() == [[1, 2, 3]] * 4
    assert (classes.output, classes.width, classes.columns["top"][:, 0].tolist()) == ("cls", 10, [4] * 4)
    with pytest.raises(ZoolensError, match="answers no class"):
        _ = signature.answers


def test_rows_of_different_lengths_are_refused(store):
    columns = vector_columns([[1, 2], [3, 4]]) | {"vector": [[1.0], [1.0, 2.0]]}
    run = write_run(store, "ragged", columns, [0, 1], about=[{"name": "v", "task": "other", "width": 2}])
    with pytest.raises(StoreError, match="different lengths"):
        signature_of(store, run)


def test_unfinished_predictions_are_refused(store):
    run = write_run(store, "half", one_hot(LABELS), LABELS, done=False)
    with pytest.raises(ZoolensError, match="no finished predictions"):
        signature_of(store, run)
    assert probe_runs(store) == []


def test_probe_runs_are_the_last_attempt_of_each(store):
    first = write_run(store, "net", one_hot(LABELS), LABELS)
    again = store.begin_run(first.model, first.dataset, first.stack, attempt=1)
    store.add_part(again.id, KIND, 0, pa.table({"index": [0]}))
    store.finish_stage(again.id, "predictions")
    unfinished = store.begin_run(first.model, first.dataset, first.stack, attempt=2)
    other = write_run(store, "net", one_hot(LABELS), LABELS, dataset="letters")
    vectors = write_run(
        store, "vec", vector_columns(np.ones((4, 3))), LABELS, about=[{"name": "v", "task": "embedding", "width": 3}]
    )
    assert {run.id for run in probe_runs(store)} == {again.id, other.id, vectors.id}
    assert unfinished.id not in {run.id for run in probe_runs(store)}
    assert [run.id for run in probe_runs(store, data="let*")] == [other.id]
    assert [run.id for run in probe_runs(store, task="embedding")] == [vectors.id]
    assert task_of(vectors) == "embedding"


def test_data_may_be_named_as_it_was_for_eval(store, tmp_path):
    whole, part = (
        evaluate(["demo:mlp-small"], "demo", runtimes=["onnxruntime"], limit=limit, batches=(), cold=False, store=store)
        for limit in (60, 40)
    )
    assert {run.id for run in probe_runs(store, data="demo")} == {whole[0].run.id, part[0].run.id}
    assert [run.id for run in probe_runs(store, data="*first 40*")] == [part[0].run.id]
    assert probe_runs(store, data="no-such-data") == []


@pytest.mark.parametrize("rows", [[1, 0, 2, 3], [0, 1, 2], [0, 1, 2, 3, 3]])
def test_rows_that_are_not_the_inputs_in_their_order_are_refused(store, rows):
    run = write_run(store, "net", one_hot(LABELS), LABELS, done=False)
    table = store.table(run.id, KIND)
    again = store.begin_run(run.model, run.dataset, run.stack, attempt=1)
    store.add_part(again.id, KIND, 0, table.take(pa.array(rows)))
    store.finish_stage(again.id, "predictions")
    with pytest.raises(StoreError, match="not one row for each of its 4 inputs"):
        signature_of(store, store.run(again.id))


def test_data_named_as_for_eval_means_all_runs_on_the_same_content(store, tmp_path):
    np.savez(tmp_path / "one.npz", images=np.zeros((3, 8, 8), np.uint8), labels=[0, 1, 2])
    (tmp_path / "two.npz").write_bytes((tmp_path / "one.npz").read_bytes())
    spec = f"npz:{(tmp_path / 'one.npz').resolve()}"
    first, second = (write_run(store, name, one_hot(LABELS), LABELS) for name in ("a", "b"))
    write_run(store, "c", one_hot(LABELS), LABELS, dataset="letters")
    store.set_resolved(first.id, {"origin": {"data": spec}})
    store.set_resolved(second.id, {"origin": {"data": f"npz:{(tmp_path / 'two.npz').resolve()}"}})
    assert {run.id for run in probe_runs(store, data=str(tmp_path / "one.npz"))} == {first.id, second.id}
