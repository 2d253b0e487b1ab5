"""Which models may answer several requests in one call."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.errors import ModelError, UnexpectedError, WorkerError
from zoolens.runtimes.base import Effective, Session, TensorSpec
from zoolens.serving.plane.probe import probe


class Computed(Session):
    """A model that is a function of its only input."""

    def __init__(self, function, shape=(None, 4), dtype="float32", outputs=(None, 4)):
        self._function = function
        self.inputs = (TensorSpec("x", shape, dtype),)
        self.outputs = (TensorSpec("y", outputs, "float32"),)
        self.calls = 0

    def predict(self, feeds):
        self.calls += 1
        return {"y": np.asarray(self._function(feeds["x"], self.calls), np.float32)}

    def effective(self):
        return Effective("numpy")


def fails(x, call):
    raise ModelError("It never answers.")


def needs_small_ids(x, call):
    if x.max() > 1:
        raise UnexpectedError("Its table has two rows.")
    return x


def fixed_inside(x, call):
    if len(x) > 1:
        raise ModelError("It takes one row.")
    return x


@pytest.mark.parametrize(
    ("session", "batched", "reason"),
    [
        (Computed(lambda x, call: x * 2), True, "4 random rows were answered the same"),
        (Computed(lambda x, call: x * (1 + 1e-6 * len(x))), True, "answered the same"),
        (Computed(lambda x, call: np.round(x / np.abs(x).max() * 127) * np.abs(x).max() / 127), False, "differs by"),
        (Computed(lambda x, call: np.cumsum(x, 0)), False, "In a batch of 4 its output 'y' differs"),
        (Computed(lambda x, call: x.sum(0, keepdims=True)), False, "one row for each row of input"),
        (Computed(lambda x, call: x + call), False, "differently from call to call"),
        (Computed(fixed_inside), False, "does not run a batch of 4: It takes one row."),
        (Computed(lambda x, call: x, shape=(1, 4)), False, "first dimension of its input 'x' is fixed to 1"),
        (Computed(lambda x, call: x.sum(), outputs=()), False, "output 'y' is a single value"),
        (Computed(lambda x, call: x * np.nan), False, "no inputs were found that it answers with finite numbers"),
        (Computed(fails), False, "It never answers."),
        (Computed(needs_small_ids, (None, None), "int64", (None, None)), True, "answered the same"),
        (Computed(lambda x, call: x, (None,), "string"), False, "texts"),
    ],
)
def test_only_a_model_that_answers_in_a_batch_as_alone_is_batched(session, batched, reason):
    verdict = probe(session, "auto", 64)
    assert (verdict.batched, reason in verdict.reason) == (batched, True), verdict


def test_batching_can_be_switched_off_and_forced():
    scaled = Computed(lambda x, call: x / np.abs(x).max())
    assert not probe(Computed(lambda x, call: x), "off", 64).batched
    assert probe(scaled, "force", 64).batched
    assert "nobody checked" in probe(scaled, "force", 64).reason
    assert not probe(Computed(lambda x, call: x, shape=(1, 4)), "force", 64).batched


def test_a_model_exported_for_one_row_is_batched_where_its_runtime_runs_any_number_of_rows():
    session = Computed(lambda x, call: x, shape=(1, 4), outputs=(1, 4))
    assert not probe(session, "auto", 64).batched
    assert probe(session, "auto", 64, any_batch=True).batched
    fixed = Computed(fixed_inside, shape=(1, 4), outputs=(1, 4))
    verdict = probe(fixed, "auto", 64, any_batch=True)
    assert verdict.spoilt
    assert "does not run a batch of 4" in verdict.reason


def test_a_worker_that_dies_is_no_verdict():
    def dies(x, call):
        raise WorkerError("It died.")

    with pytest.raises(WorkerError):
        probe(Computed(dies), "auto", 64)
