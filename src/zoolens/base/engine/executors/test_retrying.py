"""Which failures are tried again, how often and after which pause."""

import threading
from concurrent.futures import Future

import pytest

from zoolens.base.engine.executors.retrying import retried
from zoolens.base.engine.retry_policy import RetryPolicy, machine_was_lost, retry_policy, worker_was_killed
from zoolens.base.errors import (
    Cancelled,
    Circumstance,
    DatasetError,
    Lost,
    ModelError,
    UnexpectedError,
    WorkerTimeout,
    ZoolensError,
)

QUICK = RetryPolicy(retries=2, pause=0.001)


def ended(result):
    future = Future()
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
    return future


def tried(*results):
    """The future of a job whose attempts end like this, and what was told of those that were lost."""
    told, left = [], iter(results)

    def start():
        result = next(left)
        if isinstance(result, ConstraintOfStart):
            raise result
        return ended(result)

    return retried(start, QUICK, machine_was_lost, lambda error, pause: told.append((str(error), pause))), told


class ConstraintOfStart(Lost):
    pass


def test_a_lost_machine_costs_a_pause_that_doubles():
    future, told = tried(Lost("a"), Lost("b"), 7)
    assert future.result(10) == 7
    assert told == [("a", 0.001), ("b", 0.002)]


def test_it_is_given_up_after_so_many():
    future, told = tried(Lost("a"), Lost("b"), Lost("c"), 7)
    with pytest.raises(Lost, match="c"):
        future.result(10)
    assert len(told) == 2


def test_a_cluster_that_is_away_when_it_is_asked_again_counts_as_lost():
    future, told = tried(Lost("a"), ConstraintOfStart("away"), 7)
    assert future.result(10) == 7
    assert [reason for reason, _ in told] == ["a", "away"]


def test_a_cluster_that_is_away_when_it_is_asked_first_counts_as_lost_too():
    future, told = tried(ConstraintOfStart("away"), 7)
    assert future.result(10) == 7
    assert [reason for reason, _ in told] == ["away"]

    def never():
        raise ZoolensError("No node has a GPU.")

    with pytest.raises(ZoolensError, match="has a GPU"):
        retried(never, QUICK, machine_was_lost, lambda *_: None)


@pytest.mark.parametrize(
    "fault",
    [ModelError("bad file"), DatasetError("wrong shape"), UnexpectedError("KeyError"), WorkerTimeout("slow"),
     Cancelled("by ann"), ZoolensError("NaN")],
)  # fmt: skip
def test_a_fault_of_a_model_or_of_ours_is_never_tried_again(fault):
    future, told = tried(fault, 7)
    with pytest.raises(type(fault)):
        future.result(10)
    assert told == []
    assert not worker_was_killed(fault)


def test_a_killed_worker_is_another_matter_than_a_lost_machine():
    assert worker_was_killed(Circumstance("killed"))
    assert not machine_was_lost(Circumstance("killed"))


def test_cancelling_ends_the_attempt_and_the_ones_to_come():
    attempt = Future()
    future = retried(lambda: attempt, QUICK, machine_was_lost, lambda *_: None)
    assert future.cancel()
    assert attempt.cancelled()
    begun = threading.Event()
    starts = iter([lambda: ended(Lost("a")), lambda: begun.set() or Future()])
    paused = retried(lambda: next(starts)(), RetryPolicy(pause=0.05), machine_was_lost, lambda *_: None)
    assert paused.cancel()
    assert not begun.wait(0.15)


def test_the_policy_is_set_by_variables(monkeypatch):
    assert retry_policy() == RetryPolicy()
    assert [RetryPolicy().pause_before(retry) for retry in (1, 2, 3, 99)] == [1.0, 2.0, 4.0, 60.0]
    monkeypatch.setenv("ZOOLENS_JOB_RETRIES", "0")
    monkeypatch.setenv("ZOOLENS_JOB_PAUSE", "2.5")
    assert retry_policy() == RetryPolicy(0, 2.5, 0)
    for value in ("-1", "many", "nan", "1.5"):
        monkeypatch.setenv("ZOOLENS_JOB_RETRIES", value)
        with pytest.raises(ZoolensError, match=f"ZOOLENS_JOB_RETRIES is '{value}', which makes no sense"):
            retry_policy()
