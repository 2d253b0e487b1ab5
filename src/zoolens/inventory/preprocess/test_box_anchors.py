import math

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.manifests.schema_boxes import SsdAnchors, YoloxGrid
from zoolens.inventory.preprocess.box_anchors import anchor_boxes, decoded

MOBILENET = SsdAnchors(op="ssd_anchors", strides=(16, 32, 64, 128, 256, 512))
BLAZEFACE = SsdAnchors(
    op="ssd_anchors", strides=(8, 16, 16, 16), min_scale=0.1484375, max_scale=0.75, aspect_ratios=(1.0,),
    reduce_lowest=False, fixed_size=True, order="xywh", variances=(1 / 128,) * 4, exponential=False,
)  # fmt: skip


def test_anchors_of_ssd_mobilenet_are_those_of_tensorflow():
    """1,917 anchors of SSD MobileNet at 300 × 300; scales are 0.2 to 0.95 in six steps, as in its configuration."""
    anchors = anchor_boxes(MOBILENET, (300, 300))
    assert anchors.shape == (19 * 19 * 3 + (10 * 10 + 5 * 5 + 3 * 3 + 2 * 2 + 1) * 6, 4) == (1917, 4)
    np.testing.assert_allclose(anchors[0], [0.5 / 19, 0.5 / 19, 0.1, 0.1])
    np.testing.assert_allclose(anchors[1], [0.5 / 19, 0.5 / 19, 0.2 * math.sqrt(2), 0.2 / math.sqrt(2)])
    np.testing.assert_allclose(anchors[3], [1.5 / 19, 0.5 / 19, 0.1, 0.1])
    np.testing.assert_allclose(anchors[-1], [0.5, 0.5, math.sqrt(0.95), math.sqrt(0.95)])
    np.testing.assert_allclose(anchors[-6], [0.5, 0.5, 0.95, 0.95])
    np.testing.assert_allclose(anchors[19 * 19 * 3 + 5, 2:], math.sqrt(0.35 * 0.5))


def test_anchors_of_blazeface_share_the_cells_of_layers_with_one_stride():
    """896 anchors at 128 × 128: two a cell of 16 × 16, six a cell of 8 × 8."""
    anchors = anchor_boxes(BLAZEFACE, (128, 128))
    assert anchors.shape == (16 * 16 * 2 + 8 * 8 * 6, 4) == (896, 4)
    assert (anchors[:, 2:] == 1).all()
    np.testing.assert_allclose(anchors[512:518, :2], 0.5 / 8)
    np.testing.assert_allclose(anchors[518, :2], [1.5 / 8, 0.5 / 8])
    box = decoded(np.tile([64.0, 0, 32, 16], (896, 1)), np.array([512]), BLAZEFACE, (128, 128))
    np.testing.assert_allclose(box, [[64 + 8, 8, 32, 16]])


def test_an_encoded_box_is_decoded_as_the_detection_postprocess_of_tensorflow_lite_does():
    encoded = np.zeros((1917, 4), np.float32)
    encoded[1] = [1.0, -2.0, 5.0, 0.5]  # y, x, log height, log width, in tenths and fifths
    x, y, width, height = anchor_boxes(MOBILENET, (300, 300))[1]
    wanted = [
        300 * (-0.2 * width + x), 300 * (0.1 * height + y), 300 * math.exp(0.1) * width, 300 * math.e * height,
    ]  # fmt: skip
    np.testing.assert_allclose(decoded(encoded, np.array([1]), MOBILENET, (300, 300)), [wanted])
    # A canvas that is not square: x and widths belong to the second side.
    wide = decoded(np.zeros((3 * 2 * 3, 4)), np.array([0]), SsdAnchors(op="ssd_anchors", strides=(16,)), (32, 48))
    np.testing.assert_allclose(wide, [[8, 8, 4.8, 3.2]])


def test_a_grid_of_yolox_counts_in_strides_from_the_corner_of_a_cell():
    grid = YoloxGrid(op="yolox_grid")
    encoded = np.zeros((8400, 4), np.float32)
    encoded[6400 + 41] = [0.25, 0.5, math.log(2), 0]
    box = decoded(encoded, np.array([81, 6400 + 41, 8399]), grid, (640, 640))
    np.testing.assert_allclose(box, [[8, 8, 8, 8], [1.25 * 16, 1.5 * 16, 32, 16], [608, 608, 32, 32]], rtol=1e-6)


def test_another_number_of_boxes_and_too_many_anchors_are_refused():
    with pytest.raises(ModelError, match="has 10 boxes for an image, but the step ssd_anchors makes 1,917 of a canvas"):
        decoded(np.zeros((10, 4)), np.array([0]), MOBILENET, (300, 300))
    with pytest.raises(ModelError, match="more than 131,072 boxes"):
        anchor_boxes(YoloxGrid(op="yolox_grid", strides=(1,)), (4096, 4096))
    with pytest.raises(ValueError, match="a stride must lie between 1 and 65536"):
        YoloxGrid(op="yolox_grid", strides=(0,))
    with pytest.raises(ValueError, match=r"an aspect ratio must lie between 0\.01 and 100"):
        SsdAnchors(op="ssd_anchors", strides=(8,), aspect_ratios=(0.0,))
