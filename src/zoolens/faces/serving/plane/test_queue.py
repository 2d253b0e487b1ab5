"""Requests that wait. `make mutants` runs these."""

import asyncio
import logging

import numpy as np
import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.plane.queue import Pending, RequestQueue

FIRST, SECOND = ((1, 4),), ((1, 8),)
ANY, PINNED = frozenset({0, 1}), frozenset({1})


def pending(arrived_ns, *, rows=1, key=FIRST, allowed=ANY, done=lambda result: None):
    inputs = {"x": np.zeros((rows, 4), np.float32), "y": np.zeros(rows, np.uint8)}  # 17 bytes a row
    return Pending(InferRequest("m", inputs), rows, key, allowed, arrived_ns, arrived_ns / 1e9, 1e3, done)


def filled(*pendings):
    queue = RequestQueue()
    for each in pendings:
        queue.add(each)
    return queue


def counts(queue):
    return queue.requests, queue.rows, queue.bytes


def test_requests_rows_and_bytes_are_counted():
    queue = RequestQueue()
    assert not queue
    assert counts(queue) == (0, 0, 0)
    one, three = pending(1), pending(2, rows=3)
    assert not one.waiting
    queue.add(one)
    queue.add(three)
    assert queue
    assert one.waiting
    assert counts(queue) == (2, 4, 68)
    queue.take(one)
    assert not one.waiting
    assert counts(queue) == (1, 3, 51)
    queue.take(three)
    assert not queue
    assert counts(queue) == (0, 0, 0)


def test_a_line_holds_what_may_share_a_batch_in_the_order_of_arrival():
    one, two, three = pending(1), pending(2), pending(3)
    other, pinned = pending(4, key=SECOND), pending(5, allowed=PINNED)
    queue = filled(one, two, other, pinned, three)
    assert [list(line) for line in queue.lines()] == [[one, two, three], [other], [pinned]]
    assert one.line_key == (FIRST, ANY)


def test_the_line_with_the_oldest_head_is_first():
    late, early, middle = pending(9), pending(3, key=SECOND), pending(5, allowed=PINNED)
    assert [line[0] for line in filled(late, early, middle).lines()] == [early, middle, late]
    assert RequestQueue().lines() == []


def test_any_request_can_be_taken_off_and_a_line_that_is_empty_is_gone():
    one, two, three = pending(1), pending(2), pending(3)
    queue = filled(one, two, three)
    queue.take(two)
    assert [list(line) for line in queue.lines()] == [[one, three]]
    queue.take(one)
    queue.take(three)
    assert queue.lines() == []


def test_what_is_put_back_stands_in_front_in_its_order():
    one, two, three = pending(1), pending(2), pending(3)
    queue = filled(one, two, three)
    queue.take(one)
    queue.take(two)
    queue.put_back([one, two])
    assert [list(line) for line in queue.lines()] == [[one, two, three]]
    assert counts(queue) == (3, 3, 51)
    assert two.waiting
    queue.take(three)
    queue.take(one)
    queue.take(two)
    queue.put_back([one, two])  # into a line that is gone
    assert [list(line) for line in queue.lines()] == [[one, two]]


def test_all_can_be_taken_off():
    one, two, other = pending(1), pending(2), pending(3, key=SECOND)
    queue = filled(one, two, other)
    assert queue.empty() == [one, two, other]
    assert not queue
    assert counts(queue) == (0, 0, 0)
    assert not one.waiting


def test_a_new_request_is_neither_settled_nor_alone():
    new = pending(7, rows=2, allowed=PINNED)
    assert (new.settled, new.alone, new.waiting, new.timer, new.converted) == (False, False, False, None, None)
    assert (new.rows, new.key, new.allowed, new.arrived_ns) == (2, FIRST, PINNED, 7)
    assert (new.arrived, new.deadline) == (7e-9, 1e3)


def test_an_answer_is_handed_over_once():
    told = []
    one = pending(1, done=told.append)
    error = ServingError(Refusal.INVALID, "no")
    one.settle(error)
    one.settle(ServingError(Refusal.INVALID, "again"))
    assert told == [error]
    assert one.settled


def test_nobody_is_told_of_what_is_forgotten():
    told = []
    one = pending(1, done=told.append)
    one.forget()
    one.settle(ServingError(Refusal.INVALID, "no"))
    assert told == []
    assert one.settled


def test_settling_stops_the_timer():
    async def settled():
        one = pending(1)
        one.timer = asyncio.get_running_loop().call_later(1e6, lambda: None)
        one.settle(ServingError(Refusal.INVALID, "no"))
        return one.timer.cancelled()

    assert asyncio.run(settled())


def test_whoever_fails_at_taking_an_answer_harms_nobody(caplog):
    def fails(result):
        raise RuntimeError("gone")

    with caplog.at_level(logging.ERROR, "zoolens.serving"):
        pending(1, done=fails).settle(ServingError(Refusal.INVALID, "no"))
    assert caplog.messages == ["an answer could not be handed over"]


def test_a_request_that_does_not_wait_cannot_be_taken():
    with pytest.raises(KeyError):
        RequestQueue().take(pending(1))
