from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.base.errors import Circumstance, ModelError, WorkerError
from zoolens.findings.measure.job_runner import _Stages
from zoolens.findings.measure.outcome_notes import said_of_classes
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.subset import select


def test_the_first_inputs_of_sorted_classes_are_told_to_be_of_a_few():
    labels = np.repeat(np.arange(10), 20)
    data = ArrayDataset(np.zeros((200, 2), np.uint8), labels, name="sorted")
    (said,) = said_of_classes(select(data, 40))
    assert said.startswith("these 40 inputs are of 2 of the dataset's 10 classes")
    assert not list(said_of_classes(select(data, 40, seed=1)))
    assert not list(said_of_classes(data))
    shuffled = ArrayDataset(np.zeros((200, 2), np.uint8), np.random.default_rng(0).permutation(labels), name="mixed")
    assert not list(said_of_classes(select(shuffled, 40)))


@pytest.mark.parametrize(
    ("errors", "calls"), [([Circumstance("killed")], 2), ([Circumstance("killed")] * 2, 2), ([ModelError("NaN")], 1)]
)
def test_a_stage_whose_worker_was_killed_is_tried_once_more(monkeypatch, errors, calls):
    monkeypatch.setenv("ZOOLENS_JOB_PAUSE", "0")
    stages, said, closed, left = _Stages.__new__(_Stages), [], [], list(errors)
    stages._context = SimpleNamespace(progress=SimpleNamespace(say=said.append), job=SimpleNamespace(title="m"))
    stages._opener = SimpleNamespace(close=lambda: closed.append(1))
    called = []

    def work():
        called.append(1)
        if left:
            raise left.pop(0)
        return ["fact"]

    if len(errors) == calls:
        with pytest.raises((WorkerError, ModelError)):
            stages._observed(work)
    else:
        assert stages._observed(work) == ["fact"]
        assert said == ["m: killed Tried again in 0 s."]
    assert len(called) == calls
    assert len(closed) == calls - 1
