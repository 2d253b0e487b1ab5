"""What every executor keeps: subclass `ExecutorContract` in your tests and say how yours is made.

class TestSlurm(ExecutorContract):
    def executor(self):
        return Slurm.open(None)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from zoolens.base.engine.executors.executor import Executor, run_jobs
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
    return {"twice": 2 * job["number"], "content": job["content"][::-1], "trusted": trusted()}


def _job(number: int, do: str = "answer") -> dict[str, Any]:
    return {"do": do, "number": number, "content": b"\x00\x01"}


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

    def test_a_path_that_is_not_there_is_named(self, opened: Executor) -> None:
        absent = {"paths": ["/nowhere/at/all"]}
        with pytest.raises(AssetError, match="has no /nowhere/at/all"):
            opened.submit("zoolens.findings.measure.fanout:evaluate_here", absent).result(_PATIENCE)
