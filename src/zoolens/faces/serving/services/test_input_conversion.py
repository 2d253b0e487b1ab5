"""Conversions are held against the pipeline that prepares inputs for evaluations."""

import io

import numpy as np
import pytest
from PIL import Image

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.services.input_conversion import (
    NotConvertible,
    image_conversion,
    pixel_conversion,
    tensor_conversion,
)
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec

SHAPES = {"NCHW": (None, 3, 8, 6), "NHWC": (None, 8, 6, 3), "NC": (None, 144)}
IMAGENET = Normalize(op="normalize", scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
TENSORFLOW = Normalize(op="normalize", mean=(127.5,), std=(127.5,))
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 3)).astype(np.uint8)


def described(layout="NCHW", *steps, dtype="float32", **more):
    spec = Input(shape=more.pop("shape", SHAPES.get(layout)), layout=layout, preprocess=steps, dtype=dtype, **more)
    return spec, TensorSpec("x", spec.shape, dtype)


def prepared(spec, tensor, images=PIXELS):
    return np.stack([build_prepare(spec, tensor)(image) for image in images])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NC"])
@pytest.mark.parametrize("other_layout", ["NCHW", "NHWC", "NC"])
@pytest.mark.parametrize("steps", [(TENSORFLOW,), (IMAGENET,), ()])
@pytest.mark.parametrize("color", ["RGB", "BGR"])
def test_the_converted_tensor_is_what_the_other_model_would_have_been_fed(layout, other_layout, steps, color):
    ours = described(layout, IMAGENET)
    theirs = described(other_layout, *steps, color=color)
    convert = tensor_conversion(*ours, *theirs)
    converted = prepared(*ours) if convert is None else convert(prepared(*ours))
    wanted = prepared(*theirs)
    assert converted.dtype == wanted.dtype
    assert converted.shape == wanted.shape
    np.testing.assert_allclose(converted, wanted, rtol=0, atol=np.abs(wanted).max() * 1e-6)


def test_equal_declarations_are_fed_as_they_are():
    assert tensor_conversion(*described("NCHW", IMAGENET), *described("NCHW", IMAGENET)) is None


def test_pixels_as_the_reference_takes_them_become_any_float_input():
    ours, theirs = described("NHWC", dtype="uint8"), described("NCHW", IMAGENET)
    np.testing.assert_allclose(tensor_conversion(*ours, *theirs)(prepared(*ours)), prepared(*theirs), atol=1e-6)


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        (described("NHWC", shape=(None, 8, 8, 3)), "it takes 8×8×3"),
        (described("NCHW", Resize(op="resize", size=(8, 6)), IMAGENET), "resized or cropped otherwise"),
        (described("NCHW", CenterCrop(op="center_crop", size=(8, 6))), "resized or cropped otherwise"),
        (described("NHW", shape=(None, 8, 6), color="gray"), "its images are gray"),
        (described("NCHW", IMAGENET, decoder="opencv"), "decoded by opencv"),
        (described("NHWC", dtype="uint8"), "it takes uint8"),
        (described("NC", modality="array", shape=(None, 144)), "it takes an array"),
        (
            (described("NCHW", IMAGENET)[0], TensorSpec("x", (None, 3, 8, 6), "int8", scale=0.1, zero_point=3)),
            "quantised",
        ),
    ],
)
def test_what_would_lose_something_is_refused_with_the_reason(theirs, why):
    with pytest.raises(NotConvertible, match=why):
        tensor_conversion(*described("NCHW", IMAGENET), *theirs)


def test_colours_that_are_normalised_before_the_resizing_are_not_swapped_behind_it():
    steps = (Normalize(op="normalize", mean=(100, 50, 10), std=(2, 3, 4)), Resize(op="resize", size=(8, 6)))
    with pytest.raises(NotConvertible, match="colours"):
        tensor_conversion(*described("NCHW", *steps), *described("NCHW", *steps, color="BGR"))
    assert tensor_conversion(*described("NCHW", *steps), *described("NCHW", *steps)) is None


def encoded(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def test_images_are_prepared_for_each_model_as_its_manifest_says():
    theirs = described("NHWC", Resize(op="resize", size=(4, 4)), TENSORFLOW, shape=(None, 4, 4, 3))
    wanted = prepared(*theirs)
    images = np.array([encoded(image) for image in PIXELS], object)
    np.testing.assert_array_equal(image_conversion(*theirs)(images.reshape(-1, 1)), wanted)
    np.testing.assert_array_equal(pixel_conversion(*theirs)(PIXELS), wanted)


@pytest.mark.parametrize("image", [b"", b"\xff\xd8\xff\xe0 no image", "text", encoded(PIXELS[0])[:40]])
def test_what_is_no_image_is_the_clients_mistake(image):
    with pytest.raises(ServingError) as caught:
        image_conversion(*described("NCHW", Resize(op="resize", size=(8, 6))))(np.array([image], object))
    assert caught.value.refusal is Refusal.INVALID
