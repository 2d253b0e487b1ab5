"""Samples that are read while something else happens: the same, each once, and no errors before their time."""

from threading import Event

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets import read_ahead
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.read_ahead import ReadAhead

BAD = 5


class Pictures(Dataset):
    """Eight pictures, of which one is damaged. `read_to` says when a picture was reached."""

    name, encoded = "pictures", True

    def __init__(self, error=DatasetError):
        self.error = error("A picture is damaged.")
        self.seen, self.reached = [], {index: Event() for index in range(len(self))}

    def __len__(self):
        return 8

    def read(self, index):
        self.seen.append(index)
        self.reached[index].set()
        if index == BAD:
            raise self.error
        return Sample(str(index), np.full((4, 4, 3), index, np.uint8), index)

    def labels(self):
        return np.arange(len(self))

    def fingerprint(self):
        return "pictures"


def test_what_was_read_meanwhile_is_at_hand_and_read_once():
    pictures = Pictures()
    with ReadAhead(pictures, 2) as ahead:
        assert pictures.reached[4].wait(10)
    samples = [ahead.read(index) for index in range(5)]
    assert [sample.id for sample in samples] == list("01234")
    assert all((sample.value == index).all() for index, sample in enumerate(samples))
    assert sorted(index for index in pictures.seen if index < BAD) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [DatasetError, ValueError])
def test_an_error_is_raised_when_its_sample_is_due(error):
    pictures = Pictures(error)
    with ReadAhead(pictures) as ahead:
        assert pictures.reached[BAD].wait(10)
    assert ahead.read(BAD - 1).label == BAD - 1
    with pytest.raises(error, match="damaged"):
        ahead.read(BAD)
    assert max(pictures.seen) == BAD


def test_no_more_is_held_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(read_ahead, "_MOST_BYTES", 4 * 4 * 3)
    pictures = Pictures()
    with ReadAhead(pictures) as ahead:
        ahead._thread.join(10)
    assert pictures.seen == [0, 1]


def test_what_lies_in_memory_is_left_there():
    pictures = Pictures()
    pictures.encoded = False
    with ReadAhead(pictures) as ahead:
        pass
    assert not pictures.seen
    assert ahead.read(0).label == 0


def test_the_thread_ends_with_an_error_of_whoever_opens_the_model():
    with pytest.raises(ValueError, match="no such model"), ReadAhead(Pictures()) as ahead:
        raise ValueError("no such model")
    assert not ahead._thread.is_alive()
