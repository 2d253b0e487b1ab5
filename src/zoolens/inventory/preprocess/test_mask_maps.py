import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.preprocess import mask_maps
from zoolens.inventory.preprocess.letterbox import framing, mask_onto
from zoolens.inventory.preprocess.mask_maps import map_reader


def read(raw, frame=None, half=0.0, **step):
    return map_reader(Masks(op="masks", **step), half)(np.asarray(raw), frame)


def lifted(planes, height, width):
    """Bilinear interpolation as torch.nn.functional.interpolate(align_corners=False) defines it, pixel by pixel."""
    count, rows, columns = planes.shape
    result = np.zeros((count, height, width))
    for y in range(height):
        for x in range(width):
            down, across = (
                max((place + 0.5) * have / want - 0.5, 0)
                for place, have, want in ((y, rows, height), (x, columns, width))
            )
            top, left = int(down), int(across)
            below, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            v, u = down - top, across - left
            upper = (1 - u) * planes[:, top, left] + u * planes[:, top, right]
            lower = (1 - u) * planes[:, below, left] + u * planes[:, below, right]
            result[:, y, x] = (1 - v) * upper + v * lower
    return result


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("image", [(9, 14), (4, 3), (6, 5)])
def test_scores_are_interpolated_before_the_highest_is_taken(layout, image, monkeypatch):
    monkeypatch.setattr(mask_maps, "_BAND", 40)  # so that there are several bands of rows
    planes = np.random.default_rng(0).normal(size=(3, 6, 5)).astype(np.float32)
    raw = planes if layout == "NCHW" else planes.transpose(1, 2, 0)
    # The canvas is larger than the map: a network that gives every fourth pixel.
    found = read(raw, framing("stretch", image, (24, 20)), layout=layout)
    np.testing.assert_array_equal(found, lifted(planes, *image).argmax(axis=0))


@pytest.mark.parametrize("fit", ["letterbox", "top_left"])
def test_the_padding_of_a_letterbox_is_cut_off_before_scores_return_to_the_image(fit):
    planes = np.random.default_rng(1).normal(size=(3, 8, 8)).astype(np.float32)
    frame = framing(fit, (10, 20), (16, 16))
    on_canvas = lifted(planes, 16, 16)[:, frame.window[0], frame.window[1]]
    np.testing.assert_array_equal(read(planes, frame, layout="NCHW"), lifted(on_canvas, 10, 20).argmax(axis=0))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["stretch", "letterbox", "top_left"]),
    st.integers(3, 9),
    st.integers(3, 9),
)
def test_numbers_return_to_where_they_came_from(seed, fit, height, width):
    mask = np.random.default_rng(seed).integers(0, 4, (height, width))
    frame = framing(fit, (height, width), (16, 16))
    np.testing.assert_array_equal(read(mask_onto(mask, frame, 9), frame), mask)


def test_a_map_that_is_smaller_than_the_canvas_covers_all_of_it():
    frame = framing("top_left", (4, 8), (8, 8))
    small = np.array([[1, 2], [3, 3]])
    np.testing.assert_array_equal(read(small, frame), np.repeat(np.repeat([[1, 2]], 4, 0), 4, 1))


def test_without_a_frame_a_map_is_kept_as_it_is():
    scores = np.array([[[0.1, 5]], [[3, 2]]])
    assert read(scores, layout="NCHW").tolist() == [[1, 0]]
    assert read([[2.0, 0.0]]).tolist() == [[2, 0]]
    assert read([[[2], [7]], [[1], [0]]]).tolist() == read([[[2, 7], [1, 0]]]).tolist() == [[2, 7], [1, 0]]


def test_a_single_score_is_that_of_class_1():
    assert read([[[-1.0, 0.0, 0.4, 2.0]]], layout="NCHW").tolist() == [[0, 0, 1, 1]]
    assert read([[[0.5], [0.6]]], half=0.5, layout="NHWC").tolist() == [[0, 1]]


def test_dropped_classes_are_never_answered_and_others_keep_their_numbers():
    scores = np.array([9.0, 1, 2]).reshape(3, 1, 1)
    assert read(scores, layout="NCHW", drop=[0]).tolist() == [[2]]
    assert read(scores, layout="NCHW", drop=[0, 2]).tolist() == [[1]]
    with pytest.raises(ManifestError, match="classes 0 to 2"):
        read(scores, layout="NCHW", drop=[3])
    with pytest.raises(ManifestError, match="classes 0 to 2"):
        read(scores, layout="NCHW", drop=[0, 1, 2])


@pytest.mark.parametrize(
    ("raw", "step", "sentence"),
    [
        (np.zeros((3, 4, 5)), {}, r"shape 3×4×5 for one input, which is no map of class numbers"),
        (np.zeros((4, 5)), {"layout": "NCHW"}, r"shape 4×5 for one input; layout NCHW has three axes"),
        (np.array([[0.5]]), {}, "has 0.5 among its numbers of classes"),
        (np.array([[np.nan]]), {}, "NaN or infinite"),
        (np.array([[[np.inf]], [[0]]]), {"layout": "NCHW"}, "NaN or infinite"),
    ],
)
def test_tensors_that_are_no_masks_are_refused_in_words(raw, step, sentence):
    with pytest.raises(ModelError, match=sentence):
        read(raw, **step)


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"resize": "bilinear"}, "numbers of classes cannot be interpolated"),
        ({"drop": [1]}, "drop leaves out scores"),
        ({"layout": "NCHW", "drop": [-1]}, "classes count from 0"),
    ],
)
def test_steps_without_meaning_are_refused(step, sentence):
    with pytest.raises(ValueError, match=sentence):
        Masks(op="masks", **step)
