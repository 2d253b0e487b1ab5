"""What jobs may take: time and money."""

import time

import pytest

from zoolens.base.engine.executors.executor import run_jobs
from zoolens.base.engine.executors.local import Local
from zoolens.base.errors import ZoolensError
from zoolens.base.store.jobs import JobState, job_named, write_jobs
from zoolens.base.store.store import open_store
from zoolens.inventory.fleet.budget import Budget, BudgetWatch, OverBudget, parse_duration, parse_price
from zoolens.inventory.fleet.job_entry import JobEntry
from zoolens.inventory.fleet.job_ledger import JobLedger
from zoolens.inventory.fleet.test_job_ledger import FUNCTION, job
from zoolens.testing import job_contract


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


def took(store, name, seconds):
    """A job of before, which took so long."""
    about = {"state": "done", "given": seconds + 100, "started": seconds + 50, "ended": 50.0}
    row = job_contract.job(f"old-{name}", **about) | {"model": f"zoo:{name}"}
    write_jobs(store, job_contract.DRIVER, [row])


def entry(name, *, ran=None, ended=False, agent="ant"):
    made = JobEntry(name, name)
    made.given_out({"model": f"zoo:{name}", "dataset": "demo", "runtimes": ["onnx"], "kind": "k", "agent": agent})
    if ran is not None:
        made.told({"event": {"started": {"host": "h", "node": ""}, "run": "x", "number": 0}})
        made.told({"event": {"seconds": ran, "run": "x", "number": 1}})
    if ended:
        from concurrent.futures import Future

        done = Future()
        done.set_result(1)
        made.settled(done)
    return made


def test_lengths_of_time_and_prices_are_read():
    assert [parse_duration(text) for text in ("90s", "45min", "2h", " 0.5 d", "3m")] == [90, 2700, 7200, 43200, 180]
    assert parse_price("1.20/h") == 1.2
    for text in ("", "2", "h", "-1h", "2 weeks", "0s", "9" * 400 + "h"):
        with pytest.raises(ZoolensError, match="is no length of time"):
            parse_duration(text)
    with pytest.raises(ZoolensError, match="is no price"):
        parse_price("1.20")


def test_a_job_begins_only_where_it_is_expected_to_end_in_time(store):
    took(store, "long", 100.0)
    took(store, "short", 5.0)
    watch = BudgetWatch(Budget(seconds=60.0), store)
    waiting = [entry("long"), entry("short"), entry("unheard-of"), entry("long", ran=1.0)]
    over = watch.refused(waiting)
    assert set(over) == {"long"}
    assert str(over["long"]).startswith("Not begun: it is expected to take 100 s, and ")
    assert "of a budget of 60 s. The same command again does the rest." in str(over["long"])
    late = BudgetWatch(Budget(seconds=1e-9), store).refused([entry("unheard-of")])
    assert "Not begun: nothing is left of a budget of " in str(late["unheard-of"])


def test_money_is_kept_together_for_what_was_begun_and_stops_what_runs(store):
    for name in ("a", "b"):
        took(store, name, 1800.0)
    budget = Budget(money=1.0, prices={"ant": 1.2, "default": 0.0})
    over = BudgetWatch(budget, store).refused([entry("a"), entry("b"), entry("c", agent="free")])
    assert list(over) == ["b"]  # each costs 0.60
    assert "expected to cost 1.20, of a budget of 1.00" in str(over["b"])
    watch = BudgetWatch(budget, store)
    assert watch.refused([entry("a", ran=3600.0, ended=True), entry("b", ran=10.0)]) != {}
    assert watch.spent == pytest.approx(1.2, abs=0.01)
    stopped = watch.refused([entry("b", ran=10.0)])  # the first one is written, and no more in memory
    assert str(stopped["b"]).startswith("Stopped: the budget of 1.00 is spent.")


def test_the_ledger_refuses_what_does_not_fit_and_says_so(store):
    took(store, "a", 100.0)
    watch = BudgetWatch(Budget(seconds=20.0), store)
    with JobLedger(store, "eval", budget=watch) as ledger:
        jobs = [job("a"), job("b")]
        answers = dict(run_jobs(ledger.around(Local(1)), FUNCTION, jobs))
    assert isinstance(answers[0], OverBudget)
    assert answers[1] == "work"
    assert job_named(store, "a").state is JobState.CANCELLED
    assert job_named(store, "a").error.startswith("Not begun")


def test_jobs_that_end_between_two_looks_are_paid_too(store):
    """The ledger forgets a job once its end is written, and looks at the budget after that."""
    watch = BudgetWatch(Budget(money=100.0, prices={"default": 3600.0}), store)
    with JobLedger(store, "eval", budget=watch, every=0.02) as ledger:
        for number in range(3):
            jobs = [job(f"j{number}", "sleep", seconds=0.3)]
            for _ in run_jobs(ledger.around(Local(1)), FUNCTION, jobs):
                ledger.came_of(f"j{number}", [], [])
            time.sleep(0.1)
    assert watch.spent == pytest.approx(0.9, abs=0.4)
    assert len(watch._ended) == 3
