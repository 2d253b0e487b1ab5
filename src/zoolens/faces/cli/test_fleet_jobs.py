"""`zoolens fleet jobs`, `log` and `cancel`."""

import json

import pytest
from click.testing import CliRunner

import zoolens
from zoolens.base.errors import UnknownName
from zoolens.base.store.jobs import write_jobs
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.testing.job_contract import DRIVER, job


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "store.sqlite"
    lost = [{"host": "h1", "node": "n", "started": 9.0, "ended": 8.0, "reason": "The node n is gone."}]
    running = [*lost, {"host": "h2", "node": "m", "started": 5.0, "ended": None, "reason": ""}]
    with open_store(path) as store:
        rows = [
            job("aaa1", state="running", started=5.0, given=10.0, attempts=running, log=[[5.0, "started on h2\x07"]]),
            job("bbb2", state="failed", given=7.0, started=6.0, ended=4.0, error="It is made of glass.", agent=""),
            job("ccc3", state="done", given=6.0, runs=["0123456789ab"]),
        ]
        write_jobs(store, DRIVER, rows)
    return path


def fleet(path, *words):
    return CliRunner().invoke(cli, ["fleet", *words, "--store", str(path)])


def test_jobs_are_listed_and_chosen(path):
    table = fleet(path, "jobs", "--wide").output
    for words in ("aaa1", "running", "zoo:aaa1", "ant", "It is made of glass.", "01234567", "ann@host:7"):
        assert words in table
    chosen = json.loads(fleet(path, "jobs", "--state", "running", "--json").output)
    assert [(one["id"], len(one["attempts"]), one["kind"]) for one in chosen] == [("aaa1", 2, "k")]
    assert "No such jobs" in fleet(path, "jobs", "--model", "zoo:none").stderr
    assert [one.id for one in zoolens.jobs(path, state="failed")] == ["bbb2"]
    with pytest.raises(UnknownName, match="Did you mean waiting"):
        zoolens.jobs(path, state="waitng")


def test_a_log_is_printed_without_what_moves_a_terminal(path):
    said = fleet(path, "log", "aa").output
    assert said.startswith("aaa1 zoo:aaa1: running\n")
    assert "started on h2" in said
    assert "\x07" not in said
    assert "There is no job named 'zz'" in str(fleet(path, "log", "zz").exception)
    assert [line.text for line in zoolens.job_log("aaa1", path)] == ["started on h2\x07"]


def test_what_waits_or_runs_is_cancelled_by_its_driver(path):
    assert "Nothing to cancel is named" in str(fleet(path, "cancel").exception)
    assert "Nothing to cancel is named" in str(fleet(path, "cancel", "aaa1", "--all").exception)
    assert "None of them waits or runs." in fleet(path, "cancel", "bbb2").stderr
    assert fleet(path, "cancel", "aaa1").output == "aaa1 zoo:aaa1: asked ann@host:7 to cancel it\n"
    assert json.loads(fleet(path, "cancel", "--all", "--json").output) == ["aaa1"]
    with open_store(path) as store:
        asked = write_jobs(store, DRIVER, [])
    assert asked.jobs["aaa1"] == asked.all != ""


def test_old_records_are_cleaned_away(path):
    clean = CliRunner().invoke(cli, ["store", "clean", "--store", str(path), "--jobs-older-than", "0.00003"])
    assert "1 records of jobs removed." in clean.output
    assert sorted(one.id for one in zoolens.jobs(path)) == ["aaa1", "ccc3"]
