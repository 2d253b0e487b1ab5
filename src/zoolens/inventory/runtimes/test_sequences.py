"""The distribution that comes after a sequence."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.sequences import log_probabilities


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_become_logarithms_in_their_type(dtype):
    scores = np.array([[1000, 1001, -np.inf], [0, 0, 0]], dtype)
    found = log_probabilities(scores)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.exp(found), [[1 / (1 + np.e), np.e / (1 + np.e), 0], [1 / 3] * 3], rtol=1e-6)
    np.testing.assert_array_equal(log_probabilities(scores[0]), found[0])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong):
    with pytest.raises(ModelError, match="NaN or infinity"):
        log_probabilities(np.array([0, wrong]))
