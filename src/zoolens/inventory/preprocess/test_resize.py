"""Our resizing against the libraries it re-creates. Where one is not installed its tests are skipped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from zoolens.base.errors import ManifestError
from zoolens.inventory.preprocess.resize import METHODS, resize, target_size

RNG = np.random.default_rng(3)
SIZES = [(224, 224), (32, 48), (101, 37), (60, 41), (57, 100), (32, 60)]


def photograph(height, width):
    """Smooth shapes, edges and a little noise: like a photograph, and without anyone's rights in it."""
    y, x = np.mgrid[:height, :width] / 23.0
    waves = np.stack([np.sin(x + y), np.cos(x * y / 3), np.sign(np.sin(2 * x - y))], axis=2)
    return np.clip(128 + 100 * waves + RNG.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)


IMAGES = [RNG.integers(0, 256, (57, 83, 3), dtype=np.uint8), photograph(227, 227), photograph(64, 120)]
NAMES = ["noise", "photo", "wide"]
# larger and smaller, one side as it was, exactly half, very little less
QUICK = {
    "noise": [(32, 48), (101, 37), (57, 100)],
    "photo": [(224, 224), (60, 41)],
    "wide": [(101, 37), (32, 60)],
}


def compare_bytes(ours, theirs, equal=0.99):
    assert ours.dtype == theirs.dtype == np.uint8
    assert ours.shape == theirs.shape
    difference = np.abs(ours.astype(int) - theirs)
    assert difference.max() <= 1
    assert (difference == 0).mean() >= equal


def compare_floats(ours, theirs):
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.01)  # of 255


@pytest.mark.parametrize(
    ("image", "size"),
    [
        pytest.param(image, size, id=f"{name}-{size}", marks=[] if size in QUICK[name] else [pytest.mark.slow])
        for name, image in zip(NAMES, IMAGES, strict=True)
        for size in SIZES
    ],
)
class TestAgainstLibraries:
    @pytest.mark.parametrize("method", METHODS["pil"])
    def test_pil(self, image, size, method):
        name = {"area": "BOX"}.get(method, method.upper())
        theirs = Image.fromarray(image).resize(size[::-1], Image.Resampling[name])
        np.testing.assert_array_equal(resize(image, size, method, "pil"), np.asarray(theirs))
        gray = np.asarray(Image.fromarray(image[:, :, 0]).resize(size[::-1], Image.Resampling[name]))
        np.testing.assert_array_equal(resize(image[:, :, :1], size, method, "pil")[:, :, 0], gray)

    @pytest.mark.parametrize("antialias", [True, False])
    @pytest.mark.parametrize("method", METHODS["torchvision"])
    def test_torchvision(self, image, size, method, antialias):
        torch = pytest.importorskip("torch")

        def theirs(array):
            options = {} if method == "nearest" else {"antialias": antialias, "align_corners": False}
            tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))[None]
            return torch.nn.functional.interpolate(tensor, size, mode=method, **options)[0].permute(1, 2, 0).numpy()

        compare_bytes(resize(image, size, method, "torchvision", antialias), theirs(image), 0.99)
        real = image.astype(np.float32)
        compare_floats(resize(real, size, method, "torchvision", antialias), theirs(real))

    @pytest.mark.parametrize("antialias", [True, False])
    @pytest.mark.parametrize("method", METHODS["tensorflow"])
    def test_tensorflow(self, image, size, method, antialias):
        tensorflow = pytest.importorskip("tensorflow")
        name = {"lanczos": "lanczos3"}.get(method, method)
        theirs = tensorflow.image.resize(image, size, method=name, antialias=antialias).numpy()
        ours = resize(image, size, method, "tensorflow", antialias)
        assert ours.dtype == theirs.dtype
        compare_floats(ours, theirs)

    @pytest.mark.parametrize("method", METHODS["opencv"])
    def test_opencv(self, image, size, method):
        cv2 = pytest.importorskip("cv2")
        names = {"bilinear": "LINEAR", "bicubic": "CUBIC", "lanczos": "LANCZOS4"}
        flag = getattr(cv2, f"INTER_{names.get(method, method.upper())}")
        theirs = cv2.resize(image, size[::-1], interpolation=flag)
        # its cubic for bytes is a vendor's routine on some processors and its own, in 1/2048 steps, on others
        compare_bytes(resize(image, size, method, "opencv"), theirs, 0.94 if method == "bicubic" else 0.99)
        real = image.astype(np.float32)
        compare_floats(resize(real, size, method, "opencv"), cv2.resize(real, size[::-1], interpolation=flag))


def test_the_libraries_really_differ():
    image, size = IMAGES[0], (32, 48)
    results = [resize(image, size, "bilinear", library).astype(float) for library in METHODS]
    for number, one in enumerate(results):
        for other in results[number + 1 :]:
            assert np.abs(one - other).max() > 0
    assert np.abs(results[0] - results[3]).max() > 20  # PIL averages what OpenCV skips


@given(
    st.sampled_from([(library, method) for library, methods in METHODS.items() for method in methods]),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.sampled_from([1, 3]),
    st.integers(0, 255),
)
@settings(max_examples=60, deadline=None)
def test_any_size_gives_the_size_asked_for_and_a_flat_image_stays_flat(kind, have, want, channels, value):
    library, method = kind
    result = resize(np.full((*have, channels), value, np.uint8), want, method, library)
    assert result.shape == (*want, channels)
    np.testing.assert_allclose(result, value, atol=1 if library == "opencv" else 1e-3)


def test_shrinking_ten_thousandfold_is_a_mean():
    strip = np.full((1, 20_000, 3), 100, np.uint8)
    strip[:, ::2] = 200
    assert np.abs(resize(strip, (1, 2), "bilinear", "torchvision").astype(int) - 150).max() <= 2


@pytest.mark.parametrize(
    ("height", "width", "size", "wanted"),
    [
        (375, 500, 256, (256, 341)),
        (500, 375, 256, (341, 256)),
        (224, 224, 256, (256, 256)),
        (227, 100, 50, (113, 50)),
        (9, 9, (4, 5), (4, 5)),
    ],
)
def test_the_shorter_side(height, width, size, wanted):
    assert target_size(height, width, size) == wanted


@pytest.mark.parametrize(
    ("method", "library", "antialias"),
    [
        ("lanczos", "torchvision", None),
        ("area", "torchvision", None),
        ("bilinear", "opencv", True),
        ("bilinear", "pil", False),
    ],
)
def test_what_a_library_cannot_do_is_refused(method, library, antialias):
    with pytest.raises(ManifestError):
        resize(IMAGES[0], (10, 10), method, library, antialias)
