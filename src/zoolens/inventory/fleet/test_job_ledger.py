"""What becomes of jobs, as it stands in the store."""

import logging
import time
from concurrent.futures import Future

import pytest

from zoolens.base.engine.executors.executor import Executor, run_jobs
from zoolens.base.engine.executors.job_events import RECORD, lost_event
from zoolens.base.engine.executors.local import Local
from zoolens.base.engine.executors.reports import teller
from zoolens.base.errors import Cancelled, Lacking, Lost, ModelError, StoreError
from zoolens.base.store.jobs import JobState, cancel_jobs, job_log, job_named, load_drivers, load_jobs
from zoolens.base.store.store import open_store
from zoolens.inventory.fleet import job_ledger
from zoolens.inventory.fleet.job_ledger import JobLedger

FUNCTION = f"{__name__}:work"


def work(job):
    teller()({"stage": {"title": "lenet", "stage": "predictions", "total": 1797, "unit": ""}})
    match job["do"]:
        case "refuse":
            raise ModelError("It is made of glass.")
        case "stumble":
            raise KeyError("unheard of")
        case "lack":
            raise Lacking("The node m1 lacks files.")
        case "warn":
            logging.getLogger("zoolens").warning("from postgresql://ann:secret@db")
        case "sleep":
            time.sleep(job["seconds"])
    return job["do"]


def job(name, do="work", **more):
    about = {"id": name, "model": f"zoo:{name}", "dataset": "demo", "runtimes": ["onnx"], "kind": "k", "agent": "ant"}
    return {"title": f"{name} on ant", "do": do, RECORD: about, **more}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture
def ledger(store):
    with JobLedger(store, "eval", every=0.02) as ledger:
        yield ledger


def run(ledger, *jobs, executor=None):
    return [answer for _, answer in sorted(run_jobs(ledger.around(executor or Local(1)), FUNCTION, jobs))]


def text(store, name):
    return [line.text for line in job_log(store, name)]


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_became_of_each_job_is_in_the_store(store):
    with JobLedger(store, "eval") as ledger:
        answers = run(ledger, job("a"), job("b", "refuse"), job("c", "stumble"))
        ledger.came_of("a", ["run1"], [], ["warning: all the same"])
    assert answers[0] == "work"
    a, b, c = (job_named(store, name) for name in "abc")
    assert (a.state, a.runs, a.model, a.kind, a.agent, a.command) == (
        JobState.DONE, ("run1",), "zoo:a", "k", "ant", "eval",
    )  # fmt: skip
    assert (a.given_by, a.attempts[0].reason) == (job_ledger.this_driver(), "")
    assert 0 <= a.seconds < 20
    assert text(store, "a")[0] == "given to ant"
    assert text(store, "a")[2:] == ["lenet: predictions (1,797)", "warning: all the same", "done: 1 run stored"]
    assert (b.state, b.error) == (JobState.FAILED, "It is made of glass.")
    assert c.state is JobState.FAILED
    assert any("KeyError: 'unheard of'" in line for line in text(store, "c"))
    assert any(line.lstrip().startswith("File ") for line in text(store, "c"))
    assert [driver.alive for driver in load_drivers(store)] == [False]


def test_a_job_runs_visibly_until_it_is_cancelled(store, ledger):
    executor, futures = ledger.around(Local(1)), []
    futures = [executor.submit(FUNCTION, job(name, "sleep", seconds=1.0)) for name in "ab"]
    wait_for(lambda: [one.state for one in load_jobs(store, job="a")] == [JobState.RUNNING])
    assert job_named(store, "b").state is JobState.WAITING
    assert cancel_jobs(store, ["b"], "bob@host:1") == 1
    with pytest.raises(Cancelled, match=r"Cancelled by bob@host:1\. Run the same command again"):
        futures[1].result(20)
    wait_for(lambda: job_named(store, "b").state is JobState.CANCELLED)
    assert job_named(store, "b").cancelled_by == "bob@host:1"
    assert futures[0].result(20) == "sleep"


def test_cancelling_all_also_ends_what_was_not_given_out_yet(store, ledger):
    executor = ledger.around(Local(1))
    first = executor.submit(FUNCTION, job("a", "sleep", seconds=0.5))
    wait_for(lambda: load_jobs(store) != [])
    cancel_jobs(store, None, "eve")
    for future in (first, executor.submit(FUNCTION, job("b"))):
        with pytest.raises(Cancelled, match="Cancelled by eve"):
            future.result(20)


class Cluster(Executor):
    """Loses a machine, and gives the job to another."""

    name, summary, capacity, knows_nodes = "cluster", "", 1, True

    @classmethod
    def open(cls, address):
        return cls()

    def submit(self, function, job, *, whole_machine=False, gpu=False, node=""):
        raise AssertionError("its jobs tell something")

    def submit_telling(self, function, job, tell, *, whole_machine=False, gpu=False, node=""):
        started = {"started": {"host": "h1", "node": "n1"}, "run": "x", "number": 0}
        tell({"event": started})
        tell({"event": started})  # it came with the answer again
        tell(lost_event(Lost("The node n1 is gone."), 2.0))
        if job["do"] == "lose":
            future = Future()
            future.set_exception(Lost("The cluster is gone."))
            return future
        tell({"event": {"started": {"host": "h2", "node": "n2"}, "run": "y", "number": 0}})
        tell({"event": {"seconds": 1.5, "run": "y", "number": 1}})
        future = Future()
        future.set_result("work")
        return future


def test_attempts_have_their_machine_and_the_reason_of_their_end(store):
    with JobLedger(store, "eval") as ledger:
        run(ledger, job("a"), job("b", "lose"), executor=Cluster())
    a, b = job_named(store, "a"), job_named(store, "b")
    assert [(one.host, one.node, one.reason) for one in a.attempts] == [
        ("h1", "n1", "The node n1 is gone."),
        ("h2", "n2", ""),
    ]
    assert (a.state, a.node, a.seconds) == (JobState.DONE, "n2", pytest.approx(1.5, abs=0.5))
    assert "The node n1 is gone. Given out again in 2 s." in text(store, "a")
    assert (b.state, b.attempts[-1].reason) == (JobState.LOST, "The cluster is gone.")


def test_one_that_is_given_out_again_keeps_its_history(store):
    with JobLedger(store, "eval") as ledger:
        run(ledger, job("a", "lose"), executor=Cluster())
        run(ledger, job("a"))
    again = job_named(store, "a")
    assert (again.state, again.error, len(again.attempts)) == (JobState.DONE, "", 3)


def test_a_job_that_lacks_files_waits_until_it_is_given_out_again_or_given_up(store):
    with JobLedger(store, "eval") as ledger:
        run(ledger, job("a", "lack"), job("b", "lack"))
        wait_for(lambda: {one.state for one in load_jobs(store)} == {JobState.WAITING})
        run(ledger, job("a"))
        ledger.came_of("a", ["run"], [])
        ledger.given_up("b")
    a, b = job_named(store, "a"), job_named(store, "b")
    assert (a.state, [one.reason for one in a.attempts]) == (JobState.DONE, ["The node m1 lacks files.", ""])
    assert (b.state, b.error) == (JobState.FAILED, "The node m1 lacks files.")
    assert text(store, "b")[-1] == "failed: The node m1 lacks files."


def test_warnings_are_still_seen_where_nobody_else_handles_them(store, ledger, capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logged = logging.getLogger("zoolens")
    monkeypatch.setattr(logged, "handlers", [])
    run(ledger, job("a", "warn"))
    logged.warning("The cluster is gone.")
    assert "The cluster is gone." in capsys.readouterr().err


def test_logs_hold_no_credentials_and_are_bounded(store):
    with JobLedger(store, "eval") as ledger:
        run(ledger, job("a", "warn"))
        ledger.came_of("a", [], [], [f"line {number} token=abcdef" for number in range(1_000)])
    lines = text(store, "a")
    assert "warning: from postgresql://***@db" in lines
    assert len(lines) <= 201
    assert any(line.endswith("lines left out …") for line in lines)
    assert lines[-2:] == ["line 999 token=***", "done: 0 runs stored"]


@pytest.mark.parametrize("kind", [StoreError, RuntimeError])
def test_a_store_that_is_away_costs_the_record_and_not_the_work(store, monkeypatch, caplog, kind):
    def refuse(*_, **__):
        raise kind("The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(job_ledger, "write_jobs", refuse)
        with JobLedger(store, "eval") as ledger:
            assert run(ledger, job("a")) == ["work"]
    assert "The record of these jobs is incomplete: The store is away." in caplog.text


def test_what_is_finished_and_written_takes_no_memory(store, ledger):
    run(ledger, job("a"))
    ledger.came_of("a", [], [])
    wait_for(lambda: not ledger._entries)
    assert job_named(store, "a").state is JobState.DONE


def test_what_a_job_tells_after_its_end_changes_nothing(store, ledger):
    run(ledger, job("a"))
    entry = ledger._entries["a"]
    ledger.given_up("a")
    wait_for(lambda: not ledger._entries)
    assert not ledger.told(entry, {"say": "late"})
    assert ledger.told(entry, {"event": {"started": {"host": "h", "node": "n"}, "run": "z", "number": 0}})
    ledger._changed.add("a")  # by a thread that was faster
    ledger._write()
    assert job_named(store, "a").state is JobState.DONE


def test_leaving_early_is_a_cancellation_by_the_driver(store):
    with JobLedger(store, "eval") as ledger:
        left = run_jobs(ledger.around(Local(1)), FUNCTION, [job("a"), job("b", "sleep", seconds=0.2)])
        next(left)
        left.close()
    assert job_named(store, "b").state is JobState.CANCELLED
    assert job_named(store, "b").error == "Its driver stopped."
