import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import CenterCrop
from zoolens.inventory.preprocess.pipeline import build_prepare, center_crop
from zoolens.inventory.runtimes.runtime import TensorSpec

RNG = np.random.default_rng(5)
IMAGE = RNG.integers(0, 256, (12, 14, 3), dtype=np.uint8)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALIZE = {"op": "normalize", "scale": 1 / 255, "mean": MEAN, "std": STD}
REAL = TensorSpec("x", (None,), "float32")


def build(tensor=REAL, **spec):
    spec.setdefault("shape", (None, 3, None, None))
    return build_prepare(Input(**spec), tensor)


def expected(image):
    return (image / 255 - np.array(MEAN)) / np.array(STD)


def test_normalisation_in_both_layouts_and_colour_orders():
    np.testing.assert_allclose(build(preprocess=[NORMALIZE])(IMAGE), expected(IMAGE).transpose(2, 0, 1), atol=1e-6)
    nhwc = build(preprocess=[NORMALIZE], shape=(None, 12, 14, 3), layout="NHWC")
    np.testing.assert_allclose(nhwc(IMAGE), expected(IMAGE), atol=1e-6)
    bgr = build(preprocess=[NORMALIZE], color="BGR")  # the mean is in the model's own order
    np.testing.assert_allclose(bgr(IMAGE), expected(IMAGE[:, :, ::-1]).transpose(2, 0, 1), atol=1e-6)
    assert bgr(IMAGE).dtype == np.float32


def test_normalising_before_a_resize_gives_what_normalising_after_it_gives():
    step = {"op": "resize", "size": (8, 9), "library": "tensorflow"}
    for color in ("RGB", "BGR"):
        first = build(preprocess=[NORMALIZE, step], color=color)(IMAGE)
        last = build(preprocess=[step, NORMALIZE], color=color)(IMAGE)
        np.testing.assert_allclose(first, last, atol=1e-5)


def test_steps_run_in_order_and_several_normalisations_are_one():
    steps = [
        {"op": "resize", "size": 10, "method": "bicubic"},
        {"op": "center_crop", "size": (8, 8)},
        {"op": "normalize", "scale": 1 / 255},
        {"op": "normalize", "mean": MEAN, "std": STD},
    ]
    resized = np.asarray(Image.fromarray(IMAGE).resize((11, 10), Image.Resampling.BICUBIC))
    wanted = expected(resized[1:9, 2:10]).transpose(2, 0, 1)
    np.testing.assert_allclose(build(preprocess=steps)(IMAGE), wanted, atol=1e-6)


def test_gray_as_pil_makes_it_and_rgb_by_repetition():
    gray = build(shape=(None, 12, 14), layout="NHW", color="gray")(IMAGE)
    np.testing.assert_array_equal(gray, np.asarray(Image.fromarray(IMAGE).convert("L")))
    back = build()(gray.astype(np.uint8)[:, :, None])
    np.testing.assert_array_equal(back, np.repeat(gray[None], 3, axis=0))
    flat = build(shape=(None, 168), layout="NC", color="gray")(IMAGE)
    np.testing.assert_array_equal(flat, gray.ravel())


@pytest.mark.parametrize(
    ("dtype", "scale", "zero_point"), [("uint8", 1 / 128, 128), ("int8", 0.0187, -14), ("int16", 1e-4, 0)]
)
@pytest.mark.parametrize("mean", [(127.5,), (120.0, 110.0, 100.0)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_quantised_inputs_follow_the_formula(dtype, scale, zero_point, mean, layout):
    shape = (1, 3, 12, 14) if layout == "NCHW" else (1, 12, 14, 3)
    tensor = TensorSpec("x", shape, dtype, scale, zero_point)
    steps = [{"op": "normalize", "mean": mean, "std": (127.5,)}]
    real = (IMAGE - np.array(mean)) / 127.5
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(real / scale) + zero_point, limits.min, limits.max)
    found = build(tensor, preprocess=steps, shape=shape, layout=layout)(IMAGE)
    assert found.dtype == dtype
    found = found.transpose(1, 2, 0) if layout == "NCHW" else found
    np.testing.assert_allclose(found, wanted, atol=0 if dtype != "int16" else 1)  # int16 is computed in float32


def test_plain_integer_inputs_are_rounded_and_kept_in_range():
    tensor = TensorSpec("x", (), "uint8")
    found = build(tensor, preprocess=[{"op": "normalize", "scale": 1.5}])(IMAGE)
    np.testing.assert_array_equal(found, np.minimum(np.rint(IMAGE * 1.5), 255).transpose(2, 0, 1))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["RGB", "BGR", "gray"]),
    st.sampled_from(["NCHW", "NHWC"]),
    st.sampled_from([REAL, TensorSpec("x", (), "uint8", 0.01, 3), TensorSpec("x", (), "float16")]),
    st.integers(1, 5),
)
def test_many_at_once_are_the_same_as_one_by_one(color, layout, tensor, count):
    channels = 1 if color == "gray" else 3
    images = RNG.integers(0, 256, (count, 5, 4, channels), dtype=np.uint8)
    mean = (0.5,) if color == "gray" else MEAN
    shape = (None, channels, 5, 4) if layout == "NCHW" else (None, 5, 4, channels)
    steps = [{"op": "normalize", "scale": 1 / 255, "mean": mean}]
    prepare = build(tensor, color=color, layout=layout, shape=shape, preprocess=steps)
    np.testing.assert_array_equal(prepare.many(images), np.stack([prepare(image) for image in images]))


def test_many_declines_what_must_be_shaped_one_by_one():
    resizing = build(preprocess=[{"op": "resize", "size": (4, 4)}])
    assert resizing.many(IMAGE[None]) is None
    assert build().many(IMAGE[None, :, :, :1]) is None


def test_center_crop_as_torchvision_and_tensorflow():
    image = np.arange(5 * 8).reshape(5, 8, 1)
    # round((5 - 2) / 2) is 2: Python, like torchvision, rounds halves to even
    np.testing.assert_array_equal(center_crop(image, CenterCrop(op="center_crop", size=(2, 4))), image[2:4, 2:6])
    padded = center_crop(image, CenterCrop(op="center_crop", size=(8, 4)))
    np.testing.assert_array_equal(padded[1:6], image[:, 2:6])
    assert not padded[0].any()
    assert not padded[6:].any()
    # int((8 - 8 × 0.875) / 2) is 0 and int((5 - 5 × 0.6) / 2) is 1
    np.testing.assert_array_equal(center_crop(image, CenterCrop(op="center_crop", fraction=0.875)), image)
    np.testing.assert_array_equal(center_crop(image, CenterCrop(op="center_crop", fraction=0.6)), image[1:4, 1:7])


def test_arrays_are_normalised_and_cast_only():
    value = RNG.normal(size=4)
    steps = [{"op": "normalize", "mean": (1.0, 2.0, 3.0, 4.0), "std": (2.0,)}]
    prepare = build(modality="array", shape=(None, 4), layout="NC", preprocess=steps)
    np.testing.assert_allclose(prepare(value), (value - [1, 2, 3, 4]) / 2, rtol=1e-6)
    assert prepare(value).dtype == np.float32
    with pytest.raises(DatasetError, match="has shape 3, but the input takes 4"):
        prepare(value[:3])
    with pytest.raises(ManifestError, match="normalised only"):
        build(modality="array", shape=(None, 4), layout="NC", preprocess=[{"op": "resize", "size": 3}])


@pytest.mark.parametrize(
    ("spec", "value", "error", "message"),
    [
        ({"shape": (1, 3, 32, 32)}, IMAGE, DatasetError, r"12×14 with 3 channels .* takes 3×32×32 .*resize"),
        ({}, IMAGE[:, :, :2], DatasetError, "modality: array"),
        ({"color": "gray"}, IMAGE, ManifestError, "3 channels but its colour is gray"),
        ({"preprocess": [{"op": "normalize", "mean": (1, 2)}]}, IMAGE, ManifestError, "2 values"),
        (
            {"preprocess": [{"op": "resize", "size": 5, "method": "area", "library": "torchvision"}]},
            IMAGE,
            ManifestError,
            "area",
        ),
    ],
)
def test_misfits_are_explained(spec, value, error, message):
    spec = {"shape": (None, 3, None, None), **spec}
    with pytest.raises(error, match=message):
        build(**spec)(value)


def test_types_without_numbers_are_refused():
    for dtype in ("bfloat16", "bool", "string"):
        with pytest.raises(ManifestError):
            build(TensorSpec("x", (), dtype))


def test_pixels_between_two_quantised_values_go_where_float32_puts_them():
    """q = round(real / scale + zero_point) in float32: what every reference script computes, ties included."""
    tensor = TensorSpec("x", (), "uint8", 0.007843137718737125, 127)
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    found = build(tensor, preprocess=[{"op": "normalize", "mean": (127.5,), "std": (127.5,)}])(pixels)
    real = (pixels[:, :, 0].astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
    wanted = np.clip(np.round(real / np.float32(tensor.scale) + np.float32(127)), 0, 255)
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize(("number", "kind"), [(0.4, "uint8"), (300, "uint8"), (-1, "uint8"), (2.0**33, "int32")])
def test_numbers_that_an_input_of_whole_numbers_would_change_are_refused(number, kind):
    prepare = build(TensorSpec("ids", (None, 2), kind), modality="array", shape=(None, 2), dtype=kind)
    with pytest.raises(DatasetError, match="the input ids takes integers"):
        prepare(np.array([1, number]))
    with pytest.raises(DatasetError, match="holds nan"):
        prepare(np.array([1, np.nan]))
    np.testing.assert_array_equal(prepare(np.array([1.0, 7.0])), np.array([1, 7], kind))


def test_a_declared_step_may_round_to_whole_numbers():
    step = {"op": "normalize", "scale": 255.0}
    tensor = TensorSpec("x", (None, 2), "uint8")
    prepare = build(tensor, modality="array", shape=(None, 2), dtype="uint8", preprocess=[step])
    np.testing.assert_array_equal(prepare(np.array([0.2, 1.0], np.float32)), [51, 255])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
def test_pixels_between_0_and_1_are_refused_by_an_input_of_whole_numbers(dtype):
    whole = TensorSpec("x", (None,), dtype)
    with pytest.raises(ManifestError, match=r"range of 1: rounding would destroy the image"):
        build(whole, preprocess=[{"op": "normalize", "scale": 1 / 255}])
    np.testing.assert_array_equal(build(whole)(IMAGE), IMAGE.transpose(2, 0, 1))
    quantised = TensorSpec("x", (None,), "uint8", 1 / 255, 0)
    build(quantised, preprocess=[{"op": "normalize", "scale": 1 / 255}])
