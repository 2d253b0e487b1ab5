import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from zoolens.base.errors import DatasetError, ModelError
from zoolens.inventory.tasks.scoring.mask_confusion import confusion, mask_figures
from zoolens.inventory.tasks.scoring.run_lengths import area, decode, encode, from_text, to_text


def test_counts_and_figures_by_hand():
    true, answered = np.array([[0, 0, 1], [1, 9, 2]]), np.array([[0, 1, 1], [1, 0, 0]])
    counts = confusion(true, answered, 4, ignore=9)
    assert counts.tolist() == [[1, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    figures = mask_figures([counts])
    np.testing.assert_allclose(figures.iou, [1 / 3, 2 / 3, 0, np.nan])
    assert figures.mean_iou == pytest.approx(1 / 3)
    assert figures.mean_iou_of_true == pytest.approx(1 / 3)
    assert figures.pixel_accuracy == 3 / 5


def test_a_class_that_is_only_answered_lowers_one_of_the_two_means():
    figures = mask_figures([confusion(np.array([0, 0]), np.array([0, 1]), 2)])
    assert figures.mean_iou == 0.25
    assert figures.mean_iou_of_true == 0.5


def test_a_weight_counts_an_image_as_often():
    random = np.random.default_rng(0)
    parts = [confusion(*random.integers(0, 3, (2, 5, 5)), 3) for _ in range(3)]
    weighted, repeated = mask_figures(parts, [2, 0, 1]), mask_figures([parts[0], parts[0], parts[2]])
    assert weighted.mean_iou == repeated.mean_iou
    assert weighted.pixel_accuracy == repeated.pixel_accuracy


def test_images_without_pixels_that_count_have_no_figures():
    nothing = confusion(np.full((2, 2), 255), np.zeros((2, 2), int), 3, ignore=255)
    assert np.isnan(mask_figures([nothing]).mean_iou)
    assert np.isnan(mask_figures([nothing]).pixel_accuracy)


@pytest.mark.parametrize(
    ("true", "answered", "error", "sentence"),
    [
        (np.array([3]), np.array([0]), DatasetError, "The true mask has class 3; classes are 0 to 2."),
        (np.array([0]), np.array([-1]), ModelError, "The model's mask has class -1; classes are 0 to 2."),
        (np.array([0]), np.array([0.0]), ModelError, "numbers of type float64; classes are integers."),
        (np.array([0, 1]), np.array([0]), ModelError, "has shape (1,), the true one (2,)."),
    ],
)
def test_masks_without_meaning_are_refused(true, answered, error, sentence):
    with pytest.raises(error) as refused:
        confusion(true, answered, 3)
    assert sentence in str(refused.value)


def test_weights_classes_and_lists_without_meaning_are_refused():
    part = np.eye(2, dtype=np.int64)
    for weights in ([0.5], [-1], [1, 1]):
        with pytest.raises(DatasetError, match="Weights must be 1 integers"):
            mask_figures([part], weights)
    with pytest.raises(DatasetError, match="There are no masks"):
        mask_figures([])
    with pytest.raises(DatasetError, match="1 to 4,096 classes; got 5000"):
        confusion(np.array([0]), np.array([0]), 5000)


@settings(max_examples=100, deadline=None)
@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=20)))
def test_masks_survive_runs_and_text(mask):
    runs = encode(mask)
    assert (decode(from_text(to_text(runs)), mask.shape) == mask).all()
    assert area(runs) == mask.sum()


def test_runs_and_text_are_those_of_pycocotools():
    """`pycocotools.mask.encode(np.asfortranarray(mask))["counts"]` of version 2.0.11."""
    small = np.zeros((5, 7), np.uint8)
    small[1:4, 2:6] = small[0, 0] = 1
    assert encode(small).tolist() == [0, 1, 10, 3, 2, 3, 2, 3, 2, 3, 6]
    assert to_text(encode(small)) == "01:2H000004"
    large = np.zeros((300, 200), np.uint8)
    large[20:290, 10:180:3] = large[100:110] = 1
    text = to_text(encode(large))
    assert text.startswith("T3:R900000000000000000`MT8lLlGd50`MT8lLl")
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "f15fbefe318be90e505b012a4df8242c07d67e07564248fab021fe643b92ab9b"
    )


@pytest.mark.parametrize("text", ["P", "é", "0\n", "oooooooooo0", "@", "111A", "\x00"])
def test_damaged_text_is_refused(text):
    with pytest.raises(DatasetError, match="The text of a mask"):
        from_text(text)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=[chr(c) for c in range(40, 120)], max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        runs = from_text(text)
    except DatasetError:
        return
    assert (runs >= 0).all()


@pytest.mark.parametrize("runs", [[3], [5], [-1, 5], [2**63 - 1, 2**63 - 1, 6], [1.5, 2.5], [[4]]])
def test_runs_that_do_not_make_the_mask_are_refused(runs):
    with pytest.raises(DatasetError):
        decode(runs, (2, 2))


def test_sizes_beyond_all_masks_are_refused():
    with pytest.raises(DatasetError, match="cannot be made"):
        decode([1 << 60], (1 << 30, 1 << 30))
    assert decode([], (0, 3)).shape == (0, 3)
