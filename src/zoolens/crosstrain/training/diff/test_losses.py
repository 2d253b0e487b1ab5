import numpy as np
import pytest

from zoolens.crosstrain.training.diff.losses import measured, unlimited


def cross_entropy(*, reduce, from_logits, floor=0.0):
    def loss(scores, labels):
        scores = scores.astype(np.float64)
        if from_logits:
            logs = scores - np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True))
            logs -= scores.max(1, keepdims=True)
        else:
            logs = np.log(np.maximum(scores, floor))
        return reduce(-logs[np.arange(len(labels)), labels])

    return loss


@pytest.mark.parametrize(
    ("reduce", "name"), [(np.mean, "mean"), (np.sum, "sum"), (np.asarray, "none"), (np.max, "something else")]
)
def test_the_reduction_is_measured(reduce, name):
    assert measured("loss", cross_entropy(reduce=reduce, from_logits=True)).reduction == name


def test_logits_and_an_unlimited_loss():
    found = measured("loss", cross_entropy(reduce=np.mean, from_logits=True))
    assert (found.takes, found.largest) == ("logits", 1000.0)
    assert unlimited(found)


def test_probabilities_that_are_cut_off_limit_the_loss():
    found = measured("loss", cross_entropy(reduce=np.mean, from_logits=False, floor=1e-7))
    assert (found.takes, found.largest) == ("probabilities", 16.12)
    assert not unlimited(found)
