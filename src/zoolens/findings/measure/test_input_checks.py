import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.findings.measure.input_checks import (
    inputs_differ,
    pixel_doubt,
    refuse_not_finite,
    said_of_copies,
    taken_for_real,
    turned_pictures,
)
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.runtimes.runtime import TensorSpec

BYTES = Input(shape=(None, 3, 4, 4), preprocess=[{"op": "normalize", "scale": 1 / 255}])
UNSCALED = Input(shape=(None, 3, 4, 4), preprocess=[{"op": "normalize", "mean": [0.5], "std": [0.2]}])


def data(values):
    return ArrayDataset(values, np.zeros(len(values), np.int64), name="some")


def test_pixels_between_0_and_1_are_not_scaled_down_once_more():
    pixels = np.random.default_rng(0).random((40, 4, 4, 3), np.float32)
    assert "float32 numbers between" in pixel_doubt(BYTES, data(pixels))
    assert pixel_doubt(UNSCALED, data(pixels)) is None
    assert pixel_doubt(BYTES, data(pixels * 255)) is None
    assert pixel_doubt(BYTES, data((pixels * 255).astype(np.uint8))) is None
    assert pixel_doubt(BYTES.model_copy(update={"modality": "array"}), data(pixels)) is None


def test_pixels_of_16_bits_are_too_bright():
    pixels = np.full((3, 4, 4, 3), 60_000, np.uint16)
    assert "uint16 numbers up to 60,000" in pixel_doubt(BYTES, data(pixels))
    bytes_by_deviation = Input(shape=(None, 3, 4, 4), preprocess=[{"op": "normalize", "mean": [123.7], "std": [58.4]}])
    assert "uint16 numbers up to 60,000" in pixel_doubt(bytes_by_deviation, data(pixels))


@pytest.mark.parametrize("steps", [[], [{"op": "normalize", "scale": 1 / 65535}], [{"op": "normalize", "std": [9e3]}]])
def test_pixels_of_16_bits_are_right_where_the_steps_may_be_made_for_them(steps):
    spec = Input(shape=(None, 3, 4, 4), preprocess=steps)
    assert pixel_doubt(spec, data(np.full((3, 4, 4, 3), 60_000, np.uint16))) is None


def test_photographs_that_should_be_turned_are_told_where_the_decoder_does_not(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for label in ("0", "1"):
        (tmp_path / label).mkdir()
        Image.new("RGB", (4, 4)).save(tmp_path / label / "a.jpg", **({"exif": exif} if label == "1" else {}))
    dataset = open_dataset(tmp_path)
    said = turned_pictures(BYTES, dataset)
    assert said.startswith("1 of 2 pictures looked at is to be turned by their EXIF data, which decoder: pillow")
    assert turned_pictures(BYTES.model_copy(update={"decoder": "opencv"}), dataset) is None
    assert turned_pictures(BYTES, open_dataset(tmp_path / "0")) is None


def test_an_input_with_nan_is_named():
    good, bad = np.zeros((2, 3), np.float32), np.array([[0, 1, 2], [0, np.nan, 2]], np.float32)
    refuse_not_finite([(["a", "b"], good), (["c", "d"], good.astype(np.int64))])
    with pytest.raises(DatasetError, match="Input d holds NaN"):
        refuse_not_finite([(["a", "b"], good), (["c", "d"], bad)])


def test_numbers_of_the_type_of_a_quantised_input_may_be_quantised_already():
    array, numbers = Input(modality="array", shape=(None, 4), dtype="int8"), data(np.zeros((3, 4), np.int8))
    quantised = TensorSpec("x", (None, 4), "int8", scale=0.5, zero_point=83)
    assert "[{op: normalize, scale: 0.5, mean: [41.5]}]" in taken_for_real(array, quantised, numbers)
    declared = array.model_copy(update={"preprocess": UNSCALED.preprocess})
    assert taken_for_real(declared, quantised, numbers) is None
    assert taken_for_real(array, quantised, data(np.zeros((3, 4), np.float32))) is None
    assert taken_for_real(array, TensorSpec("x", (None, 4), "int8"), numbers) is None
    assert taken_for_real(array, TensorSpec("x", (None, 4), "int8", scale=1.0, zero_point=0), numbers) is None


def test_copies_of_one_input_are_seen():
    assert not inputs_differ(data(np.ones((40, 4), np.float32)))
    assert inputs_differ(data(np.arange(40.0).reshape(10, 4)))


def test_pixels_among_several_inputs_are_looked_at_too():
    record = np.dtype([("image", np.float32, (4, 4, 3)), ("size", np.float32, (2,))])
    several = np.zeros(40, record)
    several["image"], several["size"] = np.random.default_rng(0).random((40, 4, 4, 3)), 300
    named = BYTES.model_copy(update={"name": "image"})
    assert "float32 numbers between" in pixel_doubt(named, data(several))
    several["image"] *= 255
    assert pixel_doubt(named, data(several)) is None


def answered(values):
    """Digests of a model that answers with the sum of its input, so that different inputs may be answered alike."""
    return values.reshape(len(values), -1).sum(axis=1).astype(np.uint64)


def test_copies_among_the_inputs_are_counted():
    different = np.unique(np.random.default_rng(0).integers(0, 9, (80, 3), np.uint8), axis=0)[:40]
    assert said_of_copies(data(different), answered(different)) is None  # equal sums are no copies
    doubled = np.concatenate([different, different[:15], different[:1]])
    said = said_of_copies(data(doubled), answered(doubled))
    assert said.startswith("16 of 56 inputs are copies of others: ")
    assert said.endswith("(different inputs: 40)")
    once = np.concatenate([different, different[:1]])
    assert said_of_copies(data(once), answered(once)).startswith("1 of 41 inputs is a copy of another: ")
    fifty = np.repeat(different[:1], 50, axis=0)
    assert said_of_copies(data(fifty), answered(fifty)).endswith("(different inputs: 1)")


def test_of_many_copies_some_are_compared():
    many = np.repeat(np.arange(40, dtype=np.uint8)[:, None], 50, axis=0)
    said = said_of_copies(data(many), answered(many))
    assert said.startswith("at least 980 of 2,000 inputs")
    assert said.endswith("(different inputs: at most 1,020)")
