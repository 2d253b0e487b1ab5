import hashlib
from functools import cache

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.demo import CLASSES, open_demo
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.zoos.demo import DATA_FOLDER, SHAPES_FOLDER, DemoZoo
from zoolens.inventory.zoos.zoo import Weights

ENTRIES = list(DemoZoo().entries())
FLOAT = [entry for entry in ENTRIES if entry.manifest.element_type == "float32"]
INT8 = [entry for entry in ENTRIES if entry.manifest.element_type == "int8"]


def names(entries):
    return [entry.manifest.name for entry in entries]


def each(entries):
    return pytest.mark.parametrize("entry", entries, ids=names(entries))


def model_file(entry, kind):
    [asset] = [asset for asset in entry.manifest.assets if asset.format == kind]
    return entry.folder / asset.files[0].location


@cache
def pixels_of_all():
    data = open_demo()
    return np.stack([data.read(index).value[..., 0] for index in range(len(data))])


def normalised(entry, count):
    """The first images as the manifest wants them, computed from its own numbers."""
    [step] = entry.manifest.inputs[0].preprocess
    pixels = pixels_of_all()[:count]
    return ((pixels * step.scale - step.mean[0]) / step.std[0]).astype(np.float32)


def onnx_logits(entry, images):
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model_file(entry, "onnx"), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def tflite_logits(entry, images):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(str(model_file(entry, "tflite")), num_threads=1)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], images.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], images)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def accuracy(logits):
    return float((logits.argmax(1) == open_demo().labels()[: len(logits)]).mean())


def test_there_are_twelve_models_and_their_weights_are_here():
    assert len(ENTRIES) == 12
    assert {entry.weights for entry in ENTRIES} == {Weights.PRESENT}
    assert len(FLOAT) == 10


def test_search_narrows_the_list():
    assert names(DemoZoo().entries("INT8")) == ["lenet-int8", "lenet-wide-int8"]
    assert names(DemoZoo().entries("no such model")) == []


def test_the_whole_zoo_stays_small():
    assert sum(path.stat().st_size for path in DATA_FOLDER.rglob("*") if path.is_file()) < 6_000_000


@each(ENTRIES)
def test_files_are_those_the_manifest_describes(entry):
    assert [asset.format for asset in entry.manifest.assets] == ["onnx", "tflite"]
    for asset in entry.manifest.assets:
        content = (entry.folder / asset.files[0].location).read_bytes()
        assert hashlib.sha256(content).hexdigest() == asset.files[0].sha256
        assert len(content) == asset.files[0].bytes


@each(ENTRIES)
def test_manifest_says_what_a_reader_needs(entry):
    manifest = entry.manifest
    assert manifest.license == "Apache-2.0"
    assert manifest.outputs[0].labels == CLASSES
    assert manifest.framework.name in {"torch", "tensorflow", "jax"}
    assert {"parameters", "epochs", "seed", "recipe", "trained_with", "training_data"} <= set(manifest.attributes)
    assert 0.8 < manifest.claimed("top1") < 0.95


def test_every_file_in_the_folder_belongs_to_a_model():
    described = {file.location for entry in ENTRIES for asset in entry.manifest.assets for file in asset.files}
    found = {path.name for path in ENTRIES[0].folder.iterdir() if path.suffix != ".yaml"}
    assert found == described


def test_one_architecture_comes_from_all_three_frameworks():
    lenets = [entry.manifest for entry in FLOAT if entry.manifest.attributes["architecture"] == "lenet"]
    assert {manifest.framework.name for manifest in lenets} == {"torch", "tensorflow", "jax"}
    assert len({tuple(manifest.attributes["layers"]) for manifest in lenets}) == 1
    assert len({manifest.attributes["parameters"] for manifest in lenets}) == 1


@each(FLOAT)
def test_float_formats_give_the_same_logits(entry):
    images = normalised(entry, 200)
    np.testing.assert_allclose(onnx_logits(entry, images), tflite_logits(entry, images), atol=1e-4, rtol=0)


@each(INT8)
def test_int8_formats_nearly_always_give_the_same_answer(entry):
    images = normalised(entry, 200)
    assert (onnx_logits(entry, images).argmax(1) == tflite_logits(entry, images).argmax(1)).mean() >= 0.97


@each(INT8)
def test_int8_files_are_a_fraction_of_the_float_ones(entry):
    original = next(e for e in FLOAT if e.manifest.name == entry.manifest.attributes["quantisation"]["derived_from"])
    for kind in ("onnx", "tflite"):
        assert model_file(entry, kind).stat().st_size < 0.4 * model_file(original, kind).stat().st_size


@each(ENTRIES)
@pytest.mark.parametrize("logits", [onnx_logits, tflite_logits])
def test_accuracy_on_the_subset_is_near_the_claim(entry, logits):
    # 2,000 of the 10,000 images: the standard error is below 0.9 points
    assert accuracy(logits(entry, normalised(entry, 2000))) == pytest.approx(entry.manifest.claimed("top1"), abs=0.03)


@each(ENTRIES)
@pytest.mark.parametrize("logits", [onnx_logits, tflite_logits])
def test_batch_size_is_free_and_does_not_change_the_answer(entry, logits):
    images = normalised(entry, 5)
    single = np.concatenate([logits(entry, images[index : index + 1]) for index in range(5)])
    np.testing.assert_allclose(single, logits(entry, images), atol=1e-4, rtol=0)


def test_the_subset_has_2000_images_of_ten_classes():
    data = open_demo()
    assert len(data) == 2000
    assert data.classes == CLASSES
    assert set(data.labels()) == set(range(10))
    sample = data.read(0)
    assert (sample.value.shape, sample.value.dtype, sample.label) == ((28, 28, 1), np.uint8, 9)


def test_the_subset_takes_no_location():
    with pytest.raises(DatasetError, match=r"are demo, demo:shapes and demo:passages, without options, but got /some"):
        open_demo("/somewhere")
    with pytest.raises(DatasetError, match="shapes, split"):
        open_demo("shapes", split="train")
    with pytest.raises(DatasetError, match="split"):
        open_demo(split="train")


# --- detectors of shapes

DETECTORS = [read_manifest(path) for path in sorted(SHAPES_FOLDER.glob("*.yaml"))]


def test_pictures_have_boxes_of_three_classes():
    data = open_demo("shapes")
    assert (len(data), data.name, data.classes) == (200, "shapes", ("circle", "square", "triangle"))
    assert data.notes == ()
    truths = [data.truth(place) for place in range(len(data))]
    assert all(len(truth["boxes"]) for truth in truths)
    assert {number for truth in truths for number in truth["classes"].tolist()} == {0, 1, 2}
    assert data.read(0).value.shape == (64, 64, 3)


def test_three_detectors_of_different_size_are_as_their_manifests_say():
    assert [manifest.name for manifest in DETECTORS] == ["detector-large", "detector-medium", "detector-small"]
    sizes = []
    for manifest in DETECTORS:
        content = (SHAPES_FOLDER / manifest.assets[0].files[0].location).read_bytes()
        assert hashlib.sha256(content).hexdigest() == manifest.assets[0].files[0].sha256
        assert (manifest.license, manifest.task) == ("Apache-2.0", "detection")
        sizes.append(len(content))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] < 300_000


@pytest.mark.slow
def test_the_larger_detector_finds_more(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    from zoolens.base.store.store import open_store
    from zoolens.findings.measure.evaluate import evaluate

    models = [SHAPES_FOLDER / f"detector-{size}.yaml" for size in ("small", "large")]
    with open_store(tmp_path / "store.db") as store:
        outcomes = evaluate(
            models, "demo:shapes", runtimes="onnxruntime", batches=(), cold=False, trust=True, store=store
        )
        found = [{one.metric: one.value for one in store.observations(outcome.run.id)} for outcome in outcomes]
    assert found[0]["ap"] + 0.05 < found[1]["ap"]


def test_the_passages_are_texts_to_go_on_with():
    data = open_demo("passages")
    assert (data.name, len(data)) == ("passages", 7)
