import numpy as np
import pytest

from zoolens.findings.audit.doctor.spelling import spelling_note, spellings
from zoolens.inventory.manifests.schema import Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.runtimes.runtime import TensorSpec


def manifest(**normalize):
    step = Normalize(op="normalize", **normalize)
    spec = Input(shape=(1, 8, 8, 3), layout="NHWC", preprocess=(step,))
    return Manifest(name="net", inputs=(spec,), outputs=(Output(),))


def tensor(scale, zero_point, dtype="int8"):
    return TensorSpec("input", (1, 8, 8, 3), dtype, scale=scale, zero_point=zero_point)


@pytest.mark.parametrize(
    "normalize",
    [
        {"mean": (127.5,), "std": (127.5,)},
        {"scale": 1 / 127.5, "mean": (1.0,)},
        {"scale": 1 / 255, "mean": (0.5,), "std": (0.5,)},
    ],
)
def test_pixels_between_two_integers_depend_on_how_the_normalisation_is_written(normalize):
    note = spelling_note(manifest(**normalize), tensor(1 / 127.5, 0))
    assert "of 256 pixel values another integer" in note


@pytest.mark.parametrize(
    ("normalize", "spec"),
    [
        ({"mean": (127.5,), "std": (127.5,)}, tensor(None, None, "float32")),  # not quantised
        ({"scale": 1 / 255}, tensor(1 / 255, -128)),  # every pixel is an integer
    ],
)
def test_no_warning_where_nothing_depends_on_it(normalize, spec):
    assert spelling_note(manifest(**normalize), spec) is None


def test_spellings_are_the_same_mathematics():
    step = Normalize(op="normalize", scale=1 / 255, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.2))
    pixels = np.arange(256)[:, None]
    expected = (pixels * step.scale - np.array(step.mean)) / np.array(step.std)
    for one in spellings(step):
        np.testing.assert_allclose((pixels * one.scale - np.array(one.mean)) / np.array(one.std), expected, atol=1e-12)
