import threading
import time

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.faces.load.arrivals import constant, poisson
from zoolens.faces.load.closed_loop import drive_closed_loop
from zoolens.faces.load.driver import DriverSettings
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.open_loop import drive_open_loop
from zoolens.faces.load.results import summarise
from zoolens.faces.load.transport import make_transport
from zoolens.faces.load.workload import Workload
from zoolens.testing.v2_server import serving


def echo(request):
    return InferResponse(request.model, "1", {"logits": request.inputs["input"]}, parameters={"zoolens_model": "a"})


def workload(count=5, model="net"):
    requests = [InferRequest(model, {"input": np.full((1, 4), n, np.float32)}) for n in range(count)]
    return Workload(tuple(requests), "numbers", lambda number, answer: int(answer.outputs["logits"][0, 0] == number))


def transport(address, binary=True):
    return make_transport(address, "", binary=binary)


@pytest.mark.parametrize("binary", [True, False])
def test_an_open_loop_sends_everything_and_judges_the_answers(binary):
    with serving(echo) as address:
        exchanges = drive_open_loop(transport(address, binary), workload(), poisson(200, 0.5, seed=1))
    assert exchanges.answered.all()
    assert (exchanges.correct == 1).all()
    assert set(exchanges.input.tolist()) == set(range(5))
    assert exchanges.models == ["a"]
    assert (exchanges.finished > exchanges.sent).all()
    assert (exchanges.sent >= exchanges.intended).all()


def test_a_stall_of_the_server_counts_for_all_who_would_have_been_answered_meanwhile():
    """The very error of coordinated omission: a server that stands still once, for a third of a second, makes one slow
    request in a closed loop, and dozens in an open one."""
    still = threading.Lock()
    stalled = threading.Event()
    count = [0]

    def answer(request):
        with still:
            count[0] += 1
            if count[0] == 60 and not stalled.is_set():
                stalled.set()
                time.sleep(0.3)
        return echo(request)

    with serving(answer) as address:
        opened = drive_open_loop(transport(address), workload(), constant(200, 0.7), DriverSettings(warmup=2))
        count[0] = 0
        stalled.clear()
        closed = drive_closed_loop(
            transport(address), workload(), clients=1, duration=0.7, settings=DriverSettings(warmup=2)
        )
    assert (opened.latency > 0.05).sum() > 30
    assert (closed.latency > 0.25).sum() < 10  # a busy machine makes requests wait, too, but not so many for so long


def test_refusals_hangups_and_nonsense_are_outcomes_of_their_own():
    kinds = {
        1: ServingError(Refusal.OVERLOADED, "The queue is full."),
        2: ServingError(Refusal.INTERNAL, "It broke."),
        3: ConnectionAbortedError(),
        4: ServingError(Refusal.TOO_LATE, "Too late."),
    }

    def answer(request):
        number = int(request.inputs["input"][0, 0])
        if number in kinds:
            raise kinds[number]
        return echo(request)

    with serving(answer) as address:
        exchanges = drive_open_loop(transport(address), workload(), constant(100, 0.5), DriverSettings(warmup=0))
    results = summarise(exchanges, loop="open", seconds=0.5)
    assert results.outcomes == dict.fromkeys(
        (Outcome.ANSWERED, Outcome.SHED, Outcome.TOO_LATE, Outcome.FAILED, Outcome.DISCONNECTED), 10
    )
    assert results.reasons[Outcome.SHED] == "The queue is full."
    assert "closed the connection" in results.reasons[Outcome.DISCONNECTED]


def test_an_answer_that_cannot_be_decoded_is_no_answer():
    with serving(lambda request: InferResponse("net", "1", {"other": np.zeros(1)})) as address:
        broken = Workload(workload().requests, "numbers", lambda number, answer: _missing())
        exchanges = drive_open_loop(transport(address), broken, constant(50, 0.1))
    assert exchanges.of(Outcome.UNREADABLE).all()


def _missing():
    raise ZoolensError("The answer has no output 'logits'.")


def test_a_silent_server_is_given_up_and_the_run_ends():
    forever = threading.Event()

    def answer(request):
        forever.wait(5)
        return echo(request)

    with serving(answer) as address:
        settings = DriverSettings(timeout=0.2, warmup=0)
        exchanges = drive_open_loop(transport(address), workload(), constant(50, 0.1), settings)
        forever.set()
    assert exchanges.of(Outcome.TIMED_OUT).all()


def test_more_requests_than_connections_are_held_back_and_the_run_is_marked():
    def answer(request):
        time.sleep(0.02)
        return echo(request)

    with serving(answer) as address:
        settings = DriverSettings(connections=1, warmup=0)
        exchanges = drive_open_loop(transport(address), workload(), constant(100, 0.3), settings)
    assert exchanges.answered.all()
    assert "free connection" in summarise(exchanges, loop="open", seconds=0.3).invalid[0]


def test_a_closed_loop_has_as_many_requests_under_way_as_clients():
    now, most = [0], [0]
    lock, all_there = threading.Lock(), threading.Event()

    def answer(request):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 3:
                all_there.set()
        all_there.wait(20)  # for the other clients, however late they get a core
        with lock:
            now[0] -= 1
        return echo(request)

    with serving(answer) as address:
        exchanges = drive_closed_loop(
            transport(address), workload(), clients=3, duration=0.3, settings=DriverSettings(warmup=0)
        )
    assert most[0] == 3
    assert exchanges.answered.all()
    assert len(exchanges) > 3


def test_a_wrong_model_is_an_error_before_the_run_begins():
    with serving(echo) as address, pytest.raises(ZoolensError, match="unknown model"):
        drive_open_loop(transport(address), workload(model="other"), constant(10, 1))


def test_no_server_is_an_error_before_the_run_begins():
    with serving(echo) as address:
        pass
    with pytest.raises(ZoolensError, match="No answer"):
        drive_open_loop(transport(address), workload(), constant(10, 1))


@pytest.mark.parametrize("wrong", [{"connections": 0}, {"connections": 5000}, {"timeout": 0}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ZoolensError):
        DriverSettings(**wrong)
