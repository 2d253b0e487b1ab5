import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.training.pairs.sides.data_inputs import data_inputs
from zoolens.training.pairs.sides.network_sides import InputShape


def test_images_have_their_channels_first_and_values_up_to_one():
    samples = data_inputs("demo", InputShape((3, 20, 24)), 3)
    assert [sample[0].shape for sample in samples] == [(1, 3, 20, 24)] * 3
    assert all(sample[0].dtype == np.float32 and 0 <= sample[0].min() <= sample[0].max() <= 1 for sample in samples)


def test_data_that_do_not_fit_are_refused():
    with pytest.raises(DatasetError, match="the input takes int values of 7"):
        data_inputs("demo", InputShape((7,), "int"), 1)
