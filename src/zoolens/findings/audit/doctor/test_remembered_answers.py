import numpy as np
import pytest

from zoolens.findings.audit.doctor.remembered_answers import RememberedAnswers


class Counting:
    """Doubles what it is given, and counts the batches."""

    def __init__(self):
        self.run = 0

    def begin_predict(self, batches):
        self.run += len(batches)
        answers = [{"out": 2 * feeds["x"]} for feeds in batches]
        return lambda: answers


def batch(*values):
    return {"x": np.array(values, np.float32)}


def test_a_batch_is_run_once():
    network, known = Counting(), RememberedAnswers()
    for _ in range(2):
        answers = known.begin_predict(network, "as declared", [batch(1), batch(2)])()
        assert [answer["out"].tolist() for answer in answers] == [[2], [4]]
    (again, new) = known.begin_predict(network, "as declared", [batch(2), batch(3)])()
    assert (again["out"].tolist(), new["out"].tolist()) == ([4], [6])
    assert network.run == 3


def test_what_is_kept_cannot_be_changed():
    known = RememberedAnswers()
    known.begin_predict(Counting(), "as declared", [batch(1)])()
    (answer,) = known.begin_predict(Counting(), "as declared", [batch(1)])()
    with pytest.raises(ValueError, match="read-only"):
        answer["out"] += 1


def test_inputs_of_another_type_or_session_are_others():
    network, known = Counting(), RememberedAnswers()
    known.begin_predict(network, "one", [batch(1)])()
    known.begin_predict(network, "other", [batch(1)])()
    known.begin_predict(network, "one", [{"x": np.array([1065353216], np.int32)}])()
    assert network.run == 3


def test_without_room_everything_is_run_again():
    network, known = Counting(), RememberedAnswers(room=3)
    for _ in range(2):
        known.begin_predict(network, "one", [batch(1)])()
    assert network.run == 2
