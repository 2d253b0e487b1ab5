"""Detectors, segmenters and taggers get the task that their files tell, and "other" where the file leaves it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.drafted import DraftedFile
from zoolens.inventory.catalog.known_classes import COCO, COCO_BY_ID, usual_classes, without_background
from zoolens.inventory.catalog.task_guesses import guessed_task
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.runtimes.outputs.embedded_notes import listed_names, listed_size, onnx_properties, zipped_labels
from zoolens.inventory.runtimes.runtime import TensorSpec

pytestmark = pytest.mark.usefixtures("trusted_models")

MODELS = ASSETS / "tasks"
needs_assets = pytest.mark.skipif(not MODELS.is_dir(), reason="no reference assets (ZOOLENS_ASSETS)")
IMAGE = {"images": (1, 3, 64, 64)}  # 64 + 16 + 4 = 84 cells at strides of 8, 16 and 32


def guess(outputs, inputs=IMAGE, *, path=Path("absent.onnx"), dtype="float32"):
    given = [TensorSpec(name, shape, "float32") for name, shape in inputs.items()]
    made = [TensorSpec(name, shape, dtype) for name, shape in outputs.items()]
    return guessed_task(DraftedFile("onnx", path, given, made))


@pytest.fixture
def exported(tmp_path):
    """Writes an ONNX file with the properties that Ultralytics writes."""
    onnx = pytest.importorskip("onnx")

    def write(shape, **properties):
        value = onnx.helper.make_tensor_value_info
        kind = onnx.TensorProto.FLOAT
        inputs, outputs = [value("images", kind, [1, 3, 64, 64])], [value("output0", kind, list(shape))]
        zeros = onnx.helper.make_node("ConstantOfShape", ["s"], ["output0"])
        stored = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, [len(shape)], shape)
        graph = onnx.helper.make_graph([zeros], "g", inputs, outputs, [stored])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.helper.set_model_props(model, {"stride": "32", "imgsz": "[64, 64]", **properties})
        path = tmp_path / "made.onnx"
        onnx.save(model, str(path))
        return path

    return write


NAMES = "{0: 'person', 1: \"driver's seat\", 2: 'bus'}"


def test_a_detector_of_ultralytics_is_drafted_whole(exported):
    pytest.importorskip("onnxruntime")
    manifest = draft_manifest(exported((1, 7, 84), task="detect", names=NAMES))
    assert [step.op for step in manifest.inputs[0].preprocess] == ["letterbox", "normalize"]
    assert manifest.inputs[0].preprocess[0].size == (64, 64)
    (output,) = manifest.outputs
    assert (output.task, output.parts, output.labels) == (
        "detection", {"predictions": "output0"}, ("person", "driver's seat", "bus")
    )  # fmt: skip
    boxes, suppress = output.postprocess
    assert (boxes.format, boxes.units, boxes.transposed, suppress.iou) == ("cxcywh", "pixels", True, 0.7)
    assert "ImageNet" not in manifest.description  # its images are prepared otherwise
    assert "Ultralytics wrote it into the file" in manifest.description
    assert parse_manifest(dump_manifest(manifest)) == manifest


def test_final_boxes_of_ultralytics_are_not_suppressed_again(exported):
    found = guess({"output0": (1, 300, 6)}, path=exported((1, 300, 6), task="detect", names=NAMES))
    (boxes,) = found.outputs[0].postprocess
    assert (boxes.finished, boxes.format) == (True, "xyxy")


@pytest.mark.parametrize("task", ["segment", "pose", "obb"])
def test_a_task_of_ultralytics_that_nobody_judges_here_is_named(exported, task):
    found = guess({"output0": (1, 7, 84)}, path=exported((1, 7, 84), task=task, names=NAMES))
    assert [output.task for output in found.outputs] == ["other"]
    assert f"the task {task}" in found.said[0]


@pytest.mark.parametrize("properties", [{"task": "pose"}, {"task": "segment"}, {"task": "depth"}, {"task": "detect"}])
def test_no_export_of_ultralytics_gets_the_mean_of_imagenet(exported, properties):
    """Its exports take pixels divided by 255, whatever their task is."""
    pytest.importorskip("onnxruntime")
    manifest = draft_manifest(exported((1, 60, 84), names=NAMES, **properties))
    letterbox, divided = manifest.inputs[0].preprocess
    assert (letterbox.op, letterbox.size) == ("letterbox", (64, 64))
    assert (divided.scale, divided.mean, divided.std) == (pytest.approx(1 / 255), (0.0,), (1.0,))
    assert "ImageNet" not in manifest.description
    assert "fitted into 64×64 on grey 114, from 0 to 1" in "; ".join(manifest.attributes["guessed"])


@pytest.mark.parametrize(
    ("shape", "transposed", "objectness", "classes"),
    [((1, 7, 84), True, False, 3), ((None, 252, 8), False, True, 3)],
)
def test_a_yolo_without_properties_is_known_by_its_number_of_boxes(shape, transposed, objectness, classes):
    found = guess({"out": shape})
    reading = found.outputs[0].postprocess[0]
    assert (reading.transposed, reading.objectness) == (transposed, objectness)
    assert f"with {classes} classes" in found.said[0]
    assert found.outputs[0].labels is None


@pytest.mark.parametrize("shape", [(1, 7, 85), (1, 84), (1, 7, None), (1, 84, 7, 1)])
def test_other_shapes_are_no_yolo(shape):
    assert guess({"out": shape}) is None


def test_boxes_are_known_by_the_names_of_two_exporters():
    names = {"detection_boxes": (1, 9, 4), "detection_scores:0": (1, 9), "detection_classes": (1, 9), "rest": (1, 3)}
    tensorflow = guess(names).outputs[0]
    assert tensorflow.parts == {
        "boxes": "detection_boxes", "classes": "detection_classes", "scores": "detection_scores:0"
    }  # fmt: skip
    assert (tensorflow.postprocess[0].format, tensorflow.postprocess[0].units) == ("yxyx", "shares")
    detr = guess({"logits": (1, 100, 92), "pred_boxes": (1, 100, 4)}).outputs[0].postprocess[0]
    assert (detr.format, detr.activation, detr.background) == ("cxcywh", "softmax", "last")
    assert guess({"boxes": (1, 9, 4), "scores": (1, 9), "labels": (1, 9)}) is None  # corners in which order?


@pytest.mark.parametrize("classes", [80, 91])
def test_followers_of_detr_have_its_names_and_sigmoids(classes):
    """RT-DETR and D-FINE on COCO have 80 classes, Deformable DETR 91, and DETR 92 with that of no object."""
    found = guess({"pred_boxes": (1, 300, 4), "logits": (1, 300, classes)})
    reading = found.outputs[0].postprocess[0]
    assert (reading.activation, reading.background, reading.multi_label) == ("sigmoid", "none", True)
    assert "sigmoids without a class of no object (not known: check" in found.said[1]


def test_a_person_with_points_is_no_detector_of_52_classes():
    assert guess({"out": (1, 56, 84)}) is None


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [((1, 21, 64, 64), "float32", "NCHW"), ((1, 64, 64, 21), "float32", "NHWC"), ((1, 64, 64), "int64", "NHW")],
)
def test_a_map_of_classes_is_a_segmentation(shape, dtype, layout):
    (output,) = guess({"out": shape}, dtype=dtype).outputs
    assert (output.task, output.postprocess[0].layout) == ("segmentation", layout)


@pytest.mark.parametrize("shape", [(1, 3, 64, 64), (1, 1, 64, 64), (1, 64, 64)])
def test_a_map_that_may_be_a_picture_or_a_depth_has_no_task(shape):
    found = guess({"out": shape})
    assert [output.task for output in found.outputs] == ["other"]
    assert "task: segmentation" in found.said[0]
    assert "depth" in found.said[0]


def test_vectors_of_tokens_may_be_hidden_states_or_tags():
    tokens = {"input_ids": (None, None), "attention_mask": (None, None)}
    found = guess({"last_hidden_state": (None, None, 384)}, tokens)
    assert found.outputs[0].task == "other"
    assert "384 numbers for each token: hidden states" in found.said[0]
    assert "scores of tags" in found.said[0]
    answers = guess({"start_logits": (None, None), "end_logits": (None, None)}, tokens)
    assert "question answering" in answers.said[0]
    assert guess({"logits": (None, 2)}, tokens) is None


@pytest.mark.parametrize(
    "text", ["", "{", "{0: 'a', 2: 'b'}", "['a']", "{0: 1}", "{'a': 'b'}", "(" * 5_000, "open('x')"]
)
def test_names_that_are_none(text):
    assert listed_names(text) is None


def test_sizes():
    assert listed_size("[480, 640]") == (480, 640)
    assert [listed_size(text) for text in ("640", "[a, b]", "[1, 2, 3]", "")] == [None] * 4


def test_files_that_are_none_have_no_notes(tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(b"\x72\x05abc")
    assert onnx_properties(path) == {}
    assert zipped_labels(path) is None


@needs_assets
def test_the_outputs_of_a_detector_are_told_apart_by_position_not_by_name():
    pytest.importorskip("ai_edge_litert")
    path = MODELS / "detection" / "models" / "efficientdet_lite0_coco_320_uint8.tflite"
    (output,) = draft_manifest(path).outputs
    assert output.parts == {
        "boxes": "StatefulPartitionedCall:3",
        "classes": "StatefulPartitionedCall:2",
        "scores": "StatefulPartitionedCall:1",
        "count": "StatefulPartitionedCall:0",
    }
    assert len(output.labels) == 90
    assert output.labels[:2] == ("person", "bicycle")
    assert (output.postprocess[0].format, output.postprocess[0].units) == ("yxyx", "shares")


def test_names_that_everybody_is_taken_to_know():
    assert (len(COCO), len(COCO_BY_ID)) == (80, 90)
    assert (COCO_BY_ID[0], COCO_BY_ID[16], COCO_BY_ID[89], COCO[79]) == ("person", "cat", "toothbrush", "toothbrush")
    assert [usual_classes(count) for count in (80, 90, 3, None)] == [COCO, COCO_BY_ID, None, None]
    assert without_background(("???", "a", "b"), 2) == ("a", "b")
    assert without_background(("a", "b"), 2) == ("a", "b")
    assert without_background(("a", "b", "c"), 2) is None


def test_classes_without_names_are_never_taken_for_granted():
    said = " ".join(guess({"out": (1, 252, 85)}).said)
    assert "taken for COCO's (not known: check)" in said
    assert guess({"out": (1, 252, 85)}).outputs[0].labels == COCO
    names = {"detection_boxes": (1, 9, 4), "detection_scores": (1, 9), "detection_classes": (1, 9)}
    tensorflow = guess(names)
    assert tensorflow.outputs[0].postprocess[0].background == "first"
    assert "classes count from 1" in " ".join(tensorflow.said)


def test_a_classifier_of_ultralytics_is_prepared_as_it_is_evaluated(exported):
    found = guess({"output0": (1, 3)}, path=exported((1, 3), task="classify", names=NAMES))
    assert [step.op for step in found.steps] == ["resize", "center_crop", "normalize"]
    assert found.outputs == ()  # read as those of any classifier are


@needs_assets
def test_a_detector_that_names_no_classes_has_those_of_coco_and_says_so():
    pytest.importorskip("ai_edge_litert")
    drafted = draft_manifest(MODELS / "detection" / "models" / "ssd_mobilenet_v1_coco_300_uint8.tflite")
    assert drafted.outputs[0].labels == COCO_BY_ID
    assert any("not known: check" in guess for guess in drafted.attributes["guessed"])


@needs_assets
def test_a_vocabulary_beside_the_file_makes_it_a_model_of_texts():
    pytest.importorskip("ai_edge_litert")
    drafted = draft_manifest(MODELS / "text" / "models" / "tflite_support_sentiment_wordavg.tflite")
    tokenizer = drafted.inputs[0].tokenizer
    words = tokenizer.words
    assert (tokenizer.vocabulary, tokenizer.max_length, tokenizer.pad_id) == (10003, 256, 0)
    assert (words.matches, words.unknown_id, words.start_id) == ("separators", 2, 1)


@needs_assets
def test_names_of_classes_come_from_the_file():
    pytest.importorskip("ai_edge_litert")
    drafted = draft_manifest(MODELS / "text" / "models" / "tflite_support_sentiment_wordavg.tflite")
    assert drafted.outputs[0].labels == ("Negative", "Positive")
