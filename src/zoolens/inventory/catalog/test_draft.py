from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import pytest

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.catalog.draft import _Guesses, draft_manifest, output_classes
from zoolens.inventory.catalog.lookup import find, find_all
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.outputs.noise_probe import NoiseAnswers
from zoolens.inventory.runtimes.outputs.output_endings import Ending, endings
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec
from zoolens.testing import language_models
from zoolens.testing.onnx_language_models import onnx_copy

pytestmark = pytest.mark.usefixtures("trusted_models")

needs_assets = pytest.mark.skipif(not ASSETS.is_dir(), reason="no reference assets (ZOOLENS_ASSETS)")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


def spec(shape, dtype="float32", name="x", scale=None):
    return TensorSpec(name, shape, dtype, scale, 0 if scale else None)


@pytest.mark.parametrize(
    ("shape", "format_", "layout"),
    [
        ((None, 3, 224, 224), "onnx", "NCHW"),
        ((1, 1, 28, 28), "onnx", "NCHW"),
        ((1, 224, 224, 3), "tflite", "NHWC"),
        ((1, 3, 3, 3), "onnx", "NCHW"),
        ((1, 3, 3, 3), "tflite", "NHWC"),
        ((None, 28, 28), "onnx", "NHW"),
    ],
)
def test_layout_of_images(shape, format_, layout):
    drafted = _Guesses(format_).input(spec(shape))
    assert (drafted.modality, drafted.layout, drafted.shape) == ("image", layout, shape)


@pytest.mark.parametrize("shape", [(1, 10), (None, 7, 8, 9), (1, 2, 3, 4, 5), ()])
def test_what_is_no_image_is_an_array(shape):
    assert _Guesses("onnx").input(spec(shape)).modality == "array"


def output(shape, dtype="float32", name="x", scale=None, *, end=Ending.UNKNOWN, sums=False):
    found = spec(shape, dtype, name, scale)
    (drafted,) = _Guesses("onnx").outputs([found], [end], NoiseAnswers({name: 1.0} if sums else {}))
    return drafted


def test_outputs():
    assert output((1, 1000), name="softmax_1").scores == "probabilities"
    assert output((1, 1000), name="fc").scores == "logits"
    assert output((1, 1000), "uint8", "out", 1 / 256).scores == "probabilities"
    assert [step.op for step in output((1, 1001)).postprocess] == ["drop_leading"]
    assert output((None, 10, 1, 1)).task == "classification"
    assert output((1, 100, 4)).task == "other"


def test_the_scores_come_before_the_class_that_scikit_learn_gives_first():
    given = [spec((None,), "int64", "label"), spec((None, 3), name="probabilities")]
    drafted = _Guesses("onnx").outputs(given, [Ending.UNKNOWN] * 2, NoiseAnswers({"probabilities": 1.0}))
    assert [(output.name, output.task) for output in drafted] == [
        ("probabilities", "classification"),
        ("label", "other"),
    ]


def test_one_number_is_a_probability_behind_a_sigmoid_only():
    drafted = output((None, 1), end=Ending.SIGMOID)
    assert (drafted.task, drafted.scores) == ("classification", "probabilities")
    assert output((None, 1), end=Ending.SCORES).task == "other"
    assert output((None, 1), "int64", end=Ending.UNKNOWN).task == "other"


@pytest.mark.parametrize(
    ("ending", "classes", "task", "scores"),
    [
        (Ending.SOFTMAX, 10, "classification", "probabilities"),
        (Ending.SCORES, 1280, "classification", "logits"),
        (Ending.FEATURES, 1280, "other", "logits"),
        (Ending.FEATURES, 1000, "classification", "logits"),  # SqueezeNet pools its scores
        (Ending.SIGMOID, 80, "other", "logits"),
    ],
)
def test_what_an_output_comes_from_says_what_it_is(ending, classes, task, scores):
    drafted = output((None, classes), end=ending)
    assert (drafted.task, drafted.scores) == (task, scores)


def test_answers_to_noise_and_names_say_what_no_graph_does():
    assert output((None, 10), sums=True).scores == "probabilities"
    assert output((None, 384), name="sentence_embedding").task == "embedding"
    assert output((None, 10), name="softmax_weights", end=Ending.SCORES).scores == "logits"
    assert output((None, 4), name="boxes", end=Ending.SCORES).task == "other"


def test_whole_numbers_are_no_scores():
    """The indices of a TopK."""
    assert output((None, 3), dtype="int64").task == "other"
    assert output((None, 10), dtype="int8", scale=0.1).task == "classification"


def test_boxes_beside_scores_are_a_detector_of_unknown_task():
    guesses = _Guesses("tflite")
    specs = [spec((1, 10, 4), name="a"), spec((1, 10), name="b"), spec((1, 10), name="c"), spec((1,), name="d")]
    assert {one.task for one in guesses.outputs(specs, [Ending.UNKNOWN] * 4, NoiseAnswers())} == {"other"}
    assert "task is unknown" in guesses.summary()


def test_lists_beside_boxes_of_one_image_are_a_detector():
    """Faster R-CNN of torchvision and of ONNX's zoo: boxes n × 4, classes n, scores n, called 6568, 6572, 6570."""
    for order in permutations([spec((None, 4), name="1"), spec((None,), "int64", "2"), spec((None,), name="3")]):
        assert {one.task for one in _Guesses("onnx").outputs(order, [Ending.SCORES] * 3, NoiseAnswers())} == {"other"}


def test_rows_that_are_no_inputs_are_no_scores():
    """YOLOv7 gives 7 numbers for each object that it finds, of which none has to do with the batch."""
    guesses = _Guesses("onnx")
    noise = NoiseAnswers(other_rows=frozenset({"x"}))
    (drafted,) = guesses.outputs([spec((None, 7), name="x")], [Ending.SCORES], noise)
    assert drafted.task == "other"
    assert "not have one row for each input" in guesses.said[0]


def test_an_open_size_of_images_is_said():
    guesses = _Guesses("onnx")
    guesses.input(spec((None, 3, None, None)))
    assert "the size of images is open, and they are not resized" in guesses.said


@pytest.mark.parametrize("shape", [(1, 49, 10, 1), (1, 1, 16, 96), (1, 96, 64, 1), (None, 49, 10), (2, None, 128)])
def test_sound_is_no_image(shape):
    assert _Guesses("tflite").input(spec(shape)).modality == "array"


def test_guesses_are_named():
    guesses = _Guesses("onnx")
    guesses.input(spec((1, 3, 224, 224)))
    assert "ImageNet mean and deviation (not known: check)" in guesses.summary()
    assert "RGB order" in guesses.summary()


def test_caffe_means_bgr_and_a_mean_to_subtract():
    drafted = _Guesses("caffe").input(spec((10, 3, 227, 227)))
    assert drafted.color == "BGR"
    assert drafted.preprocess[-1].mean == (104.0, 117.0, 123.0)


def test_drafting_a_made_up_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    write_onnx(onnx, tmp_path / "tiny.onnx", (1, 3, 4, 4), 48)
    manifest = draft_manifest(tmp_path / "tiny.onnx")
    assert manifest.name == "tiny"
    assert manifest.inputs[0].shape == (1, 3, 4, 4)
    assert manifest.outputs[0].task == "classification"
    assert manifest.assets[0].files[0].bytes == (tmp_path / "tiny.onnx").stat().st_size
    assert "Guessed, please check" in manifest.description
    assert parse_manifest(dump_manifest(manifest)) == manifest
    assert output_classes(ModelFiles("onnx", {"model": tmp_path / "tiny.onnx"})) == 48


def test_bare_files_in_a_folder_zoo_are_drafted(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    (tmp_path / "zoo" / "sub").mkdir(parents=True)
    write_onnx(onnx, tmp_path / "zoo" / "sub" / "tiny.onnx", (1, 3, 4, 4), 48)
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path / "zoo"))
    (entry,) = find_all(["folder:*"])
    assert entry.ref == "folder:sub/tiny.onnx"
    assert entry.described
    assert entry.full_ref == find("folder:sub/tiny.onnx", draft=False).full_ref  # lists show its runs beside it
    file = entry.manifest.assets[0].files[0]
    assert file.location == "sub/tiny.onnx"
    assert len(file.sha256) == 64
    assert find(str(tmp_path / "zoo" / "sub" / "tiny.onnx")).manifest.inputs == entry.manifest.inputs


# --- files whose first output is no answer, and scores that are neither logits nor probabilities


def network(onnx, path, ends, outputs, *, kind=None):
    """Two dense layers (x → hidden → logits), then the nodes `ends`; float pixels unless `kind` says another type."""
    import numpy as np

    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(0)
    constants = {
        "sizes": np.array([0, -1]),
        "w1": 0.1 * random.standard_normal((64, 16)).astype(np.float32),
        "w2": random.standard_normal((16, 10)).astype(np.float32),
        "w3": random.standard_normal((64, 10)).astype(np.float32),
        "hundred": np.float32(100),
        "one": np.float32(1),
        "k": np.array([3]),
        "prior": np.full((1, 10), 0.1, np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["image"], ["x"], to=real),
        helper.make_node("Reshape", ["x", "sizes"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w1"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "w2"], ["logits"]),
    ]
    nodes += [helper.make_node(op, given, made, **attributes) for op, given, made, attributes in ends]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", kind or real, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info(name, real, ["n", width]) for name, width in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return draft_manifest(path)


PERCENT = [("Softmax", ["logits"], ["p"], {"axis": 1}), ("Mul", ["p", "hundred"], ["out"], {})]


@pytest.fixture
def drafted(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    return lambda *arguments, **kind: network(onnx, tmp_path / "net.onnx", *arguments, **kind)


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([], {"flat": 64}),
        ([("Identity", ["prior"], ["constant"], {})], {"constant": 10}),
        ([("MatMul", ["flat", "w3"], ["auxiliary"], {})], {"auxiliary": 10}),
        ([("Relu", ["hidden"], ["features"], {})], {"features": 16}),
    ],
)
def test_the_answer_is_the_output_that_depends_on_the_most_layers(drafted, ends, first):
    manifest = drafted(ends, {**first, "logits": 10})
    assert (manifest.outputs[0].name, manifest.outputs[0].task) == ("logits", "classification")
    assert next(iter(first)) in manifest.description


def test_of_equal_outputs_the_first_is_taken_and_this_is_a_guess(drafted):
    manifest = drafted(PERCENT[:1], {"logits": 10, "p": 10})
    assert manifest.outputs[0].name == "logits"
    assert any("the first of them" in guess for guess in manifest.attributes["guessed"])


def test_percentages_are_divided(drafted):
    (output,) = drafted(PERCENT, {"out": 10}).outputs
    assert (output.scores, output.postprocess[0].op, output.postprocess[0].by) == ("probabilities", "divide", 100)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (
            [*PERCENT[:1], ("Sub", ["one", "p"], ["out"], {})],
            "although all of its answers to noise lie between 0 and 1",
        ),
        ([*PERCENT[:1], ("Sqrt", ["p"], ["out"], {})], "its answers to noise lie between 0 and 1"),
        ([("Softmax", ["logits"], ["out"], {"axis": 0})], "depends on the other inputs of the batch"),
        ([("LogSoftmax", ["logits"], ["out"], {"axis": 0})], "depends on the other inputs of the batch"),
    ],
)
def test_scores_that_are_neither_logits_nor_probabilities_are_told(drafted, ends, said):
    manifest = drafted(ends, {"out": 10})
    assert any(said in guess for guess in manifest.attributes["guessed"])
    assert manifest.outputs[0].scores == "logits"


def test_the_highest_scores_are_no_classes(drafted):
    manifest = drafted([("TopK", ["logits", "k"], ["out", "places"], {"axis": 1})], {"out": 3})
    assert manifest.outputs[0].task == "other"


@pytest.mark.parametrize(("kind", "steps"), [("INT32", 0), ("INT64", 0), ("UINT8", 0), ("INT8", 1), ("FLOAT16", 1)])
def test_an_input_of_whole_numbers_takes_raw_pixels(drafted, kind, steps):
    onnx = pytest.importorskip("onnx")
    (given,) = drafted([], {"logits": 10}, kind=getattr(onnx.TensorProto, kind)).inputs
    normalising = [step for step in given.preprocess if step.op == "normalize"]
    assert len(normalising) == steps
    assert all(step.scale == 1 for step in normalising) is (kind != "FLOAT16")


def test_an_impossible_input_is_a_sentence(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    write_onnx(onnx, tmp_path / "huge.onnx", (1, 3, 100_000, 100_000), 30_000_000_000)
    with pytest.raises(ModelError, match="declares an invalid input: "):
        draft_manifest(tmp_path / "huge.onnx")


def test_garbage_and_bare_weights_are_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "garbage.onnx").write_bytes(os.urandom(200))
    with pytest.raises(ModelError, match="garbage"):
        draft_manifest(tmp_path / "garbage.onnx")
    (tmp_path / "weights.pth").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(ModelError, match="weights only"):
        draft_manifest(tmp_path / "weights.pth")


def write_onnx(onnx, path: Path, shape: tuple[int, ...], classes: int) -> None:
    """A network of one Flatten."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["image"], ["scores"])],
        "tiny",
        [helper.make_tensor_value_info("image", kind, shape)],
        [helper.make_tensor_value_info("scores", kind, (1, classes))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@needs_assets
@pytest.mark.assets
@pytest.mark.parametrize(
    ("file", "module", "layout", "shape", "drops"),
    [
        ("imagenet/onnx/shufflenet-v2-12-int8.onnx", "onnxruntime", "NCHW", (1, 3, 224, 224), False),
        ("imagenet/tflite/coral_mobilenet_v1_0.25_128_quant.tflite", "ai_edge_litert", "NHWC", (1, 128, 128, 3), True),
        ("imagenet/tflite/efficientnet_lite0_int8.tflite", "ai_edge_litert", "NHWC", (1, 224, 224, 3), False),
        ("cifar10/samplenet/SampLeNet.xml", "openvino", "NCHW", (1, 3, 32, 32), False),
    ],
)
def test_reference_models(file, module, layout, shape, drops):
    pytest.importorskip(module)
    manifest = draft_manifest(ASSETS / file)
    assert (manifest.inputs[0].layout, manifest.inputs[0].shape) == (layout, shape)
    assert bool(manifest.outputs[0].postprocess) is drops


@needs_assets
@pytest.mark.parametrize(
    ("file", "modality", "tasks", "scores"),
    [
        ("cifar10/mlperf_tiny/pretrainedResnet.tflite", "image", {"classification"}, "probabilities"),
        ("tasks/audio/models/kws_ref_model_float32.tflite", "array", {"classification"}, "probabilities"),
        ("tasks/detection/models/ssd_mobilenet_v1_coco_300_uint8.tflite", "image", {"detection"}, None),
        ("tasks/detection/models/efficientdet_lite0_coco_320_uint8.tflite", "image", {"detection"}, None),
        ("tasks/text/models/tflite_support_sentiment_wordavg.tflite", "text", {"classification"}, "probabilities"),
        ("tasks/embeddings/models/wordllama_l2_supercat_64.onnx", "text", {"embedding"}, None),
        ("tasks/segmentation/models/deeplabv3_mnv2_dm05_pascal_quant.tflite", "image", {"segmentation"}, None),
        ("tasks/embeddings/models/all-MiniLM-L6-v2_int8.onnx", "text", {"embedding"}, None),
        ("imagenet/onnx/shufflenet-v2-12-int8.onnx", "image", {"classification"}, "logits"),
    ],
)
def test_drafts_of_real_files_follow_their_structure(file, modality, tasks, scores):
    pytest.importorskip("ai_edge_litert" if file.endswith("tflite") else "onnxruntime")
    drafted = draft_manifest(ASSETS / file)
    assert drafted.inputs[0].modality == modality
    assert {one.task for one in drafted.outputs} == tasks
    assert scores is None or drafted.outputs[0].scores == scores


def test_a_file_whose_runtime_is_not_installed_can_be_opened_in_an_environment(tmp_path):
    (tmp_path / "net-symbol.json").write_text('{"nodes": []}')
    (tmp_path / "net-0000.params").write_bytes(b"")
    with pytest.raises(ModelError, match=r"No installed runtime runs mxnet .* --env 'mxnet==1.9.1,numpy<1.24'"):
        draft_manifest(tmp_path / "net-symbol.json")


def test_a_language_model_with_caches_names_the_one_runtime_that_is_missing(tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    path = onnx_copy(language_models.gguf(tmp_path).path(), tmp_path / "tiny.onnx")
    monkeypatch.setattr(OnnxRuntime, "version", lambda runtime: None)
    with pytest.raises(ModelError, match="onnxruntime, which alone runs models that take keys and values") as refused:
        draft_manifest(path)
    assert "No installed runtime" not in refused.value.message
    assert "zoolens[onnxruntime]" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("last", "ending"),
    [
        ("BatchNormalization", Ending.FEATURES),  # faces as vectors
        ("GlobalMaxPool", Ending.FEATURES),
        ("LeakyRelu", Ending.FEATURES),
        ("QLinearSoftmax", Ending.SOFTMAX),
        ("LogSoftmax", Ending.UNKNOWN),  # logits, as softmax reads them
    ],
)
def test_endings_of_onnx_files(tmp_path, last, ending):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [helper.make_node(last, ["x"], ["y"]), helper.make_node("Flatten", ["y"], ["z"])]
    values = [helper.make_tensor_value_info(name, kind, (1, 512)) for name in "xz"]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]))
    onnx.save(model, tmp_path / "m.onnx")
    assert endings("onnx", tmp_path / "m.onnx", 1) == [ending]
