"""Models that no dataset fits can be timed, and what is absent is said in words."""

import numpy as np
import pytest

import zoolens
from zoolens.findings.measure.evaluate import evaluate

onnx = pytest.importorskip("onnx")

pytestmark = pytest.mark.usefixtures("trusted_models")

helper = onnx.helper


def two_inputs(folder):
    """Adds the embedding of word numbers to a vector: two inputs, of which one is whole numbers."""
    table = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "words"], ["found"]),
            helper.make_node("ReduceMean", ["found"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("Add", ["mean", "vector"], ["answer"]),
        ],
        "two",
        [
            helper.make_tensor_value_info("words", onnx.TensorProto.INT64, ["n", "length"]),
            helper.make_tensor_value_info("vector", onnx.TensorProto.FLOAT, ["n", 8]),
        ],
        [helper.make_tensor_value_info("answer", onnx.TensorProto.FLOAT, ["n", 8])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "two.onnx")
    return str(folder / "two.onnx")


def test_a_model_with_two_inputs_is_timed_without_accuracy(home, tmp_path, data):
    store, model = zoolens.open_store(), two_inputs(tmp_path)
    (outcome,) = evaluate(model, data, runtimes="onnxruntime", batches=(1, 4), accuracy=False, store=store)
    assert not outcome.errors
    found = {(one.metric, one.scope): one.value for one in store.observations(outcome.run.id)}
    assert found["latency_p50", "batch=1"] > 0
    assert found["latency_p50", "batch=4"] > 0
    assert found["cold_start", "total"] > 0
    assert "timed with made-up inputs" in outcome.notes[0]


def test_its_answers_are_refused_with_the_way_out(home, tmp_path, data):
    store, model = zoolens.open_store(), two_inputs(tmp_path)
    (outcome,) = evaluate(model, data, runtimes="onnxruntime", batches=(), cold=False, store=store)
    assert "2 inputs (words, vector)" in outcome.errors[0]
    assert "--no-accuracy" in outcome.errors[0]


def test_a_tick_without_figures_says_why(home, tmp_path, fake_model, data):
    model = fake_model(behaviour="label_leak")
    model.write_text(model.read_text().replace("scores: logits", "task: other"))
    (outcome,) = evaluate(str(model), data, batches=(), cold=False, store=zoolens.open_store())
    assert not outcome.failed
    assert "not classes (task: other)" in outcome.notes[0]


def test_data_without_labels_are_enough_to_compare_models(home, zoolens, tmp_path, fake_model):
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), np.uint8)
    np.savez(tmp_path / "unlabelled.npz", x=images)
    one, two = fake_model("one", behaviour="label_leak"), fake_model("two", seed=1)
    done = zoolens("eval", one, two, "-d", tmp_path / "unlabelled.npz", "--no-cold", "--latency-seconds", 0.1)
    assert done.returncode == 0, done.stderr
    assert "the dataset has no labels" in done.stderr
    compared = zoolens("compare", one, two, "--fail-on", "disagreement > 2%")
    assert compared.returncode == 3
    assert "top-1" not in compared.stdout
    assert "no labels" in compared.stdout
    assert "top1" in zoolens("compare", one, two, "--fail-on", "top1 drop > 1%").stderr  # no such figure: an error
    assert "accuracy" not in zoolens("equiv", one, two).stdout


def test_a_flat_folder_of_images_is_data_without_labels(tmp_path):
    from PIL import Image

    from zoolens.inventory.datasets.opening import open_dataset

    for number in range(3):
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(tmp_path / f"{number}.png")
    dataset = open_dataset(tmp_path)
    assert len(dataset) == 3
    assert not dataset.labelled
    assert dataset.classes is None


def test_timing_alone_needs_no_data(home, zoolens, fake_model):
    model = fake_model("timed")
    words = ("--no-accuracy", "--no-cold", "--latency-seconds", 0.1, "--batch", "1,4")
    done = zoolens("eval", model, *words)
    assert done.returncode == 0, done.stderr
    assert "it was timed with made-up inputs" in done.stderr
    shown = zoolens("runs", "show", "last").stdout
    assert "no data" in shown
    assert "latency_p50" in shown
    assert "already measured" in zoolens("eval", model, *words).stderr
    assert "latency_p50" in zoolens("reproduce", "last").stdout
    for refused in (("eval", model), ("eval", model, "--no-accuracy", "--limit", 5)):
        done = zoolens(*refused)
        assert done.returncode == 1
        assert "No dataset given." in done.stderr


def test_idx_and_parquet_files_without_labels(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    from zoolens.base.errors import DatasetError
    from zoolens.inventory.datasets.opening import open_dataset

    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    folder = tmp_path / "idx"
    folder.mkdir()
    (folder / "t10k-images-idx3-ubyte").write_bytes(
        b"\0\0\x08\x03" + np.array([6, 4, 4], ">u4").tobytes() + images.tobytes()
    )
    rows = pa.array(images.reshape(6, 16).tolist(), pa.list_(pa.uint8()))
    pq.write_table(pa.table({"x": rows}), tmp_path / "bare.parquet")
    pq.write_table(pa.table({"x": rows, "species": ["a"] * 6}), tmp_path / "named.parquet")
    pq.write_table(pa.table({"x": rows, "label": pa.nulls(6, pa.int64())}), tmp_path / "nulls.parquet")
    for spec in (folder, tmp_path / "bare.parquet", f"{tmp_path}/named.parquet?y=none", tmp_path / "nulls.parquet"):
        dataset = open_dataset(spec)
        assert len(dataset) == 6
        assert not dataset.labelled
        assert dataset.read(5).value.size == 16
    assert open_dataset(f"{tmp_path}/named.parquet?y=species").labelled
    with pytest.raises(DatasetError, match="no column with a usual name for y") as refused:  # it may be meant as such
        open_dataset(tmp_path / "named.parquet")
    assert "y=none" in refused.value.hint
    (folder / "my-labels.bin").write_bytes(b"")
    with pytest.raises(DatasetError, match="There are no labels") as refused:
        open_dataset(folder)
    assert "labels=none" in refused.value.hint
    assert not open_dataset(f"{folder}?labels=none").labelled
