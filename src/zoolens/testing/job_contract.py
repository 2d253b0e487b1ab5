"""What every store must do for jobs that commands gave to other machines."""

from __future__ import annotations

import time
from typing import Any

import pytest

from zoolens.base.errors import AmbiguousName, UnknownName
from zoolens.base.store.jobs import (
    Attempt,
    JobState,
    cancel_jobs,
    forget_jobs,
    job_log,
    job_named,
    load_drivers,
    load_jobs,
    write_jobs,
)
from zoolens.base.store.operation_figures import operation_figures
from zoolens.base.store.store import Store

DRIVER = {"id": "d1", "name": "ann@host:7", "command": "eval", "lease": 600.0}


def job(name: str, **different: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": name, "title": f"zoo:{name}", "model": f"zoo:{name}", "dataset": "demo"}
    fields |= {
        "runtimes": ["onnx"],
        "kind": "k",
        "agent": "ant",
        "node": "",
        "state": "waiting",
        "attempts": [],
        "given": 0.0,
    }
    return {**fields, "started": None, "ended": None, "runs": [], "error": "", "log": [], **different}


class JobContract:
    def test_a_job_is_listed_with_its_attempts_and_times(self, store: Store) -> None:
        attempts = [{"host": "h", "node": "n", "started": 5.0, "ended": 3.0, "reason": "killed"}]
        done = job(
            "a", state="done", attempts=attempts, given=9.0, started=2.0, ended=1.0, runs=["r"], log=[[4.0, "ü"]]
        )
        write_jobs(store, DRIVER, [done, job("b")])
        second, first = load_jobs(store)
        assert (first.id, first.given_by, first.command, first.state) == ("a", "ann@host:7", "eval", JobState.DONE)
        assert (first.runtimes, first.runs, second.state) == (("onnx",), ("r",), JobState.WAITING)
        (attempt,) = first.attempts
        assert attempt == Attempt("h", "n", attempt.started, attempt.ended, "killed")
        assert first.seconds == pytest.approx(1.0, abs=1e-3)
        assert attempt.ended == pytest.approx(first.given + 6.0, abs=1e-3)
        assert first.now - first.given == pytest.approx(9.0, abs=60.0)
        (line,) = job_log(store, "a")
        assert line.text == "ü"
        assert line.at - first.given == pytest.approx(5.0, abs=1e-3)

    def test_jobs_are_chosen_by_state_model_driver_and_id(self, store: Store) -> None:
        write_jobs(store, DRIVER, [job("a1", given=2.0), job("a2", given=1.0, state="failed", error="broken")])
        assert [one.id for one in load_jobs(store, states=[JobState.FAILED])] == ["a2"]
        assert [one.id for one in load_jobs(store, model="zoo:a1")] == ["a1"]
        assert [one.id for one in load_jobs(store, driver="ann@host:7")] == ["a2", "a1"]
        assert load_jobs(store, driver="%") == []
        assert [one.id for one in load_jobs(store, limit=1)] == ["a2"]
        assert job_named(store, "a2").error == "broken"
        with pytest.raises(AmbiguousName, match="a2, a1"):
            job_named(store, "a")
        for unknown in ("", "z"):
            with pytest.raises(UnknownName, match="fleet jobs"):
                job_named(store, unknown)

    def test_jobs_of_a_driver_that_is_gone_are_lost(self, store: Store) -> None:
        write_jobs(store, {**DRIVER, "lease": 0.05}, [job("a", state="running", given=2.0), job("b", state="done")])
        time.sleep(0.1)
        b, a = load_jobs(store)
        assert (a.state, b.state) == (JobState.LOST, JobState.DONE)
        assert a.error == "Its driver ann@host:7 is gone. Run the same command again: what is finished is kept."
        assert [one.id for one in load_jobs(store, states=[JobState.LOST])] == ["a"]
        assert [driver.alive for driver in load_drivers(store)] == [False]
        write_jobs(store, DRIVER, [], ended=True)
        assert load_jobs(store)[1].state is JobState.LOST
        assert cancel_jobs(store, None, "bob") == 0

    def test_who_cancels_is_told_to_the_driver(self, store: Store) -> None:
        write_jobs(store, DRIVER, [job("a"), job("b", state="running"), job("c", state="done")])
        assert cancel_jobs(store, ["a", "c"], "bob") == 1
        asked = write_jobs(store, DRIVER, [job("a", state="cancelled")])
        assert (asked.by("a"), asked.by("b"), asked.by("c"), asked.all) == ("bob", "", "", "")
        assert job_named(store, "a").cancelled_by == "bob"
        assert cancel_jobs(store, None, "eve") == 1
        assert write_jobs(store, DRIVER, []).by("not given out yet") == "eve"

    def test_old_records_are_forgotten_and_live_ones_kept(self, store: Store) -> None:
        write_jobs(store, DRIVER, [job("old", state="done", ended=50.0), job("new", state="done", ended=1.0)])
        write_jobs(store, DRIVER, [job("long", given=100.0)])
        assert forget_jobs(store, 10.0) == 1
        assert sorted(one.id for one in load_jobs(store)) == ["long", "new"]
        time.sleep(0.05)
        write_jobs(store, DRIVER, [], ended=True)
        time.sleep(0.05)
        assert forget_jobs(store, 0.01) == 2
        assert load_drivers(store) == []

    def test_jobs_are_counted_by_the_database(self, store: Store) -> None:
        attempts = [{"host": "h", "node": "n", "started": 5.0, "ended": 3.0, "reason": "killed"}] * 3
        done = [job(f"d{took}", state="done", attempts=attempts, started=1.0 + took, ended=1.0) for took in (2.0, 30.0)]
        write_jobs(store, DRIVER, [*done, job("w"), job("f", state="failed", ended=1.0)])
        found = operation_figures(store, (0.5, 10.0))
        assert found.jobs == {JobState.DONE: 2, JobState.WAITING: 1, JobState.FAILED: 1}
        (times,) = found.times.values()
        assert (times.count, times.within) == (2, (0, 1))
        assert times.seconds == pytest.approx(32.0, abs=1e-3)
        assert (found.retries, found.drivers) == (4, 1)
        assert found.database_bytes > 0
