"""How pixels go in: by metadata, or by the range of a quantised input."""

import re

import numpy as np
import pytest

from zoolens.inventory.catalog.pixel_ranges import quantised_range, stated_normalisation
from zoolens.inventory.runtimes.litert.tflite_metadata import TensorNotes
from zoolens.inventory.runtimes.runtime import TensorSpec

PIXELS = np.arange(256)


def spec(scale, zero, dtype="uint8"):
    return TensorSpec("x", (1, 8, 8, 3), dtype, scale, zero)


def quantised(step, tensor):
    real = (PIXELS * step.scale - step.mean[0]) / step.std[0]
    return np.rint(real / tensor.scale).astype(int) + tensor.zero_point


@pytest.mark.parametrize(
    ("scale", "zero", "dtype", "said"),
    [
        (1 / 128, 128, "uint8", "−1…1"),
        (1 / 127.5, -1, "int8", "−1…1"),
        (1 / 255, -128, "int8", "0…1"),
        (1.0, 0, "uint8", "0…255"),
        (1.0, -128, "int8", "0…255"),
        (0.02, 100, "uint8", "−1…1, within the range -2.00…3.10 .*not known: check"),
        (0.001, 0, "uint8", "0…0.255, all that .*not known: check"),
    ],
)
def test_a_range_says_how_pixels_are_scaled(scale, zero, dtype, said):
    tensor = spec(scale, zero, dtype)
    found = quantised_range(tensor)
    assert re.search(f"pixels are scaled to {said}", found.why)
    if "within" not in said:
        # Pixels reach the network as they are.
        assert (quantised(found.steps[0], tensor) == PIXELS - (128 if dtype == "int8" else 0)).all()


def test_the_range_of_imagenet_normalisation_is_known():
    found = quantised_range(spec(0.0186, -14, "int8"))
    assert found.steps[0].mean == (0.485, 0.456, 0.406)
    assert quantised_range(TensorSpec("x", (1, 8, 8, 3), "float32")) is None


def test_metadata_come_first_and_quantisation_may_take_them_back():
    usual = TensorNotes(mean=(127.5,), deviation=(127.5,))
    floats = stated_normalisation(TensorSpec("x", (1, 8, 8, 3), "float32"), usual, 3)
    assert (floats.steps[0].mean, floats.steps[0].std) == ((127.5,), (127.5,))
    tensor = spec(1 / 128, 127)
    taken_back = stated_normalisation(tensor, usual, 3)
    assert "pixels go in unchanged" in taken_back.why
    assert (quantised(taken_back.steps[0], tensor) == PIXELS).all()
    other = stated_normalisation(spec(0.0125, 127), TensorNotes(mean=(127.0,), deviation=(128.0,)), 3)
    assert other.steps[0].std == (128.0,)
    raw = stated_normalisation(TensorSpec("x", (1, 8, 8, 3), "uint8"), usual, 3)
    assert (raw.steps, "raw pixels go in" in raw.why) == ((), True)


@pytest.mark.parametrize("notes", [TensorNotes(), TensorNotes(mean=(1.0, 2.0), deviation=(1.0,)),
                                   TensorNotes(mean=(1.0,), deviation=(0.0,))])  # fmt: skip
def test_metadata_that_do_not_fit_say_nothing(notes):
    assert stated_normalisation(spec(1.0, 0), notes, 3) is None
