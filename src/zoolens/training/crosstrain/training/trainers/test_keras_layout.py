"""The conversion between layouts, by what the numbers mean."""

import numpy as np
import pytest

from zoolens.training.crosstrain.training.trainers.keras_layout import Tensor

IMAGE = (2, 3, 4)  # height, width, channels


def test_a_dense_kernel_after_flatten_computes_the_same_in_both_orders():
    rng = np.random.default_rng(0)
    image, kernel = rng.normal(size=IMAGE), rng.normal(size=(24, 5))
    ours = Tensor("dense.kernel", None, IMAGE).ours(kernel)
    assert np.allclose(ours @ image.transpose(2, 0, 1).ravel(), image.ravel() @ kernel)


def test_a_convolution_kernel_puts_outputs_first():
    kernel = np.random.default_rng(1).normal(size=(3, 2, 4, 5))
    ours = Tensor("conv.kernel", None, None).ours(kernel)
    assert ours.shape == (5, 4, 3, 2)
    assert ours[4, 3, 2, 1] == kernel[2, 1, 3, 4]


@pytest.mark.parametrize(
    ("shape", "flattened"), [((3, 3, 4, 5), None), ((24, 5), None), ((24, 5), IMAGE), ((24,), IMAGE), ((7,), None)]
)
def test_there_and_back(shape, flattened):
    array = np.random.default_rng(2).normal(size=shape)
    tensor = Tensor("some", None, flattened)
    assert np.array_equal(tensor.theirs(tensor.ours(array)), array)
