"""Runs of one kind of machine: pooled where they agree, and told apart where they do not."""

import numpy as np
import pyarrow as pa
import pytest

from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import class_columns
from zoolens.findings.comparisons.pooled_runs import (
    answer_words,
    pool,
    pooled_runs,
    repeated_times,
    repeated_words,
    time_words,
)
from zoolens.findings.measure.predictions import KIND
from zoolens.testing.store_records import dataset_record, model_record, stack_record


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def measured(store, milliseconds, machine="", *, host=None, model="zoo:net@1.0.0", stack=None, **resolved):
    """One attempt that took this long on this machine."""
    run = store.begin_attempt(model_record(model), dataset_record(), stack or stack_record(), resolved=resolved)
    about = {"machine": {"name": machine, "host": host or machine}} if machine else {}
    if machine:
        store.set_resolved(run.id, {"machines": [about["machine"]]})
    busy = {"disturbed": True} if resolved.get("busy") else {}
    value = milliseconds / 1e3
    time = Observation(
        "latency_p50", value, scope="batch=1", unit="s", low=value * 0.99, high=value * 1.01, details={**about, **busy}
    )
    store.finish_stage(
        run.id, "latency:batch=1", [time, Observation("latency_p50", 9.0, scope="batch=1,raw", unit="s")]
    )
    return store.run(run.id)


def only(store, **options):
    (found,) = pool(store, store.runs(), **options)
    (time,) = found.times
    return found, time


def test_machines_that_agree_are_pooled_and_the_interval_holds_their_spread(store):
    for milliseconds, machine in ((10.0, "a"), (10.3, "b"), (10.1, "c")):
        measured(store, milliseconds, machine)
    found, time = only(store)
    assert time.agrees
    assert 0.010 < time.pooled.value < 0.0103
    assert time.pooled.low < 0.0100
    assert time.pooled.high > 0.0103
    assert found.machines == ("c", "b", "a")
    assert "from 3 runs on 3 machines of one kind" in time_words(time)


def test_a_machine_that_is_apart_is_named_and_nothing_is_averaged(store):
    for milliseconds, machine in ((10.0, "a"), (14.0, "b"), (10.1, "c"), (9.9, "d")):
        measured(store, milliseconds, machine)
    _, time = only(store)
    assert time.pooled is None
    words = "Not pooled: machine b is 1.4 × slower than 3 others of its kind. Each value: 9.90 ms (d), "
    assert time_words(time).startswith(f"latency_p50 batch=1: {words}")


def test_of_two_machines_that_differ_both_values_are_told(store):
    measured(store, 10, "a")
    measured(store, 14, "b")
    _, time = only(store)
    assert time_words(time) == "latency_p50 batch=1: Not pooled: 14 ms (b), 10 ms (a) do not agree."


def test_machines_of_one_name_are_two(store):
    measured(store, 10, "localhost", host="aaaa1")
    measured(store, 10.1, "localhost", host="bbbb2")
    _, time = only(store)
    assert time.machines == ("localhost (bbbb)", "localhost (aaaa)")


def test_a_run_under_load_is_left_out_and_counted(store):
    measured(store, 10, "a")
    measured(store, 10.1, "a")
    measured(store, 25, "a", busy=True)
    _, time = only(store)
    assert (len(time.times), time.disturbed) == (2, 1)
    assert "from 2 runs on a. 1 measured under load is left out." in time_words(time)


def test_another_provider_or_precision_or_stack_is_never_pooled(store):
    measured(store, 10, "a", provider="cuda")
    measured(store, 30, "a", provider="cpu")
    measured(store, 10, "a", stack=stack_record(version="1.21"))
    groups = list(pool(store, store.runs()))
    assert [len(group.runs) for group in groups] == [1, 1, 1]
    assert all(group.times[0].agrees is None for group in groups)


def test_an_attempt_that_was_carried_over_counts_once(store):
    measured(store, 10, "a")
    measured(store, 10, "a", carried_from=0)
    _, time = only(store)
    assert len(time.times) == 1


def test_attempts_that_a_list_cut_off_are_looked_up(store):
    for milliseconds in (10, 10.1, 10.2):
        measured(store, milliseconds, "a")
    measured(store, 3, "a", model="zoo:other@1.0.0")
    other, net = pooled_runs(store, limit=2)
    assert [len(group.runs) for group in (other, net)] == [1, 3]


def test_two_kinds_are_compared_with_all_their_attempts(store):
    for milliseconds, machine in ((10, "a"), (10.3, "b"), (10.1, "c")):
        measured(store, milliseconds, machine)
    first = store.runs()[-1]
    newer = stack_record(version="1.21")
    single = measured(store, 5, "a", stack=newer)
    (repeated,) = repeated_times(store, first, single)
    assert repeated.factor[0] == pytest.approx(0.493, abs=0.01)
    assert repeated.factor[1] < 0.493 < repeated.factor[2]
    assert "B 5.00 ms [4.95, 5.05] from 1 run on a." in repeated_words(repeated).replace("5 ms", "5.00 ms")
    assert "B takes 0.493 × the time of A [" in repeated_words(repeated)
    measured(store, 9, "b", stack=newer)
    (repeated,) = repeated_times(store, first, single)
    assert repeated.factor is None
    assert repeated_words(repeated).endswith("do not agree. How they compare is not known.")


def test_two_attempts_of_one_kind_are_not_compared_with_themselves(store):
    a, b = measured(store, 10, "a"), measured(store, 10.1, "b")
    assert repeated_times(store, a, b) == ()


def answered(store, probabilities, machine):
    run = measured(store, 10, machine, outputs=[{"name": "out", "task": "classification", "width": 3}])
    labels = np.zeros(len(probabilities), np.int32)
    head = {"index": np.arange(len(labels)), "input": [str(i) for i in range(len(labels))], "label": labels}
    store.add_part(run.id, KIND, 0, pa.table({**head, **class_columns(probabilities, labels)}))
    store.finish_stage(run.id, "predictions")
    return store.run(run.id)


def test_answers_that_differ_between_machines_of_one_kind_are_a_finding(store):
    first = np.tile(np.array([[0.7, 0.2, 0.1]], np.float32), (100, 1))
    other = first.copy()
    other[:3] = [0.2, 0.7, 0.1]
    answered(store, first, "a")
    answered(store, other, "b")
    found, _ = only(store)
    (difference,) = found.answers
    assert (difference.differing, difference.n) == (3, 100)
    assert answer_words(difference).startswith(
        "Answers differ on 3 of 100 inputs between two machines of one kind, b and a ("
    )
    assert answer_words(difference).endswith("): not pooled.")


def test_answers_that_round_otherwise_are_told_as_such(store):
    first = np.tile(np.array([[0.7, 0.2, 0.1]], np.float32), (100, 1))
    answered(store, first, "a")
    answered(store, first * np.float32(1.0000002), "b")
    found, _ = only(store)
    (difference,) = found.answers
    assert (difference.differing, difference.other_bits) == (0, 100)
    assert "All answers are the same, and outputs are not bit-equal on 100 of 100 inputs" in answer_words(difference)


def test_equal_answers_are_no_finding(store):
    first = np.tile(np.array([[0.7, 0.2, 0.1]], np.float32), (100, 1))
    answered(store, first, "a")
    answered(store, first, "b")
    found, _ = only(store)
    assert found.answers == ()
