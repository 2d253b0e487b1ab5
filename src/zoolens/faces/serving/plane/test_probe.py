"""Which models may answer several requests in one call."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnexpectedError, WorkerError
from zoolens.faces.serving.plane.probe import probe
from zoolens.inventory.runtimes.runtime import Effective, Session, TensorSpec


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
        (Computed(lambda x, call: x * 2), True, "4 and 64 random rows were answered the same alone and in a batch."),
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


def loses_rows_beyond(most):
    return lambda x, call: np.concatenate([x[:most], np.zeros_like(x[most:])])


def takes_at_most(most):
    def answer(x, call):
        if len(x) > most:
            raise ModelError(f"It takes {most} rows.")
        return x

    return answer


def dies_beyond(most):
    def answer(x, call):
        if len(x) > most:
            raise WorkerError("It died.")
        return x

    return answer


@pytest.mark.parametrize(
    ("function", "rows", "spoilt", "reason"),
    [
        (loses_rows_beyond(32), 32, False, "In a batch of 64 its output 'y' differs"),
        (loses_rows_beyond(63), 32, False, "In a batch of 64 its output 'y' differs"),
        (loses_rows_beyond(5), 4, False, "Larger batches are not made."),
        (lambda x, call: x / (np.abs(x).max() if len(x) > 20 else 1), 16, False, "In a batch of 32 its output"),
        (lambda x, call: x[::-1] if len(x) > 8 else x, 8, False, "In a batch of 16 its output"),
        (lambda x, call: x[: min(len(x), 40)], 32, False, "does not have one row for each row of input"),
        (takes_at_most(16), 4, True, "It does not run a batch of 64: It takes 16 rows."),
        (dies_beyond(50), 4, True, "It does not run a batch of 64: It died."),
    ],
)
def test_a_batch_is_never_larger_than_what_was_tried(function, rows, spoilt, reason):
    """What holds for four rows need not hold for 64."""
    verdict = probe(Computed(function), "auto", 64)
    assert (verdict.batched, verdict.rows, verdict.spoilt) == (True, rows, spoilt)
    assert reason in verdict.reason
    assert verdict.reason.endswith("Larger batches are not made.")


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 7, 64, 100])
def test_every_size_that_is_asked_for_is_tried(most):
    sizes = []
    verdict = probe(Computed(lambda x, call: (sizes.append(len(x)), x)[1]), "auto", most)
    assert (verdict.batched, verdict.rows, max(sizes)) == (True, most, most)


def test_large_inputs_are_tried_in_batches_that_fit():
    wide = Computed(lambda x, call: x[:, :4], shape=(None, 1 << 24))
    verdict = probe(wide, "auto", 64)
    assert (verdict.batched, verdict.rows) == (True, 4)  # 64 MiB a row


def test_batching_can_be_switched_off_and_forced():
    scaled = Computed(lambda x, call: x / np.abs(x).max())
    assert not probe(Computed(lambda x, call: x), "off", 64).batched
    assert probe(scaled, "force", 64).rows == 64
    assert "was not checked" in probe(scaled, "force", 64).reason
    assert not probe(Computed(lambda x, call: x, shape=(1, 4)), "force", 64).batched


def test_a_model_exported_for_one_row_is_batched_where_its_runtime_runs_any_number_of_rows():
    session = Computed(lambda x, call: x, shape=(1, 4), outputs=(1, 4))
    assert not probe(session, "auto", 64).batched
    assert probe(session, "auto", 64, any_batch=True).batched
    fixed = Computed(fixed_inside, shape=(1, 4), outputs=(1, 4))
    verdict = probe(fixed, "auto", 64, any_batch=True)
    assert verdict.spoilt
    assert "does not run a batch of 4" in verdict.reason


def test_a_worker_that_dies_of_a_batch_alone_is_asked_one_by_one():
    verdict = probe(Computed(dies_beyond(1)), "auto", 64)
    assert (verdict.batched, verdict.rows, verdict.spoilt) == (False, 1, True)
    assert verdict.reason == "It does not run a batch of 4: It died."


def test_a_worker_that_dies_is_no_verdict():
    def dies(x, call):
        raise WorkerError("It died.")

    with pytest.raises(WorkerError):
        probe(Computed(dies), "auto", 64)
