"""Every layout of a detector's tensors, against loops that are written out, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.box_outputs import MOST_CANDIDATES, build_boxes
from zoolens.inventory.preprocess.letterbox import framing
from zoolens.inventory.runtimes.runtime import TensorSpec

FRAME = framing("stretch", (100, 200), (50, 50))  # x is scaled by 1/4, y by 1/2
PIXELS = {"op": "boxes", "format": "xyxy", "units": "pixels"}
NMS = {"op": "nms", "iou": 0.5}


def reader(roles, *steps, **spec):
    parts = {role: role for role in roles}
    output = Output(task="detection", parts=parts, postprocess=steps or (PIXELS,), **spec)
    return build_boxes(output, {role: TensorSpec(role, (None,), "float32") for role in roles})


def read(tensors, *steps, frames=(FRAME,), **spec):
    arrays = {role: np.asarray(values, np.float32) for role, values in tensors.items()}
    return reader(tensors, *steps, **spec)(arrays, frames)


def lists(boxes, classes, scores, **more):
    return {"boxes": [boxes], "classes": [classes], "scores": [scores], **more}


def test_finished_lists_come_back_in_pixels_of_the_image():
    tensors = lists([[0.1, 0.2, 0.5, 0.6], [0, 0, 1, 1], [9, 9, 9, 9]], [2, 0, 7], [0.4, 0.9, 1], count=[2])
    (found,) = read(tensors, {"op": "boxes", "format": "yxyx", "units": "shares"})
    np.testing.assert_allclose(found.boxes, [[0, 0, 200, 100], [40, 10, 80, 40]], rtol=1e-6)
    assert found.classes.tolist() == [0, 2]
    np.testing.assert_allclose(found.scores, [0.9, 0.4], rtol=1e-6)


def test_quantised_tensors_are_read_as_the_numbers_they_stand_for():
    output = Output(task="detection", parts={"boxes": "b", "classes": "c", "scores": "s"}, postprocess=(PIXELS,))
    tensors = {
        "boxes": TensorSpec("b", (1, 1, 4), "uint8", scale=0.5, zero_point=10),
        "classes": TensorSpec("c", (1, 1), "float32"),
        "scores": TensorSpec("s", (1, 1), "uint8", scale=1 / 256, zero_point=0),
    }
    raw = {
        "boxes": np.array([[[10, 20, 30, 40]]], np.uint8),
        "classes": np.array([[3.0]], np.float32),
        "scores": np.array([[128]], np.uint8),
    }
    (found,) = build_boxes(output, tensors)(raw, [FRAME])
    assert found.boxes.tolist() == [[0, 10, 40, 20]]
    assert found.scores.tolist() == [0.5]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("objectness", [False, True])
@pytest.mark.parametrize("multi_label", [False, True])
def test_predictions_of_yolo_against_a_loop(transposed, objectness, multi_label):
    random = np.random.default_rng(4)
    classes, boxes, frame = 5, 40, framing("letterbox", (90, 160), (64, 64))
    centres, sides = random.uniform(0, 64, (boxes, 2)), random.uniform(4, 40, (boxes, 2))
    scores = random.random((boxes, classes + objectness)) ** 3
    rows = np.concatenate([centres, sides, scores], axis=1).astype(np.float32)
    how = {
        "op": "boxes", "format": "cxcywh", "units": "pixels", "objectness": objectness, "transposed": transposed,
        "multi_label": multi_label, "threshold": 0.1, "clip": True,
    }  # fmt: skip
    tensor = rows.T if transposed else rows
    (found,) = read({"predictions": tensor[None]}, how, {"op": "nms", "iou": 0.45, "most": 20}, frames=[frame])
    wanted = loop(rows.astype(np.float64), classes, objectness=objectness, multi_label=multi_label)
    assert len(found.scores) == len(wanted) > 5
    for box, number, score, expected in zip(found.boxes, found.classes, found.scores, wanted, strict=True):
        assert (number, pytest.approx(score, abs=1e-6)) == (expected[1], expected[0])
        np.testing.assert_allclose(box, expected[2], atol=1e-4)


def loop(rows, classes, *, objectness, multi_label):
    """YOLO's decoding of an image of 160 × 90 on a canvas of 64 × 64, one box at a time."""
    waiting = []
    for row in rows:
        x, y, width, height = row[:4]
        each = [float(np.float32(row[4]) * np.float32(value)) for value in row[5:]] if objectness else list(row[4:])
        for number in range(classes) if multi_label else [each.index(max(each))]:
            if each[number] >= 0.1:
                corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
                waiting.append((each[number], number, corners))
    waiting.sort(key=lambda entry: -entry[0])
    kept = []
    for entry in waiting:
        if all(entry[1] != other[1] or iou(entry[2], other[2]) <= 0.45 for other in kept):
            kept.append(entry)
    result = []
    for score, number, (left, top, right, bottom) in kept[:20]:
        # 160 × 90 becomes 64 × 36, with 14 rows of padding above.
        x = [min(max(value * 160 / 64, 0), 160) for value in (left, right)]
        y = [min(max((value - 14) * 90 / 36, 0), 90) for value in (top, bottom)]
        result.append((score, number, [x[0], y[0], x[1] - x[0], y[1] - y[0]]))
    return result


def iou(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def test_detr_has_a_softmax_whose_last_class_is_no_object():
    logits = np.log([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.001, 0.001, 0.998]]])
    how = {
        "op": "boxes", "format": "cxcywh", "units": "shares", "activation": "softmax", "background": "last",
        "multi_label": False, "threshold": 0.01,
    }  # fmt: skip
    (found,) = read({"boxes": [[[0.5, 0.5, 1, 1], [0.5, 0.5, 0.5, 0.5], [0, 0, 0, 0]]], "scores": logits}, how)
    assert found.classes.tolist() == [0, 1]
    np.testing.assert_allclose(found.scores, [0.6, 0.2], rtol=1e-5)
    np.testing.assert_allclose(found.boxes, [[50, 25, 100, 50], [0, 0, 200, 100]], atol=1e-4)


def test_an_ssd_head_has_sigmoids_a_background_class_and_anchors():
    encoded, logits = np.zeros((1, 12, 4), np.float32), np.full((1, 12, 3), -9, np.float32)
    logits[0, 4] = [9, -9, 2]
    anchors = {"op": "ssd_anchors", "strides": [25], "min_scale": 0.2, "max_scale": 0.2}
    how = {"op": "boxes", "activation": "sigmoid", "background": "first"}
    (found,) = read({"boxes": encoded, "scores": logits}, anchors, how, NMS)
    assert found.classes.tolist() == [1]
    assert found.scores[0] == pytest.approx(1 / (1 + math.exp(-2)))
    # The second anchor of the second cell: twice as wide as high.
    width, height = 200 * 0.2 * math.sqrt(2), 100 * 0.2 / math.sqrt(2)
    np.testing.assert_allclose(found.boxes, [[150 - width / 2, 25 - height / 2, width, height]], rtol=1e-5)


def test_rows_that_are_finished_and_classes_that_count_from_one():
    rows = [[[0, 0, 10, 10, 0.9, 1], [0, 0, 20, 20, 0.8, 0], [0, 0, 0, 0, -1, 0]]]
    (found,) = read({"predictions": rows}, {**PIXELS, "finished": True})
    assert found.classes.tolist() == [1, 0]
    (found,) = read({"predictions": rows}, {**PIXELS, "finished": True, "background": "first"})
    assert found.classes.tolist() == [0]
    assert found.boxes.tolist() == [[0, 0, 40, 20]]


def test_a_single_class_may_have_no_axis_of_classes():
    (found,) = read({"boxes": [[[0, 0, 10, 10], [0, 0, 5, 5]]], "scores": [[0.2, 0.9]]})
    assert found.scores.tolist() == pytest.approx([0.9, 0.2])
    assert found.classes.tolist() == [0, 0]


def test_suppression_is_by_class_only_where_it_is_said():
    tensors = {"boxes": [[[0, 0, 10, 10], [0, 0, 10, 9]]], "scores": [[[0.9, 0], [0, 0.8]]]}
    assert read(tensors, PIXELS, NMS)[0].classes.tolist() == [0, 1]
    assert read(tensors, PIXELS, {**NMS, "class_aware": False})[0].classes.tolist() == [0]
    assert read(tensors, PIXELS, {**NMS, "most": 1})[0].classes.tolist() == [0]


def test_a_batch_is_read_image_by_image_and_empty_ones_stay_empty():
    frames = [FRAME, framing("stretch", (50, 50), (50, 50))]
    tensors = {"boxes": np.tile([0.0, 0, 50, 50], (2, 1, 1)), "classes": [[1], [0]], "scores": [[0.5], [0.0]]}
    full, empty = read(tensors, frames=frames)
    assert full.boxes.tolist() == [[0, 0, 200, 100]]
    assert empty.boxes.shape == (0, 4)
    assert (
        read({"boxes": np.zeros((0, 3, 4)), "classes": np.zeros((0, 3)), "scores": np.zeros((0, 3))}, frames=()) == []
    )


def test_a_hundred_thousand_boxes_of_one_image_are_bounded():
    random = np.random.default_rng(0)
    corners = random.uniform(0, 25, (1, 100_000, 4)).astype(np.float32)
    corners[..., 2:] += corners[..., :2]
    tensors = {"boxes": corners, "scores": random.random((1, 100_000, 3))}
    (found,) = read(tensors, PIXELS)
    assert len(found.scores) == MOST_CANDIDATES
    assert (np.diff(found.scores) <= 0).all()
    assert found.scores[-1] == pytest.approx(0.9, abs=0.01)
    (found,) = read(tensors, PIXELS, NMS)
    assert len(found.scores) <= 300
    with pytest.raises(ModelError, match="200,000 boxes for one image; at most 131,072"):
        read({"boxes": np.zeros((1, 200_000, 4)), "scores": np.zeros((1, 200_000, 1))})


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 30), st.integers(1, 4), st.integers(0, 2**31))
def test_what_is_kept_passes_the_threshold_and_comes_by_score(boxes, classes, seed):
    random = np.random.default_rng(seed)
    start = random.uniform(-10, 50, (1, boxes, 2))
    tensors = {
        "boxes": np.concatenate([start, start + random.uniform(0, 30, (1, boxes, 2))], axis=2),
        "scores": random.integers(0, 5, (1, boxes, classes)) / 4,  # with ties
    }
    (all_,), (some,) = read(tensors, {**PIXELS, "threshold": 0.5}), read(tensors, {**PIXELS, "threshold": 0.5}, NMS)
    assert len(all_.scores) == (tensors["scores"] >= 0.5).sum()
    assert (all_.scores >= 0.5).all()
    assert (np.diff(all_.scores) <= 0).all()
    assert (all_.boxes[:, 2:] >= 0).all()
    listed = {
        (*box, number, score) for box, number, score in zip(all_.boxes.tolist(), all_.classes, all_.scores, strict=True)
    }
    kept = [
        (*box, number, score) for box, number, score in zip(some.boxes.tolist(), some.classes, some.scores, strict=True)
    ]
    assert set(kept) <= listed
    # The best box of each class is never suppressed.
    assert set(some.classes) == set(all_.classes)


@pytest.mark.parametrize(
    ("tensors", "steps", "sentence"),
    [
        (lists([[0, 0, np.nan, 1]], [0], [0.5]), (), r"Box 0 is \[0.0, 0.0, nan, 1.0\]; its numbers must be finite"),
        (lists([[0, 0, 1, 1]], [0], [np.nan]), (), "The score of box 0 is NaN"),
        (lists([[0, 0, 1, 1]], [0], [7.5]), (), "gives a score of 7.5; scores lie between 0 and 1"),
        (lists([[0, 0, 1, 1]], [0], [-4]), (), "gives a score of -4; scores lie between 0 and 1"),
        (lists([[0, 0, 1, 1]], [1.5], [0.5]), (), "gives 1.5 as the number of a class"),
        (lists([[0, 0, 1, 1]], [-1], [0.5]), (), "gives -1 as the number of a class"),
        (lists([[0, 0, 1, 1]], [np.nan], [0.5]), (), "gives nan as the number of a class"),
        (lists([[0, 0, 1, 1]], [0], [0.5], count=[2]), (), "found 2 boxes, in a list of 1"),
        (lists([[0, 0, 1, 1]], [0], [0.5], count=[np.nan]), (), "found nan boxes, in a list of 1"),
        (lists([[5, 0, 1, 1]], [0], [0.5]), (), "read as left, top, right, bottom, a side is negative"),
        (lists([[0, 0, 1e9, 1]], [0], [0.5]), (), r"reaches 4e\+09 pixels from the image's corner"),
        (lists([[0, 0, 1]], [0], [0.5]), (), r"boxes has shape 1×1×3; expected \[batch, boxes, 4\]"),
        ({"predictions": [[0, 0, 0, 1, 1, 0, 0.5]]}, (), r"predictions has shape 1×7; expected \[batch, boxes, 4 \+"),
        ({"predictions": np.zeros((1, 8, 8400))}, (), r"expected \[batch, boxes, 4 \+ scores\] \(transposed: false\)"),
        ({"predictions": np.zeros((1, 9, 4))}, (), r"predictions has shape 1×9×4"),
        ({"boxes": [[[0, 0, 1, 1]]], "scores": [[[1.0]]]}, ({**PIXELS, "background": "first"},), "no score of any"),
        ({"boxes": np.zeros((2, 1, 4)), "scores": np.zeros((2, 1, 1))}, (), "has 2 rows for a batch of 1"),
    ],
)  # fmt: skip
def test_what_a_model_cannot_mean_is_refused(tensors, steps, sentence):
    with pytest.raises(ModelError, match=sentence):
        read(tensors, *steps)


def test_a_box_without_meaning_that_no_score_points_to_is_not_looked_at():
    (found,) = read(lists([[0, 0, 1, 1], [np.nan] * 4], [0, 0], [0.5, 0.0]))
    assert len(found.scores) == 1


@pytest.mark.parametrize(
    ("roles", "step", "sentence"),
    [
        (("boxes",), {}, "parts boxes do not make up boxes"),
        (("predictions", "count"), {}, "parts count, predictions do not make up boxes"),
        (("boxes", "scores", "count"), {}, "do not make up boxes"),
        (("boxes", "scores"), {"transposed": True}, "transposed has no meaning for boxes that are given as scored"),
        (("boxes", "scores", "classes"), {"activation": "sigmoid"}, "activation has no meaning .* finished lists"),
        (("boxes", "scores", "classes"), {"background": "last"}, "background: last has no meaning"),
        (("predictions",), {"finished": True, "objectness": True}, "objectness has no meaning"),
        (("predictions",), {"objectness": True, "activation": "softmax"}, "Scores with objectness are sigmoids"),
    ],
)
def test_a_declaration_without_a_meaning_is_refused_before_anything_runs(roles, step, sentence):
    with pytest.raises(ManifestError, match=sentence):
        reader(roles, {**PIXELS, **step})


def test_labels_must_be_as_many_as_the_model_has_classes():
    scored = {"boxes": [[[0, 0, 1, 1]]], "scores": [[[0.5, 0.5, 0.5]]]}
    with pytest.raises(ManifestError, match="has 2 labels, but the model scores 3 classes"):
        read(scored, labels=("cat", "dog"))
    assert len(read(scored, {**PIXELS, "background": "first"}, labels=("cat", "dog"))[0].scores) == 2
    with pytest.raises(ManifestError, match="answers class 2, but the manifest has 2 labels"):
        read(lists([[0, 0, 1, 1]], [2], [0.5]), labels=("cat", "dog"))
    one_based = {**PIXELS, "background": "first"}
    assert read(lists([[0, 0, 1, 1]], [2], [0.5]), one_based, labels=("cat", "dog"))[0].classes.tolist() == [1]


@pytest.mark.parametrize(
    ("task", "steps", "sentence"),
    [
        ("detection", [], "task: detection needs a step that says what a box is"),
        ("classification", [PIXELS], "boxes is for boxes: say task: detection"),
        ("detection", [NMS, PIXELS], "each step of a detection comes at most once"),
        ("detection", [PIXELS, PIXELS], "each step of a detection comes at most once"),
        ("detection", [{"op": "boxes", "format": "xyxy"}], "boxes needs format .* and units"),
        ("detection", [{"op": "yolox_grid"}, PIXELS], "yolox_grid says what a box is: leave format and units out"),
        ("detection", [PIXELS, {"op": "softmax"}], "softmax, select, drop_leading and divide are for scores"),
        ("detection", [PIXELS, {"op": "nms", "iou": 0.5, "most": 301}], "less than or equal to 300"),
    ],
)  # fmt: skip
def test_steps_that_do_not_go_together_are_no_manifest(task, steps, sentence):
    with pytest.raises(ValueError, match=sentence):
        Output(task=task, postprocess=steps)
