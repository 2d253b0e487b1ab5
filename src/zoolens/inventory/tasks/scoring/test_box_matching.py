"""Figures equal those of pycocotools 2.0.11, which is not installed here: literals that it computed, and a slow
reference that follows its loops line by line."""

import json
from dataclasses import astuple

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError, ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.tasks.scoring.box_curves import RECALLS
from zoolens.inventory.tasks.scoring.box_figures import BoxAccumulator
from zoolens.inventory.tasks.scoring.box_lists import MAX_BOXES, detections, truths
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, match_boxes
from zoolens.inventory.tasks.scoring.box_parts import BoxParts
from zoolens.inventory.tasks.scoring.box_pools import LIMITS

DETECTION = ASSETS / "tasks" / "detection"
KNOWN = [1, 3, 7]


def dataset(seed):
    """A few images on a coarse grid, so that scores, overlaps and areas tie often: (truths, detections) of each."""
    random = np.random.default_rng(seed)
    images = []
    for _ in range(random.integers(1, 6)):
        count, found = random.integers(0, 12), random.integers(0, [30, 260][seed % 2])
        step = random.choice([1, 4, 12])
        boxes = np.c_[random.integers(0, 6, (count, 2)) * 4, random.integers(0, 6, (count, 2)) * 4 * step]
        guesses = np.c_[random.integers(0, 6, (found, 2)) * 4, random.integers(0, 6, (found, 2)) * 4 * step]
        if count and found:
            copied = random.random(found) < 0.6
            guesses[copied] = boxes[random.integers(0, count, found)][copied]
        areas = boxes[:, 2] * boxes[:, 3] * random.choice([1, 0.5], count)
        crowds = random.random(count) < 0.2
        scores = random.integers(0, 4, found) / 4
        images.append(
            ((boxes, random.choice(KNOWN, count), areas, crowds), (guesses, random.choice(KNOWN, found), scores))
        )
    return images, random.integers(0, 4, len(images))


def parts_of(images):
    return [
        match_boxes(detections(*found, KNOWN), truths(true[0], true[1], KNOWN, areas=true[2], crowds=true[3]))
        for true, found in images
    ]


def reference(images):
    """pycocotools' COCOeval, its loops kept."""
    cells = {
        (label, area): [cell for image in images if (cell := evaluate_image(image, label, AREAS[area]))]
        for label in KNOWN
        for area in AREAS
    }

    def mean(kind, area="all", limit=100, threshold=slice(None)):
        values = [accumulate(cells[label, area], limit, kind) for label in KNOWN]
        known = [value[threshold] for value in values if value is not None]
        return np.mean(np.stack(known, axis=-1)) if known else np.nan

    precision = [mean("p"), mean("p", threshold=0), mean("p", threshold=5)]
    precision += [mean("p", area) for area in ("small", "medium", "large")]
    recall = [mean("r", limit=limit) for limit in LIMITS]
    return [*precision, *recall, *(mean("r", area) for area in ("small", "medium", "large"))]


def iou(d, g, crowd):
    width = min(d[2] + d[0], g[2] + g[0]) - max(d[0], g[0])
    height = min(d[3] + d[1], g[3] + g[1]) - max(d[1], g[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (d[2] * d[3] if crowd else d[2] * d[3] + g[2] * g[3] - width * height)


def evaluate_image(image, label, limits):
    (boxes, classes, areas, crowds), (found, labels, scores) = image
    true = [place for place in range(len(boxes)) if classes[place] == label]
    guesses = [place for place in range(len(found)) if labels[place] == label]
    if not true and not guesses:
        return None
    ignored = {g: bool(crowds[g]) or not limits[0] <= areas[g] <= limits[1] for g in true}
    true.sort(key=lambda g: ignored[g])
    guesses = sorted(guesses, key=lambda d: -scores[d])[:100]
    matched, skipped = np.zeros((10, len(guesses)), bool), np.zeros((10, len(guesses)), bool)
    for row, threshold in enumerate(THRESHOLDS):
        taken = set()
        for place, d in enumerate(guesses):
            best, chosen = min(threshold, 1 - 1e-10), None
            for g in true:
                if g in taken and not crowds[g]:
                    continue
                if chosen is not None and not ignored[chosen] and ignored[g]:
                    break
                overlap = iou(found[d], boxes[g], crowds[g])
                if overlap >= best:
                    best, chosen = overlap, g
            if chosen is not None:
                taken.add(chosen)
                matched[row, place], skipped[row, place] = True, ignored[chosen]
            else:
                skipped[row, place] = not limits[0] <= found[d][2] * found[d][3] <= limits[1]
    return [scores[d] for d in guesses], matched, skipped, sum(not value for value in ignored.values())


def accumulate(cells, limit, kind):
    count = sum(cell[3] for cell in cells)
    if count == 0:
        return None
    scores = np.concatenate([cell[0][:limit] for cell in cells])
    order = np.argsort(-scores, kind="mergesort")
    matched, skipped = (np.concatenate([cell[i][:, :limit] for cell in cells], axis=1)[:, order] for i in (1, 2))
    right, wrong = np.cumsum(matched & ~skipped, axis=1), np.cumsum(~matched & ~skipped, axis=1)
    if kind == "r":
        return right[:, -1] / count if len(order) else np.zeros(10)
    result = np.zeros((10, 101))
    for row in range(10):
        precision = list(right[row] / (wrong[row] + right[row] + np.spacing(1)))
        for i in range(len(precision) - 1, 0, -1):
            precision[i - 1] = max(precision[i - 1], precision[i])
        for column, i in enumerate(np.searchsorted(right[row] / count, RECALLS, side="left")):
            result[row, column] = precision[i] if i < len(precision) else 0
    return result


@pytest.mark.parametrize("seed", range(8))
def test_figures_equal_the_reference_with_images_repeated_by_weight(seed):
    images, weights = dataset(seed)
    accumulator = BoxAccumulator(parts_of(images))
    np.testing.assert_allclose(astuple(accumulator.figures()), reference(images), rtol=1e-13)
    repeated = [image for image, times in zip(images, weights, strict=True) for _ in range(times)]
    np.testing.assert_allclose(astuple(accumulator.figures(weights)), reference(repeated), rtol=1e-13)


@pytest.mark.parametrize("seed", range(0, 24, 4))
def test_many_resamples_at_once_are_each_of_them_alone_bit_for_bit(seed):
    images, _ = dataset(seed)
    accumulator = BoxAccumulator(parts_of(images))
    weights = np.random.default_rng(seed).integers(0, 6, (40, len(images)))
    alone = [astuple(accumulator.figures(row)) for row in weights]
    figures, classes = accumulator.resampled(weights)
    np.testing.assert_array_equal(figures, alone)
    assert accumulator.resampled(weights[:0])[0].shape == (0, 12)
    np.testing.assert_allclose(accumulator.average_precision(weights), figures[:, 0], rtol=1e-13)
    # The AP of all is the mean over the classes that have true boxes.
    known = ~np.isnan(classes).all(axis=1)
    np.testing.assert_allclose(np.nanmean(classes[known], axis=1), figures[known, 0], rtol=1e-12)


@pytest.mark.parametrize("seed", [1, 7, 13])
def test_images_in_pieces_and_few_points_at_once_change_no_bit(seed, monkeypatch):
    images, weights = dataset(seed)
    parts, pieces = parts_of(images), BoxParts()
    rows = np.stack([weights, np.ones(len(images), np.int64), np.roll(weights, 1)])
    figures, classes = BoxAccumulator(parts).resampled(rows)
    for place in range(0, len(parts), 2):
        pieces.add(parts[place : place + 2])
    # One row, and then one threshold at a time: events lie together in memory, and not rows.
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.box_curves._AT_ONCE", 1)
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.box_curves._TABLED", 1)
    again = BoxAccumulator(pieces)
    np.testing.assert_array_equal(again.resampled(rows)[0], figures)
    np.testing.assert_array_equal(again.resampled(rows)[1], classes)


# COCOeval(…, "bbox").stats of the datasets of seeds 2, 5 and 9, images repeated by their weights, categories KNOWN.
PYCOCOTOOLS = {
    2: [1.0, 1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0, -1.0],
    5: [
        0.06601010718066885,
        0.07647829919371944,
        0.06323610833685281,
        0.0,
        0.30801859537742077,
        0.056105610561056105,
        0.0,
        0.352857142857143,
        0.4333333333333334,
        0.0,
        0.9047619047619049,
        0.11111111111111112,
    ],
    9: [
        0.06311881188118812,
        0.06311881188118812,
        0.06311881188118812,
        0.06311881188118812,
        -1.0,
        -1.0,
        0.0,
        0.5,
        0.5,
        0.5,
        -1.0,
        -1.0,
    ],
}


@pytest.mark.parametrize("seed", PYCOCOTOOLS)
def test_figures_are_those_of_pycocotools(seed):
    images, weights = dataset(seed)
    figures = np.nan_to_num(astuple(BoxAccumulator(parts_of(images)).figures(weights)), nan=-1)
    np.testing.assert_allclose(figures, PYCOCOTOOLS[seed], rtol=1e-13)


def one(box, *others, score=0.9, crowds=None):
    """The parts of an image with true boxes of class 1 and one detection."""
    return match_boxes(detections([box], [1], [score], KNOWN), truths(others, [1] * len(others), KNOWN, crowds=crowds))


def test_an_overlap_of_exactly_the_threshold_matches():
    assert one([0, 0, 10, 10], [0, 0, 10, 5]).outcomes[0, :, 0].tolist() == [1, *[0] * 9]


def test_a_crowd_region_is_matched_by_any_number_and_counts_for_nothing():
    found = detections([[0, 0, 10, 10], [20, 0, 10, 10], [200, 0, 10, 10]], [1, 1, 1], [0.9, 0.8, 0.7], KNOWN)
    parts = match_boxes(found, truths([[0, 0, 100, 100]], [1], KNOWN, crowds=[True]))
    assert parts.outcomes[0, 0].tolist() == [-1, -1, 0]
    assert parts.truth_counts[0].tolist() == [0]
    assert np.isnan(BoxAccumulator([parts]).figures().ap)


def test_a_true_box_that_counts_is_preferred_to_a_crowd_of_larger_overlap():
    parts = one([0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 8], crowds=[True, False])
    assert parts.outcomes[0, :, 0].tolist() == [1] * 7 + [-1] * 3


def test_no_images_no_boxes_and_no_detections():
    assert np.isnan(BoxAccumulator([]).figures().ap)
    nothing = match_boxes(detections([], [], [], KNOWN), truths([], [], KNOWN))
    assert np.isnan(BoxAccumulator([nothing]).figures().ar100)
    missed = match_boxes(detections([], [], [], KNOWN), truths([[0, 0, 5, 5]], [3], KNOWN))
    assert BoxAccumulator([missed, nothing]).figures().ap == 0
    assert BoxAccumulator([missed, nothing]).figures().ap_small == 0
    assert np.isnan(BoxAccumulator([missed, nothing]).figures([0, 1]).ap)


def test_boxes_that_stick_out_of_the_image_are_not_clipped():
    true = truths([[-5, -5, 10, 10]], [1], KNOWN, size=(100, 100))
    assert match_boxes(detections([[-5, -5, 10, 10]], [1], [1], KNOWN), true).outcomes[0].all()


def test_a_hundred_thousand_boxes_take_bounded_time_and_memory():
    random = np.random.default_rng(0)
    boxes = random.integers(0, 500, (100_000, 4))
    found = detections(boxes, random.choice(KNOWN, 100_000), random.random(100_000), KNOWN)
    parts = match_boxes(found, truths(boxes, np.ones(100_000), KNOWN))
    assert len(parts.scores) == 300
    assert (parts.outcomes[0, :, :100] == 1).sum() > 200


@pytest.mark.parametrize(
    ("boxes", "classes", "scores", "sentence"),
    [
        ([[0, 0, np.nan, 1]], [1], [1], "box 0 is [0.0, 0.0, nan, 1.0]; its numbers must be finite."),
        ([[0, 0, 1, 1], [5, 5, -2, 1]], [1, 1], [1, 1], "box 1 has width -2 and height 1; neither may be negative."),
        ([[0, 0, 1, 1]], [2], [1], "box 0 has class 2, which is no class of the dataset."),
        ([[0, 0, 1, 1]], [np.nan], [1], "box 0 has class nan, which is no class of the dataset."),
        ([[0, 0, 1, 1]], [1.5], [1], "box 0 has class 1.5, which is no class of the dataset."),
        ([[0, 0, 1, 1]], [1, 1], [1], "one number for each of 1 boxes; got shape (2,)."),
        ([[0, 0, 1, 1]], [1], [np.nan], "score of box 0 is nan; a score must be finite."),
        ([[0, 0, 1, 1]], [1], [1, 1], "has 1 boxes, but scores of shape (2,)."),
        ([[0, 0, 1]], [1], [1], "expected one row of 4 numbers for each box."),
        ([[0, 0, "x", 1]], [1], [1], "boxes are not an array of numbers."),
        (np.zeros((MAX_BOXES + 1, 4)), [1], [1], "number 131,073; at most 131,072 can be scored."),
    ],
)
def test_what_a_model_cannot_mean_is_refused(boxes, classes, scores, sentence):
    with pytest.raises(ModelError) as refused:
        detections(boxes, classes, scores, KNOWN)
    assert sentence in str(refused.value)


def test_what_a_dataset_cannot_mean_is_refused():
    with pytest.raises(DatasetError, match="lies outside its image of 640 × 480 pixels"):
        truths([[0, 480, 5, 5]], [1], KNOWN, size=(480, 640))
    with pytest.raises(DatasetError, match=r"area of box 0 is -1\.0"):
        truths([[0, 0, 5, 5]], [1], KNOWN, areas=[-1])
    with pytest.raises(DatasetError, match="areas of shape"):
        truths([[0, 0, 5, 5]], [1], KNOWN, crowds=[False, True])
    with pytest.raises(DatasetError, match="class 9, which is no class"):
        truths([[0, 0, 5, 5]], [9], KNOWN)


@pytest.mark.parametrize("weights", [[1, 2], [0.5], [-1], [True], [[1]]])
def test_weights_that_are_no_counts_are_refused(weights):
    accumulator = BoxAccumulator([one([0, 0, 5, 5], [0, 0, 5, 5])])
    with pytest.raises(DatasetError, match="Weights must be 1 integers of at least 0"):
        accumulator.figures(weights)


# AP and AP50 in percent, as MANIFEST.json of the assets has them, measured by a script of its own. The boxes depend on
# the kernels: on ARM the first model gives 22.75 and 36.74 with XNNPACK, and 22.57 and 35.68 without; the second 29.18
# and 45.42 with it. Of the boxes with XNNPACK, all twelve figures equal pycocotools' bit for bit.
SSD, EFFICIENTDET = "ssd_mobilenet_v1_coco_300_uint8", "efficientdet_lite0_coco_320_uint8"
MODELS = {
    SSD: (300, 22.69, 36.61),
    EFFICIENTDET: (320, 29.18, 45.42),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [SSD, EFFICIENTDET])
@pytest.mark.skipif(not DETECTION.is_dir(), reason="the reference assets are not here")
def test_real_detectors_have_the_average_precision_that_was_measured(name):
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    side, precision, precision50 = MODELS[name]
    model = litert.Interpreter(str(DETECTION / "models" / f"{name}.tflite"), num_threads=1)
    model.allocate_tensors()
    data = json.loads((DETECTION / "data" / "instances_val50.json").read_text())
    known = [category["id"] for category in data["categories"]]
    parts = []
    for image in sorted(data["images"], key=lambda image: image["id"]):
        size = image["height"], image["width"]
        true = [entry for entry in data["annotations"] if entry["image_id"] == image["id"]]
        parts.append(
            match_boxes(
                detections(*answer(model, DETECTION / "data" / "val2017" / image["file_name"], side, size), known),
                truths(
                    [entry["bbox"] for entry in true],
                    [entry["category_id"] for entry in true],
                    known,
                    areas=[entry["area"] for entry in true],
                    crowds=[entry["iscrowd"] for entry in true],
                    size=size,
                ),
            )
        )
    figures = BoxAccumulator(parts).figures()
    assert 100 * figures.ap == pytest.approx(precision, abs=0.3)
    assert 100 * figures.ap50 == pytest.approx(precision50, abs=0.5)


def answer(model, file, side, size):
    """Boxes, classes and scores of one image: outputs are top, left, bottom and right in [0, 1]."""
    pixels = np.asarray(Image.open(file).convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
    model.set_tensor(model.get_input_details()[0]["index"], pixels[np.newaxis])
    model.invoke()
    corners, classes, scores, count = (model.get_tensor(output["index"])[0] for output in model.get_output_details())
    found = slice(int(count))
    top, left, bottom, right = corners[found].astype(np.float64).T * np.array([*size, *size])[:, np.newaxis]
    return np.stack([left, top, right - left, bottom - top], axis=1), classes[found] + 1, scores[found]


def test_columns_are_as_narrow_as_what_they_hold():
    """Pieces of different widths are joined without a change."""
    labels = [3, 70_000]

    def image(scores, label):
        boxes = np.array([[0, 0, 9, 9], [20, 20, 9, 9]])
        found = detections(boxes, [label] * 2, scores, labels)
        return match_boxes(found, truths(boxes[:1], [label], labels))

    plain, wide = [0.75, 0.5], [0.7, 0.1]  # 0.7 is no float32
    parts = BoxParts()
    parts.add([image(plain, 3)])
    parts.add([image(wide, 70_000), image(plain, 3)])
    plain_found, wide_found, none_found = (parts.of_class(label) for label in (*labels, 4))
    assert (plain_found.score.dtype, wide_found.score.dtype) == (np.float32, np.float64)
    assert (plain_found.score.tolist(), wide_found.score.tolist()) == ([*plain, *plain], wide)
    assert (plain_found.image.tolist(), wide_found.image.tolist()) == ([0, 0, 2, 2], [1, 1])
    assert not len(none_found.image)


@pytest.mark.parametrize("seed", [1, 7, 13])
def test_many_detections_lie_in_files_and_change_no_bit(seed, monkeypatch):
    images, weights = dataset(seed)
    rows = np.stack([weights, np.ones(len(images), np.int64), 3 * weights])
    in_memory = BoxAccumulator(parts_of(images))
    figures, classes = in_memory.resampled(rows)
    # Each image is written by itself, all are on the disk, and so are the smallest arrays.
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.box_parts._IN_MEMORY", 1)
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.box_parts._AT_ONCE", 0)
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.array_file._LEAST", 1)
    pieces = BoxParts()
    for part in parts_of(images):
        pieces.add([part])
    assert pieces.are_many
    in_files = BoxAccumulator(pieces)
    for _ in range(2):  # what rested is read again
        np.testing.assert_array_equal(in_files.resampled(rows)[0], figures)
        np.testing.assert_array_equal(in_files.resampled(rows)[1], classes)
    np.testing.assert_array_equal(in_files.images_with_truth, in_memory.images_with_truth)
