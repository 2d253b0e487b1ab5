import pytest

from zoolens.cli.crosstrain.training import _complain
from zoolens.crosstrain.training.trials import TrainedSide, Trial
from zoolens.errors import ZoolensError


def test_a_side_that_failed_is_an_error_and_a_bad_result_is_none():
    fine = Trial("1", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", status="non-finite")))
    small = Trial("2", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", status="out-of-memory")))
    _complain([fine, small])
    with pytest.raises(ZoolensError, match=r"Not trained: jax of trial 3\.1\."):
        _complain([fine, Trial("3.1", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", status="failed")))])
