"""Heads of YOLO that no file has decoded, against loops that are written out from the papers' formulas."""

import math

import numpy as np
import pytest

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.box_outputs import build_boxes
from zoolens.inventory.preprocess.letterbox import framing
from zoolens.inventory.runtimes.runtime import TensorSpec

CANVAS, CLASSES = (64, 96), 3
FRAME = framing("stretch", CANVAS, CANVAS)
# Of YOLOv5, as its files list them: pairs of width and height.
ANCHORS = [[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119], [116, 90, 156, 198, 373, 326]]
STRIDES = {"p3": 8, "p4": 16, "p5": 32}
SIGMOID = {"op": "boxes", "activation": "sigmoid", "threshold": 0.5}


def read(heads, *steps, canvas=FRAME):
    output = Output(task="detection", parts={role: role for role in heads}, postprocess=steps)
    reader = build_boxes(output, {role: TensorSpec(role, (None,), "float32") for role in heads})
    (found,) = reader({role: np.asarray(values, np.float32) for role, values in heads.items()}, [canvas])
    return found


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def anchored(numbers=5 + CLASSES, seed=0):
    """Heads of three anchors: [1, anchors, rows, columns, numbers]."""
    random = np.random.default_rng(seed)
    return {
        level: random.normal(0, 2, (1, 3, CANVAS[0] // stride, CANVAS[1] // stride, numbers)).astype(np.float32)
        for level, stride in STRIDES.items()
    }


def loop(heads, decoding):
    """Score, class and left, top, width, height of every box that is at least 0.5, one at a time."""
    found = []
    for place, (level, stride) in enumerate(STRIDES.items()):
        head = heads[level][0].astype(float)
        for anchor in range(3):
            width, height = ANCHORS[place][2 * anchor : 2 * anchor + 2]
            for row in range(head.shape[1]):
                for column in range(head.shape[2]):
                    x, y, w, h, object_, *scores = head[anchor, row, column]
                    if decoding == "yolov5":
                        centre = ((2 * sigmoid(x) - 0.5 + column) * stride, (2 * sigmoid(y) - 0.5 + row) * stride)
                        sides = ((2 * sigmoid(w)) ** 2 * width, (2 * sigmoid(h)) ** 2 * height)
                    else:
                        centre = ((sigmoid(x) + column) * stride, (sigmoid(y) + row) * stride)
                        sides = (math.exp(w) * width, math.exp(h) * height)
                    left, top = centre[0] - sides[0] / 2, centre[1] - sides[1] / 2
                    for number, score in enumerate(scores):
                        if (both := sigmoid(object_) * sigmoid(score)) >= 0.5:
                            found.append((both, number, left, top, *sides))
    return sorted(found, reverse=True)


def assert_same(found, wanted):
    assert len(found.scores) == len(wanted) > 20
    table = np.array(wanted)
    np.testing.assert_allclose(found.scores, table[:, 0], rtol=1e-5)
    assert found.classes.tolist() == table[:, 1].astype(int).tolist()
    np.testing.assert_allclose(found.boxes, table[:, 2:], rtol=1e-4, atol=1e-3)


def channels_first(head):
    n, anchors, rows, columns, numbers = head.shape
    return head.transpose(0, 1, 4, 2, 3).reshape(n, anchors * numbers, rows, columns)


LAYOUTS = {
    "NAHWC": lambda head: head,
    "NCHW": channels_first,
    "NHWC": lambda head: channels_first(head).transpose(0, 2, 3, 1),
}


@pytest.mark.parametrize("decoding", ["yolov5", "yolov3"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_heads_with_anchors_against_a_loop(layout, decoding):
    heads = anchored()
    step = {"op": "yolo_anchors", "anchors": ANCHORS, "layout": layout, "decoding": decoding}
    given = {level: LAYOUTS[layout](head) for level, head in heads.items()}
    assert_same(read(given, step, {**SIGMOID, "objectness": True}), loop(heads, decoding))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_distributions_of_distances_against_a_loop(layout):
    random, bins = np.random.default_rng(1), 16
    heads, wanted = {}, []
    for level, stride in STRIDES.items():
        rows, columns = CANVAS[0] // stride, CANVAS[1] // stride
        head = random.normal(0, 2, (4 * bins + CLASSES, rows, columns)).astype(np.float32)
        heads[level] = (head if layout == "NCHW" else head.transpose(1, 2, 0))[None]
        for row in range(rows):
            for column in range(columns):
                numbers = head[:, row, column].astype(float)
                sides = []
                for side in range(4):
                    powers = [math.exp(value) for value in numbers[side * bins : (side + 1) * bins]]
                    sides.append(sum(place * power for place, power in enumerate(powers)) / sum(powers))
                left, top, right, bottom = sides
                x, y = (column + 0.5 - left) * stride, (row + 0.5 - top) * stride
                for number, score in enumerate(numbers[4 * bins :]):
                    if sigmoid(score) >= 0.5:
                        wanted.append((sigmoid(score), number, x, y, (left + right) * stride, (top + bottom) * stride))
    assert_same(read(heads, {"op": "dfl", "layout": layout}, SIGMOID), sorted(wanted, reverse=True))


def test_heads_are_suppressed_and_brought_back_into_the_image():
    heads = {level: np.full((1, 3, 8 * 8 // stride, 8 * 8 // stride, 6), -9.0) for level, stride in STRIDES.items()}
    heads["p3"][0, 1, 2, 3] = [0, 0, 0, 0, 9, 9]  # centre (3.5, 2.5) × 8, sides of the second anchor
    heads["p3"][0, 1, 2, 4] = [-9, 0, 0, 0, 8, 9]  # half a cell to the left of the next: nearly the same box
    step = {"op": "yolo_anchors", "anchors": ANCHORS}
    twice = framing("stretch", (128, 128), (64, 64))
    found = read(heads, step, {**SIGMOID, "objectness": True}, {"op": "nms", "iou": 0.5}, canvas=twice)
    np.testing.assert_allclose(found.boxes, [[2 * (28 - 8), 2 * (20 - 15), 32, 60]], rtol=1e-3)


def test_what_does_not_fit_is_refused_in_words():
    heads, step = anchored(), {"op": "yolo_anchors", "anchors": ANCHORS}
    scored = {**SIGMOID, "objectness": True}
    with pytest.raises(ManifestError, match="anchors for 3 levels, but parts names p3, p4"):
        read({level: heads[level] for level in ("p3", "p4")}, step, scored)
    with pytest.raises(ModelError, match="p3 has 4 × 6 cells, but a canvas of 64 × 96 pixels has 8 × 12 of stride 8"):
        read({"p3": heads["p4"], "p4": heads["p3"], "p5": heads["p5"]}, step, scored)
    ten = [[*row, 1, 1, 2, 2] for row in ANCHORS]
    with pytest.raises(ModelError, match="24 channels, which 5 anchors do not divide"):
        read({k: channels_first(v) for k, v in heads.items()}, {**step, "anchors": ten, "layout": "NCHW"}, scored)
    with pytest.raises(ModelError, match=r"3×8×12×8 for an image, not 3 axes \(CHW\)"):
        read(heads, {**step, "layout": "NCHW"}, scored)
    with pytest.raises(ManifestError, match="belong to a step that decodes them: yolo_anchors or dfl"):
        read(heads, {"op": "boxes", "format": "xyxy", "units": "pixels"})
    with pytest.raises(ManifestError, match="objectness has no meaning"):
        read(heads, {"op": "dfl"}, scored)
    with pytest.raises(ModelError, match="has 3 anchors, but the manifest declares 2"):
        read(heads, {**step, "anchors": [row[:4] for row in ANCHORS]}, scored)
    with pytest.raises(ModelError, match=r"gives a score of .* scores lie between 0 and 1"):
        read(heads, step, {"op": "boxes", "objectness": True})
    broken = {**heads, "p4": np.full_like(heads["p4"], np.nan)}
    with pytest.raises(ModelError, match="NaN"):
        read(broken, step, scored)
    far = {level: np.full_like(head, 9e2) for level, head in heads.items()}
    with pytest.raises(ModelError, match="must be finite"):
        read(far, {**step, "decoding": "yolov3"}, scored)
    for wrong, words in (([[1, 2, 3]], "a width and a height"), ([[0, 4]], "between 0 and 65536")):
        with pytest.raises(ValueError, match=words):
            Output(task="detection", postprocess=[{**step, "anchors": wrong}, scored])
