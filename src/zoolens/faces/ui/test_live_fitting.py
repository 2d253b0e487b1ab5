import numpy as np
import pytest

from zoolens.faces.ui.live_fitting import fitted
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.preprocess.resize import resize

PICTURE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


def taking(shape=(1, 3, 32, 32), layout="NCHW", **more):
    return Input.model_validate({"shape": shape, "layout": layout, **more})


def test_what_the_manifest_declares_is_told_and_left_to_it():
    steps = [{"op": "resize", "size": 36}, {"op": "center_crop", "size": [32, 32]}]
    pixels, words = fitted(taking(preprocess=steps), PICTURE, located=False)
    assert pixels is PICTURE
    assert words == (
        "resized its shorter side to 36 (bilinear, pil); the middle 32 × 32 cut out, as its manifest declares"
    )


@pytest.mark.parametrize(
    ("declared", "size"),
    [
        (taking(), (32, 32)),
        (taking((None, 16, 24, 3), "NHWC"), (16, 24)),
        (taking((1, 20, 30), "NHW", color="gray"), (20, 30)),
    ],
)
def test_a_picture_of_another_size_is_squeezed_and_that_is_said(declared, size):
    pixels, words = fitted(declared, PICTURE, located=False)
    assert (pixels == resize(PICTURE, size, "bilinear", "pil")).all()
    assert f"resized here to {size[1]} × {size[0]}" in words
    assert "its manifest declares no resizing" in words
    assert ("proportions" in words) is (size[0] * 60 != size[1] * 40)


def test_no_picture_is_squeezed_for_answers_at_places_of_it():
    pixels, words = fitted(taking(), PICTURE, located=True)
    assert pixels is PICTURE
    assert words == ""


@pytest.mark.parametrize("declared", [taking((1, 3, 40, 60)), taking((1, 3, None, None)), taking((1, 784), "NC")])
def test_a_picture_of_the_right_size_or_of_any_is_left_as_it_is(declared):
    pixels, words = fitted(declared, PICTURE, located=False)
    assert pixels is PICTURE
    assert words == "not resized"
