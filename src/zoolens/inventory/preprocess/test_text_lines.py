"""Lines of text at one height: widths, padding, and the refusal of what has no way back."""

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import ResizeHeight
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.text_lines import line_width, place_line
from zoolens.inventory.runtimes.runtime import TensorSpec

STEP = ResizeHeight(op="resize_height", height=48, width=(320, 640), fill=127.5)


def prepare(*steps, shape=(None, 3, 48, None)):
    spec = Input(shape=shape, preprocess=steps)
    return build_prepare(spec, TensorSpec("x", shape, "float32"))


@pytest.mark.parametrize(
    ("size", "width"),
    [((48, 100), 100), ((96, 101), 51), ((10, 1000), 640), ((480, 1), 1), ((31, 90), 140), ((31, 290), 449)],
)
def test_widths_are_rounded_as_paddleocr_does(size, width):
    """resize_norm_img: imgW = int(48 * max(320 / 48, w / h)); resized_w = min(imgW, ceil(48 * w / h))."""
    assert line_width(*size, STEP) == width


def test_padding_is_on_the_right_and_may_lie_between_two_grey_levels():
    line = place_line(np.full((24, 50, 3), 200, np.uint8), STEP)
    assert line.shape == (48, 320, 3)
    assert (line[:, :100] == 200).all()
    assert (line[:, 100:] == 127.5).all()
    made = prepare(STEP, {"op": "normalize", "scale": 1 / 127.5, "mean": [1]})(np.full((24, 50, 3), 255, np.uint8))
    np.testing.assert_allclose(made[:, :, :100], 1, atol=1e-6)
    np.testing.assert_allclose(made[:, :, 100:], 0, atol=1e-6)


def test_images_differ_in_width_unless_both_limits_are_equal():
    assert prepare(STEP).uneven
    assert not prepare(STEP.model_copy(update={"width": (320, 320)})).uneven
    assert not prepare(STEP, {"op": "resize", "size": [48, 320]}).uneven


def test_what_has_no_meaning_is_refused():
    with pytest.raises(DatasetError, match="0 × 5 pixels holds no text"):
        line_width(5, 0, STEP)
    with pytest.raises(ValueError, match="the least and the largest one"):
        ResizeHeight(op="resize_height", height=48, width=(10, 5))
    with pytest.raises(ManifestError, match="cannot be brought back into the image after resize_height"):
        prepare(STEP).framing((10, 10))
