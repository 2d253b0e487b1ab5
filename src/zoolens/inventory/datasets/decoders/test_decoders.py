"""Every decoder on the same files: where they must agree, where they differ, and what all of them refuse."""

import io
import struct
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError, MissingDependency, UnknownName
from zoolens.inventory.datasets import images as images_module
from zoolens.inventory.datasets.decoders.decoder import DECODERS, is_installed, load_decoder, packages_of
from zoolens.inventory.datasets.images import decode_image
from zoolens.inventory.datasets.opening import open_dataset

HERE = [name for name in DECODERS if is_installed(name)]
every_decoder = pytest.mark.parametrize("decoder", HERE)


def needs(name):
    return pytest.mark.skipif(name not in HERE, reason=f"{name} is not installed")


def landscape(height=48, width=64):
    """Smooth, as photographs are, with some noise and sharp colour edges."""
    rows, columns = np.mgrid[:height, :width]
    image = np.stack([rows * 5 % 256, columns * 4 % 256, (rows + columns) * 2 % 256], axis=2)
    return np.clip(image + np.random.default_rng(3).integers(-20, 20, image.shape), 0, 255).astype(np.uint8)


def encoded(array, kind, **options):
    buffer = io.BytesIO()
    Image.fromarray(array.squeeze()).save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(data, decoder, **options):
    return decode_image(data, "some.jpg", decode=load_decoder(decoder), **options)


@every_decoder
@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_lossless_images_come_back_exactly(decoder, kind):
    np.testing.assert_array_equal(decoded(encoded(landscape(), kind), decoder), landscape())


@every_decoder
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_grey_images_become_rgb_unless_kept(decoder, kind):
    data = encoded(landscape()[:, :, :1], kind)
    rgb, kept = decoded(data, decoder), decoded(data, decoder, keep_gray=True)
    assert (rgb.shape, kept.shape, kept.dtype) == ((48, 64, 3), (48, 64, 1), np.uint8)
    np.testing.assert_array_equal(rgb, np.repeat(kept, 3, axis=2))
    assert decoded(encoded(landscape(), kind), decoder, keep_gray=True).shape == (48, 64, 3)


@every_decoder
def test_jpegs_agree_within_a_few_levels(decoder):
    data = encoded(landscape(), "JPEG", quality=90)
    difference = np.abs(decoded(data, decoder).astype(int) - decoded(data, "pillow"))
    assert difference.mean() < 3
    assert difference.max() < 40


@needs("tensorflow")
def test_the_fast_transform_of_tensorflow_is_not_pillows():
    data = encoded(landscape(), "JPEG", quality=90)
    assert (decoded(data, "tensorflow") != decoded(data, "pillow")).any()


@needs("opencv")
def test_only_opencv_turns_a_picture_as_its_exif_data_say():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    data = encoded(landscape(), "JPEG", exif=exif)
    shapes = {decoder: decoded(data, decoder).shape for decoder in HERE}
    assert shapes.pop("opencv") == (64, 48, 3)
    assert set(shapes.values()) == {(48, 64, 3)}


def test_grey_pixels_of_16_bits_are_not_cut_to_white():
    bright = (landscape()[:, :, 0].astype(np.uint16) * 257)[:, :, np.newaxis]
    for data in (encoded(bright, "PNG"), encoded(bright, "TIFF"), encoded(bright.astype(np.float32) / 65535, "TIFF")):
        with pytest.raises(DatasetError, match=r"grey pixels from 0 to .*, and Pillow would cut them to 0 to 255"):
            decoded(data, "pillow")
    dark = landscape()[:, :, :1].astype(np.uint16)  # 8 bits in a wider type: nothing is lost
    np.testing.assert_array_equal(decoded(encoded(dark, "PNG"), "pillow", keep_gray=True), dark)
    if "opencv" in HERE:
        found = decoded(encoded(bright, "PNG"), "opencv", keep_gray=True)
        assert np.abs(found.astype(int) - landscape()[:, :, :1]).max() <= 1


@needs("tensorflow")
def test_a_format_that_tensorflow_lacks_is_named():
    with pytest.raises(DatasetError, match=r"some\.jpg cannot be decoded: TensorFlow says"):
        decoded(encoded(landscape(), "TIFF"), "tensorflow")


# --- what no decoder takes


@every_decoder
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_truncated_image_is_one_sentence(decoder, kind):
    data = encoded(landscape(), kind)
    with pytest.raises(DatasetError, match=r"some\.jpg cannot be decoded") as caught:
        decoded(data[: len(data) // 2], decoder)
    assert "\n" not in str(caught.value)
    assert "{{" not in str(caught.value)


@every_decoder
def test_what_is_no_image_is_said_to_be_none(decoder):
    with pytest.raises(DatasetError, match="not an image of a known kind"):
        decoded(b"not an image at all", decoder)


def bomb(side):
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return b"\x89PNG\r\n\x1a\n" + chunk + encoded(landscape(), "PNG")[33:]


@every_decoder
@pytest.mark.parametrize("side", [9_000, 60_000])
def test_a_bomb_is_refused(decoder, side):
    with pytest.raises(DatasetError, match=r"some\.jpg claims .* pixels"):
        decoded(bomb(side), decoder)


def test_a_bomb_is_refused_before_a_decoder_sees_it():
    seen = []
    with pytest.raises(DatasetError, match="claims 9000×9000 pixels"):
        decode_image(bomb(9_000), "bomb.png", decode=lambda *given: seen.append(given))
    assert not seen


@every_decoder
def test_pixels_and_bytes_have_a_limit(decoder, tmp_path, monkeypatch):
    path = tmp_path / "some.jpg"
    path.write_bytes(encoded(landscape(), "JPEG"))
    monkeypatch.setattr(images_module, "MAX_PIXELS", 48 * 64 - 1)
    with pytest.raises(DatasetError, match="claims 64×48 pixels"):
        decode_image(str(path), "some.jpg", decode=load_decoder(decoder))
    monkeypatch.undo()
    monkeypatch.setattr(images_module, "MAX_ENCODED", 100)
    if decoder != "pillow":  # which reads the file bit by bit
        with pytest.raises(DatasetError, match="more than the 100 bytes that are read"):
            decode_image(str(path), "some.jpg", decode=load_decoder(decoder))


# --- choosing one


def test_a_missing_library_and_an_unknown_name_are_explained(monkeypatch):
    load_decoder.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingDependency, match=r"zoolens\[opencv\]"):
        load_decoder("opencv")
    with pytest.raises(UnknownName, match="no image decoder named 'opencvv'"):
        load_decoder("opencvv")
    assert packages_of("pillow") == ()
    assert "tensorflow-cpu" in packages_of("tensorflow")


@pytest.fixture
def folder(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for label in ("0", "1"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "a.jpg").write_bytes(encoded(landscape(), "JPEG", exif=exif))
    return tmp_path


@needs("opencv")
def test_an_image_folder_and_its_subsets_are_decoded_as_told(folder):
    for dataset in (open_dataset(folder), open_dataset(folder, limit=1, seed=0)):
        turned = dataset.decoded_with("opencv")
        assert dataset.encoded
        assert turned.encoded
        assert dataset.read(0).value.shape == (48, 64, 3)
        assert turned.read(0).value.shape == (64, 48, 3)
        assert (turned.fingerprint(), turned.name, len(turned)) == (dataset.fingerprint(), dataset.name, len(dataset))
        assert turned.decoded_with("opencv") is turned
        assert turned.decoded_with("pillow").read(0).value.shape == (48, 64, 3)


@needs("opencv")
def test_encoded_images_in_parquet_are_decoded_as_told(folder, tmp_path):
    data = (folder / "0" / "a.jpg").read_bytes()
    table = pa.table({"image": [{"bytes": data, "path": None}] * 2, "label": [0, 1]})
    pq.write_table(table, tmp_path / "data.parquet")
    dataset = open_dataset(tmp_path / "data.parquet")
    assert dataset.encoded
    assert dataset.decoded_with("opencv").read(1).value.shape == (64, 48, 3)
    assert dataset.read(1).value.shape == (48, 64, 3)


def test_data_that_are_pixels_have_no_decoder(tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 4, 4, 3), np.uint8), y=np.arange(3))
    pq.write_table(pa.table({"x": [[0.0, 1.0]] * 3, "y": [0, 1, 2]}), tmp_path / "data.parquet")
    for dataset in (*map(open_dataset, sorted(tmp_path.iterdir())), open_dataset("demo", limit=5)):
        assert not dataset.encoded
        assert dataset.decoded_with("tensorflow") is dataset
