"""What every executor keeps: subclass `ExecutorContract` in your tests and say how yours is made.

class TestSlurm(ExecutorContract):
    def executor(self):
        return Slurm.open(None)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from zoolens.base.engine.executors.executor import Executor, run_jobs
from zoolens.base.engine.executors.reports import teller
from zoolens.base.engine.sandbox import trusted, trusting
from zoolens.base.errors import AssetError, ModelError, UnexpectedError

_HERE = __name__
_PATIENCE = 120.0  # seconds; a machine that is not there yet may have to start


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """What the contract has executors run."""
    match job["do"]:
        case "refuse":
            raise ModelError("It is made of glass.", hint="Do not touch it.")
        case "stumble":
            raise KeyError("unheard of")
        case "tell":
            tell = teller()
            for count in range(job["number"]):
                tell({"count": count, "content": job["content"]})
            time.sleep(job["seconds"])
        case "sleep":
            time.sleep(job["seconds"])
    return {"twice": 2 * job["number"], "content": job["content"][::-1], "trusted": trusted()}


def _job(number: int, do: str = "answer", seconds: float = 0.0) -> dict[str, Any]:
    return {"do": do, "number": number, "content": b"\x00\x01", "seconds": seconds}


def _require_reports(executor: Executor) -> None:
    if type(executor).submit_telling is Executor.submit_telling:
        pytest.skip(f"{executor.name} carries no reports of running jobs")


class ExecutorContract:
    def executor(self) -> Executor:
        raise NotImplementedError("say how the executor is made")

    @pytest.fixture
    def opened(self) -> Iterator[Executor]:
        executor = self.executor()
        yield executor
        executor.close()

    def test_it_says_how_much_it_can_do_at_once(self, opened: Executor) -> None:
        assert opened.capacity >= 1

    def test_plain_data_and_bytes_come_and_go(self, opened: Executor) -> None:
        answer = opened.submit(f"{_HERE}:answer", _job(4)).result(_PATIENCE)
        assert answer == {"twice": 8, "content": b"\x01\x00", "trusted": False}

    def test_every_job_has_one_result_under_its_number(self, opened: Executor) -> None:
        answers = dict(run_jobs(opened, f"{_HERE}:answer", [_job(number) for number in range(20)]))
        assert {number: answer["twice"] for number, answer in answers.items()} == {n: 2 * n for n in range(20)}

    def test_errors_keep_their_kind_sentence_and_hint(self, opened: Executor) -> None:
        results = dict(run_jobs(opened, f"{_HERE}:answer", [_job(0), _job(1, "refuse"), _job(2, "stumble")]))
        assert results[0]["twice"] == 0
        assert type(results[1]) is ModelError
        assert (results[1].message, results[1].hint) == ("It is made of glass.", "Do not touch it.")
        assert isinstance(results[2], UnexpectedError)
        assert "unexpected KeyError at executor_contract.py" in results[2].message

    def test_trust_travels_with_the_job_and_no_further(self, opened: Executor) -> None:
        with trusting():
            assert opened.submit(f"{_HERE}:answer", _job(1)).result(_PATIENCE)["trusted"]
        assert not opened.submit(f"{_HERE}:answer", _job(1)).result(_PATIENCE)["trusted"]

    def test_nobody_need_listen_to_what_a_job_tells(self, opened: Executor) -> None:
        assert opened.submit(f"{_HERE}:answer", _job(3, "tell")).result(_PATIENCE)["twice"] == 6
        told: list[Any] = []
        future = opened.submit_telling(f"{_HERE}:answer", _job(1), told.append)
        assert future.result(_PATIENCE)["twice"] == 2
        assert not told

    def test_what_a_job_tells_arrives_in_order_while_it_runs(self, opened: Executor) -> None:
        _require_reports(opened)
        # The first job may end before whatever carries its reports has started.
        for seconds in (0.2, 2.0, 20.0):
            told: list[Any] = []
            future = opened.submit_telling(f"{_HERE}:answer", _job(3, "tell", seconds), told.append)
            while len(told) < 3 and not future.done():
                time.sleep(0.01)
            running = not future.done()
            assert future.result(_PATIENCE)["twice"] == 6
            if running:
                break
        assert running
        assert told == [{"count": count, "content": b"\x00\x01"} for count in range(3)]

    def test_reports_of_many_jobs_come_under_their_numbers_in_the_callers_thread(self, opened: Executor) -> None:
        _require_reports(opened)
        told: dict[int, list[int]] = {}
        threads = set()

        def listen(number: int, message: Any) -> None:
            told.setdefault(number, []).append(message["count"])
            threads.add(threading.get_ident())

        jobs = [_job(number, "tell", 0.1) for number in range(1, 6)]
        done = [number for number, _ in run_jobs(opened, f"{_HERE}:answer", jobs, told=listen)]
        assert sorted(done) == list(range(5))
        # What comes after a job's result is left out.
        assert all(counts == list(range(number + 1))[: len(counts)] for number, counts in told.items())
        assert threads <= {threading.get_ident()}

    def test_a_path_that_is_not_there_is_named(self, opened: Executor) -> None:
        absent = {"paths": ["/nowhere/at/all"]}
        with pytest.raises(AssetError, match="has no /nowhere/at/all"):
            opened.submit("zoolens.findings.measure.fanout:evaluate_here", absent).result(_PATIENCE)
