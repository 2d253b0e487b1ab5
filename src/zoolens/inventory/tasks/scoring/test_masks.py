"""Counts of runs are those of pixels, and figures are those of their definitions, written as plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.inventory.tasks.scoring.mask_figures import (
    FIGURES,
    band_width,
    boundary_band,
    class_iou,
    mask_figures,
    mask_parts,
)
from zoolens.inventory.tasks.scoring.mask_runs import ELSEWHERE, MAX_RUNS, UNJUDGED, mask_runs, overlap

ONCE = np.ones((1, 1), np.int64)


def random_masks(seed, count=3, classes=4, size=(12, 17)):
    """Masks of large patches, some of their pixels without a truth, and answers that are often right."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        true = np.kron(random.integers(0, classes, (3, 6)), np.ones((4, 3), int))[: size[0], : size[1]]
        answered = np.where(random.random(size) < 0.7, true, random.integers(0, classes + 1, size))
        answered[random.random(size) < 0.02] = ELSEWHERE
        true[random.random(size) < 0.1] = UNJUDGED
        yield true, answered


def parts_of(pairs):
    return mask_parts([mask_runs(true) for true, _ in pairs], [mask_runs(answered) for _, answered in pairs])


def figures_of(pairs, weights=None):
    rows = np.ones((1, len(pairs)), np.int64) if weights is None else np.array([weights])
    return dict(zip(FIGURES, mask_figures(parts_of(pairs), rows)[0], strict=True))


def looped(pairs):
    """The same by definition, pixel by pixel."""
    right, true_pixels, answered_pixels, judged = {}, {}, {}, 0
    for true, answered in pairs:
        for t, a in zip(true.ravel().tolist(), answered.ravel().tolist(), strict=True):
            if t == UNJUDGED:
                continue
            judged += 1
            true_pixels[t] = true_pixels.get(t, 0) + 1
            answered_pixels[a] = answered_pixels.get(a, 0) + 1
            right[t] = right.get(t, 0) + (t == a)
    either = set(true_pixels) | set(answered_pixels) - {ELSEWHERE}

    def iou(c):
        hit = right.get(c, 0)
        return hit / (true_pixels.get(c, 0) + answered_pixels.get(c, 0) - hit)

    return {
        "miou": np.mean([iou(c) for c in true_pixels]),
        "miou_or_answered": np.mean([iou(c) for c in either]),
        "pixel_accuracy": sum(right.values()) / judged,
        "mean_accuracy": np.mean([right[c] / true_pixels[c] for c in true_pixels]),
        "fw_iou": sum(true_pixels[c] / judged * iou(c) for c in true_pixels),
        "boundary_iou": looped_boundary_iou(pairs, true_pixels),
    }


def eroded(inside, distance):
    """As OpenCV erodes a mask with a border of 0 around it, `distance` times with a square of 3 × 3."""
    padded = np.pad(inside, distance)
    height, width = inside.shape
    squares = [
        padded[down : down + height, across : across + width]
        for down in range(2 * distance + 1)
        for across in range(2 * distance + 1)
    ]
    return np.logical_and.reduce(squares)


def looped_boundary_iou(pairs, classes):
    """Class by class, as Cheng et al. define it: the IoU of what erosion takes from each of the two masks."""
    shared, union = dict.fromkeys(classes, 0), dict.fromkeys(classes, 0)
    for true, answered in pairs:
        distance = max(1, round(0.02 * np.hypot(*true.shape)))
        judged = true != UNJUDGED
        for c in classes:
            of_true, of_answer = (true == c) & judged, (answered == c) & judged
            first, second = (inside & ~eroded(inside, distance) for inside in (of_true, of_answer))
            shared[c] += (first & second).sum()
            union[c] += (first | second).sum()
    return np.mean([shared[c] / union[c] for c in classes])


@pytest.mark.parametrize("seed", range(8))
def test_figures_are_those_of_their_definitions(seed):
    pairs = list(random_masks(seed))
    found, wanted = figures_of(pairs), looped(pairs)
    for name in FIGURES:
        assert found[name] == pytest.approx(wanted[name], abs=1e-12), name


def test_figures_by_hand():
    true, answered = np.array([[0, 0, 1], [1, UNJUDGED, 2]]), np.array([[0, 1, 1], [1, 3, 0]])
    found = figures_of([(true, answered)])
    assert found["miou"] == pytest.approx((1 / 3 + 2 / 3 + 0) / 3)
    assert found["miou_or_answered"] == found["miou"]  # class 3 was answered only where nothing is judged
    assert found["pixel_accuracy"] == 3 / 5
    assert found["mean_accuracy"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    np.testing.assert_allclose(class_iou(parts_of([(true, answered)]), ONCE)[0, :3], [1 / 3, 2 / 3, 0])


def test_a_class_that_is_only_answered_lowers_one_of_the_two_means():
    found = figures_of([(np.array([[0, 0]]), np.array([[0, 1]]))])
    assert found["miou"] == 0.5
    assert found["miou_or_answered"] == 0.25


def test_a_class_that_the_dataset_lacks_is_a_wrong_answer_and_no_class():
    found = figures_of([(np.array([[0, 0]]), np.array([[0, ELSEWHERE]]))])
    assert found["miou"] == found["miou_or_answered"] == found["pixel_accuracy"] == 0.5


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_counts_an_image_as_often(seed):
    first, second, third = random_masks(seed)
    weighted, repeated = figures_of([first, second, third], [2, 0, 1]), figures_of([first, first, third])
    for name in FIGURES:
        assert weighted[name] == pytest.approx(repeated[name], abs=1e-12)


def test_a_mean_over_classes_is_not_defined_where_a_resample_lacks_one():
    pairs = [(np.array([[0, 0]]), np.array([[0, 0]])), (np.array([[1, 0]]), np.array([[1, 1]]))]
    found = figures_of(pairs, [2, 0])
    for name in ("miou", "miou_or_answered", "mean_accuracy", "boundary_iou"):
        assert np.isnan(found[name])
    assert found["pixel_accuracy"] == found["fw_iou"] == 1
    # Also where what is left answers the class.
    answered = figures_of([(np.array([[0, 0]]), np.array([[0, 1]])), pairs[1]], [2, 0])
    assert np.isnan(answered["miou_or_answered"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 14), st.integers(1, 14), st.integers(1, 5))
def test_the_band_along_boundaries_is_what_erosion_takes_from_each_class(seed, classes, height, width, distance):
    mask = np.random.default_rng(seed).integers(0, classes, (height, width))
    wanted = np.logical_or.reduce([(mask == c) & ~eroded(mask == c, distance) for c in range(classes)])
    np.testing.assert_array_equal(boundary_band(mask, distance), wanted)


def test_the_band_is_2_percent_of_the_diagonal_wide_and_at_least_a_pixel():
    assert band_width(480, 640) == 16
    assert band_width(3, 4) == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 9))
def test_runs_are_the_mask_and_overlaps_are_its_pixels(seed, height, width):
    random = np.random.default_rng(seed)
    first, second = random.integers(0, 3, (2, height, width)).astype(np.uint16)
    np.testing.assert_array_equal(mask_runs(first).pixels, first)
    both = overlap(mask_runs(first), mask_runs(second))
    np.testing.assert_array_equal(np.repeat(both.first, both.pixels), first.ravel())
    np.testing.assert_array_equal(np.repeat(both.second, both.pixels), second.ravel())


def test_masks_of_noise_are_refused():
    noise = np.arange(MAX_RUNS + 2, dtype=np.uint16).reshape(2, -1) % 2
    with pytest.raises(ModelError, match=r"changes its class 1,048,57\d times, more than the 1,048,576"):
        mask_runs(noise)
