import numpy as np
import pytest

from zoolens.training.crosstrain.training.diff.losses import SMOOTHING, binary, measured, smoothed, squared, unlimited


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


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(SMOOTHING / 3, "all classes"), (SMOOTHING / 2, "the other classes"), (0.0, "something else")],
)
def test_how_labels_are_smoothed_is_measured(wrong, words):
    def loss(scores, labels):
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        hot = np.eye(3)[labels]
        return -((hot * (1 - 2 * wrong) + (1 - hot) * wrong) * logs).sum(1).mean()

    found = smoothed("loss", loss, takes_numbers=False)
    assert found.does["label smoothing spreads over"] == words
    assert found.does["label smoothing of class numbers"] == "no, of one-hot labels alone"


@pytest.mark.parametrize(
    ("reduce", "words"),
    [(np.mean, "mean"), (np.sum, "sum"), (lambda each: each.sum(1).mean(), "sum of outputs, mean of samples"),
     (np.asarray, "none"), (np.max, "something else")],
)  # fmt: skip
def test_a_reduction_over_outputs_is_measured(reduce, words):
    def entropy(scores, targets):
        yes = 1 / (1 + np.exp(-scores))
        return reduce(-(targets * np.log(yes) + (1 - targets) * np.log(1 - yes)))

    question = "reduction over samples and outputs"
    assert squared("loss", lambda scores, targets: reduce((scores - targets) ** 2)).does[question] == words
    found = binary("loss", entropy, None).does
    assert (found[question], found["label smoothing"]) == (words, "none")
    assert found["takes"] == ("something else" if words == "something else" else "logits")


def test_smoothing_of_a_binary_loss_is_measured():
    def loss(smoothing):
        def entropy(chances, targets):
            targets = targets * (1 - SMOOTHING) + smoothing
            return -(targets * np.log(chances) + (1 - targets) * np.log(1 - chances)).mean()

        return entropy

    def plain(chances, targets):
        return -(targets * np.log(chances) + (1 - targets) * np.log(1 - chances)).mean()

    assert binary("loss", plain, loss(SMOOTHING / 2)).does["label smoothing"] == "towards one half"
    assert binary("loss", plain, loss(SMOOTHING / 3)).does["label smoothing"] == "something else"
    assert binary("loss", plain, None).does["takes"] == "probabilities"
