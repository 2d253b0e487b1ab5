"""Hand-made runs: what models would have answered, written into a store as `zoolens eval` writes it."""

import numpy as np
import pyarrow as pa
import pytest

from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.prediction_buffer import bit_digest
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.tasks.classification import best_classes

STACK = {"version": "1", "options": {}, "packages": {}, "python": None, "machine": {}}
INPUT = {"shape": [None, 8, 8], "layout": "NHW", "color": "gray"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def class_columns(probabilities, labels, prefix=""):
    probabilities = np.asarray(probabilities, np.float32)
    top = best_classes(probabilities, min(5, probabilities.shape[1]))
    rows = np.arange(len(labels))
    return {
        f"{prefix}top": _lists(top, pa.int32()),
        f"{prefix}score": _lists(probabilities[rows[:, None], top], pa.float32()),
        f"{prefix}label_score": probabilities[rows, labels],
        f"{prefix}sum_squares": np.einsum("ij,ij->i", probabilities, probabilities),
        f"{prefix}digest": bit_digest(probabilities),
    }


def vector_columns(vectors, prefix=""):
    vectors = np.asarray(vectors, np.float32)
    return {f"{prefix}vector": _lists(vectors, pa.float32()), f"{prefix}digest": bit_digest(vectors)}


def _lists(rows, kind):
    return pa.array(rows.tolist(), pa.list_(kind))


def write_run(
    store, name, answers, labels, *, dataset="digits", classes=None, runtime="fake", about=None, done=True, **manifest
):
    """`answers`: probabilities, or columns made by the two functions above. `about`: its outputs as in run.resolved."""
    labels = np.asarray(labels, np.int32)
    columns = answers if isinstance(answers, dict) else class_columns(answers, labels)
    head = {"index": np.arange(len(labels)), "input": [str(i) for i in range(len(labels))], "label": labels}
    manifest = {"name": name, "inputs": [INPUT], "outputs": [{}], **manifest}
    data = DatasetRecord(fingerprint([dataset, labels.tolist()]), dataset, len(labels), {"classes": classes})
    run = store.begin_run(
        ModelRecord(fingerprint(manifest), f"zoo:{name}@1.0.0", "fake", manifest),
        data,
        StackRecord(fingerprint(runtime), runtime, STACK, {}),
        resolved={"outputs": about} if about else {},
    )
    store.add_part(run.id, KIND, 0, pa.table({**head, **columns}))
    if done:
        store.finish_stage(run.id, "predictions")
    return store.run(run.id)


def one_hot(answers, classes=10, sure=0.9):
    """Probabilities with these best classes."""
    answers = np.asarray(answers)
    found = np.full((len(answers), classes), (1 - sure) / (classes - 1), np.float32)
    found[np.arange(len(answers)), answers] = sure
    return found


DEMO = ("demo:lenet-torch", "demo:lenet-int8", "demo:lenet-wide", "demo:mlp-small")


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory):
    """Four demo models on 200 images, in one runtime. Tests that write make a store of their own."""
    path = tmp_path_factory.mktemp("demo") / "store.sqlite"
    outcomes = evaluate(
        DEMO, "demo", runtimes=["onnxruntime"], limit=200, batches=(), cold=False, trust=True, store=path
    )
    assert not [outcome.errors for outcome in outcomes if outcome.errors]
    return path
