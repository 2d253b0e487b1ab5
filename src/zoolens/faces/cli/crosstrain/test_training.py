import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.crosstrain.training import _complain
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial


def test_a_side_that_failed_is_an_error_and_too_little_memory_is_none():
    fine = Trial("1", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", accuracy=0.5)))
    small = Trial("2", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", status="out-of-memory")))
    _complain([fine, small])
    with pytest.raises(ZoolensError, match=r"Not trained: jax of trial 3\.1\."):
        _complain([fine, Trial("3.1", {}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", status="failed")))])


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("finished", "non-finite"), 1),
        (("non-finite", "finished"), 1),
        (("non-finite",) * 2, 4),
        (("non-finite", "out-of-memory"), 4),
    ],
)
def test_a_loss_that_is_not_finite_is_a_difference_or_leaves_nothing_known(statuses, code):
    sides = tuple(TrainedSide(name, status, 0.1) for name, status in zip(("torch", "jax"), statuses, strict=True))
    with pytest.raises(ZoolensError, match="finite") as told:
        _complain([Trial("1", {}, sides)])
    assert told.value.exit_code == code
