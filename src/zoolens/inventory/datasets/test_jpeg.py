"""JPEG by libjpeg-turbo: the pixels of Pillow, its refusals, and Pillow itself wherever a file is unusual."""

import io
import random
import sys
import types

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets import images, jpeg

KINDS = {
    "444": {"subsampling": 0},
    "422": {"subsampling": 1},
    "420": {"subsampling": 2},
    "progressive": {"progressive": True},
    "rgb": {"keep_rgb": True},
    "restarts": {"restart_marker_blocks": 2},
    "poor": {"quality": 10},
    "commented": {"comment": b"hello"},
}


@pytest.fixture
def decode():
    pytest.importorskip("simplejpeg", reason="the extra jpeg is not installed")
    quick = jpeg.jpeg_decoder()
    if quick is None:
        pytest.skip("this Pillow decodes with another library than libjpeg-turbo")
    return quick


def noise(channels, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (23, 37, channels), np.uint8)


def encoded(array, mode="RGB", **options):
    stream = io.BytesIO()
    Image.fromarray(array.squeeze(), mode).save(stream, "JPEG", **options)
    return stream.getvalue()


def result(data, *, keep_gray=False):
    try:
        return images.decode_image(data, "some.jpg", keep_gray=keep_gray)
    except DatasetError as error:
        return str(error)


def without_it(monkeypatch, data, *, keep_gray=False):
    with monkeypatch.context() as patch:
        patch.setattr(images, "jpeg_decoder", lambda: None)
        return result(data, keep_gray=keep_gray)


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, str):
        assert found == expected
    else:
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_the_pixels_of_pillow(decode, monkeypatch, kind):
    data = encoded(noise(3), **KINDS[kind])
    assert decode(data, False, images.MAX_PIXELS) is not None
    assert_same(result(data), without_it(monkeypatch, data))


@pytest.mark.parametrize("keep_gray", [False, True])
def test_a_grey_one_has_as_many_channels_as_with_pillow(decode, monkeypatch, keep_gray):
    for data in (encoded(noise(1), "L"), encoded(noise(3))):
        assert decode(data, keep_gray, images.MAX_PIXELS) is not None
        assert_same(result(data, keep_gray=keep_gray), without_it(monkeypatch, data, keep_gray=keep_gray))


def test_what_is_unusual_is_left_to_pillow(decode, monkeypatch):
    whole = encoded(noise(3))
    unusual = {
        "cmyk": encoded(noise(4), "CMYK"),
        "truncated": whole[:-20],
        "no end": whole[:-2],
        "no jpeg": b"GIF89a" + whole,
        "empty": b"",
    }
    for name, data in unusual.items():
        assert decode(data, False, images.MAX_PIXELS) is None, name
        assert_same(result(data), without_it(monkeypatch, data))


def test_no_more_pixels_are_decoded_than_are_allowed(decode, monkeypatch):
    data = encoded(noise(3))
    assert decode(data, False, 23 * 37) is not None
    assert decode(data, False, 23 * 37 - 1) is None
    monkeypatch.setattr(images, "MAX_PIXELS", 23 * 37 - 1)
    assert "claims 37×23 pixels" in result(data)


def test_spoilt_files_are_read_or_refused_as_by_pillow(decode, monkeypatch):
    draw = random.Random(5)
    whole = [encoded(noise(3), **KINDS[kind]) for kind in KINDS] + [encoded(noise(1), "L")]
    quick = 0
    for _ in range(400):
        data = bytearray(draw.choice(whole))
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(3, min(len(data), 700))] = draw.randrange(256)
        keep_gray = draw.random() < 0.5
        if decode(bytes(data), keep_gray, images.MAX_PIXELS) is None:
            continue
        quick += 1
        found = result(bytes(data), keep_gray=keep_gray)
        assert_same(found, without_it(monkeypatch, bytes(data), keep_gray=keep_gray))
    assert quick > 40  # enough of them are read for this to mean something


@pytest.mark.parametrize("path", ["file", "bytes"])
def test_files_and_bytes_are_read_alike(decode, tmp_path, path):
    data = encoded(noise(3))
    (tmp_path / "some.jpg").write_bytes(data)
    source = str(tmp_path / "some.jpg") if path == "file" else data
    assert_same(images.decode_image(source, "it"), decode(data, False, images.MAX_PIXELS))


def test_a_library_with_other_pixels_is_not_used(monkeypatch):
    real = pytest.importorskip("simplejpeg", reason="the extra jpeg is not installed")
    other = types.SimpleNamespace(
        decode_jpeg_header=real.decode_jpeg_header, decode_jpeg=lambda *given: real.decode_jpeg(*given) ^ 1
    )
    monkeypatch.setitem(sys.modules, "simplejpeg", other)
    assert jpeg.jpeg_decoder.__wrapped__() is None


def test_without_the_package_pillow_decodes(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    assert jpeg.jpeg_decoder.__wrapped__() is None
