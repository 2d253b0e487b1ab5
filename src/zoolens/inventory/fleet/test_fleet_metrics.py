"""Figures of a fleet for Prometheus, held to Prometheus' own parser."""

import sqlite3
import time
import urllib.request

import pytest
from sqlalchemy.exc import OperationalError

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.agents import AgentRecord, publish_agent
from zoolens.base.store.jobs import JobState, write_jobs
from zoolens.base.store.store import open_store
from zoolens.inventory.fleet import fleet_metrics
from zoolens.inventory.fleet.fleet_metrics import JOB_BUCKETS, MOST_KINDS, metrics_text, serve_metrics
from zoolens.testing.store_records import begin, some_rows

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

DRIVER = {"id": "d", "name": "somebody@here:1", "command": "eval", "lease": 60.0}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


def samples(text):
    """Values by name and labels."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found[(sample.name, *sorted(sample.labels.items()))] = sample.value
    return found


def job(name, state, *, seconds=None, attempts=1):
    """A row as a driver writes it; times are ages."""
    ended = 10.0 if seconds is not None else None
    started = None if seconds is None else ended + seconds
    tried = [{"host": "h", "node": "", "started": None, "ended": None, "reason": ""}] * attempts
    row = dict.fromkeys(("title", "model", "dataset", "kind", "agent", "node", "error"), "")
    row |= {"id": name, "state": str(state), "attempts": tried, "runtimes": [], "runs": [], "log": []}
    return {**row, "given": 1_000.0, "started": started, "ended": ended}


def test_figures_are_those_of_the_store(store):
    run = begin(store)
    store.add_part(run.id, "predictions", 0, some_rows(0))
    publish_agent(store, AgentRecord("a", "a", "k1", {}, 3_600.0, ("eval demo:x",)))
    publish_agent(store, AgentRecord("b", "b", "k1", {}, 3_600.0))
    publish_agent(store, AgentRecord("c", "c", "k2", {}, 1e-6))
    ended = [job("1", JobState.DONE, seconds=0.5), job("2", JobState.DONE, seconds=20.0, attempts=3)]
    write_jobs(store, DRIVER, [*ended, job("3", JobState.RUNNING), job("4", JobState.FAILED, seconds=90_000.0)])
    found = samples(metrics_text(store))
    assert found[("zoolens_store_up",)] == 1
    states = {state: found[("zoolens_fleet_agents", ("state", state))] for state in ("idle", "works", "lost")}
    assert states == {"idle": 1, "works": 1, "lost": 1}
    assert found[("zoolens_fleet_agents_of_kind", ("kind", "k1"))] == 2
    assert ("zoolens_fleet_agents_of_kind", ("kind", "k2")) not in found
    jobs = {str(state): found[("zoolens_fleet_jobs", ("state", str(state)))] for state in JobState}
    assert jobs == {"waiting": 0, "running": 1, "done": 2, "failed": 1, "lost": 0, "cancelled": 0}
    assert found[("zoolens_fleet_job_retries",)] == 2
    assert found[("zoolens_fleet_drivers",)] == 1
    within = {bound: found[_bucket("done", repr(bound))] for bound in JOB_BUCKETS}
    assert within == {bound: (0 if bound < 0.5 else 1 if bound < 20 else 2) for bound in JOB_BUCKETS}
    assert found[("zoolens_fleet_job_seconds_count", ("state", "done"))] == 2
    assert found[("zoolens_fleet_job_seconds_sum", ("state", "done"))] == pytest.approx(20.5)
    assert found[_bucket("failed", repr(JOB_BUCKETS[-1]))] == 0
    assert found[_bucket("failed", "+Inf")] == 1
    assert found[("zoolens_store_runs", ("kind", "evaluation"))] == 1
    assert found[("zoolens_store_bulk_parts",)] == 1
    assert found[("zoolens_store_bulk_bytes",)] > 100
    assert found[("zoolens_store_database_bytes",)] > 10_000


def _bucket(state, bound):
    return ("zoolens_fleet_job_seconds_bucket", ("le", bound), ("state", state))


def test_jobs_of_a_driver_that_is_gone_are_lost(store):
    write_jobs(store, {**DRIVER, "lease": 1e-6}, [job("1", JobState.RUNNING)])
    found = samples(metrics_text(store))
    assert found[("zoolens_fleet_jobs", ("state", "lost"))] == 1
    assert found[("zoolens_fleet_drivers",)] == 0


def test_kinds_of_strangers_make_no_endless_series(store):
    for number in range(MOST_KINDS + 7):
        publish_agent(store, AgentRecord(f"a{number}", "a", f'k{number}"\n}}' + "x" * 100, {}, 3_600.0))
    found = samples(metrics_text(store))
    kinds = {key: value for key, value in found.items() if key[0] == "zoolens_fleet_agents_of_kind"}
    assert len(kinds) == MOST_KINDS + 1
    assert sum(kinds.values()) == MOST_KINDS + 7
    assert kinds[("zoolens_fleet_agents_of_kind", ("kind", "other"))] == 7


def test_a_kind_that_calls_itself_other_makes_no_second_series(store):
    for number in range(MOST_KINDS + 1):
        publish_agent(store, AgentRecord(f"a{number}", "a", f"k{number}", {}, 3_600.0))
    for number in range(3):
        publish_agent(store, AgentRecord(f"b{number}", "b", "other", {}, 3_600.0))
    text = metrics_text(store).decode()
    assert text.count('zoolens_fleet_agents_of_kind{kind="other"}') == 1
    assert sum(value for key, value in samples(text.encode()).items() if "of_kind" in key[0]) == MOST_KINDS + 4


def test_a_store_that_is_away_is_told_before_prometheus_gives_up(store, monkeypatch):
    monkeypatch.setattr(fleet_metrics, "PATIENCE", 0.2)
    monkeypatch.setattr(fleet_metrics, "load_agents", lambda database, **_: database.read(_away))
    started = time.monotonic()
    assert samples(metrics_text(store)) == {("zoolens_store_up",): 0}
    assert time.monotonic() - started < 10


def _away(connection):
    raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("database is locked"))


def test_a_store_that_cannot_be_read_is_a_figure(store, monkeypatch):
    def gone(*_, **__):
        raise StoreError("The database does not answer.")

    monkeypatch.setattr(fleet_metrics, "load_agents", gone)
    assert samples(metrics_text(store)) == {("zoolens_store_up",): 0}


def test_they_are_offered_on_a_port(store):
    server = serve_metrics(store, "127.0.0.1", 0)
    try:
        port = server.server_port
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert samples(answer.read())[("zoolens_store_up",)] == 1
        with pytest.raises(ZoolensError, match=f"cannot be offered at 127.0.0.1:{port}"):
            serve_metrics(store, "127.0.0.1", port)
    finally:
        server.shutdown()
        server.server_close()
