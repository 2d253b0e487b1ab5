"""Jobs as processes: started, followed, cancelled, and told of by the next server."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from zoolens.base.store.store import open_store
from zoolens.faces.ui.jobs.board import JobBoard
from zoolens.faces.ui.jobs.folder import JobState, job_folders, make_job_folder
from zoolens.faces.ui.jobs.kinds import EvaluateJob, JobParameters
from zoolens.faces.ui.settings import Settings

LONG = 60  # seconds that a test waits at most


class OtherJob(JobParameters):
    """A command of a test's own."""

    name = "other"
    command: list[str]

    def check(self, allowed):
        pass

    def arguments(self):
        return self.command

    @property
    def title(self):
        return "other"


VERSION = OtherJob(command=["--version"])
UNKNOWN = OtherJob(command=["nosuch"])
ENDLESS = OtherJob(command=["ui", "--port", "0", "--no-browser"])


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_UI_TOKEN", "a-secret-token-of-letters")
    open_store(tmp_path / "store.sqlite").close()
    return Settings(store=tmp_path / "store.sqlite")


def until(fact):
    limit = time.monotonic() + LONG
    while not fact():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_jobs_run_one_after_the_other_and_say_how_they_ended(settings):
    with JobBoard(settings) as board:
        good, bad = board.start(VERSION), board.start(UNKNOWN)
        until(lambda: bad.end() is not None)
        assert (good.state, bad.state) == (JobState.DONE, JobState.FAILED)
        assert good.end()["ended"] < bad.end()["ended"]
        assert b"version" in good.output_file.read_bytes()
        assert "No such command" in bad.messages()
        assert [folder.id for folder in board.jobs()] == sorted((good.id, bad.id), reverse=True)


def test_a_job_is_cancelled_with_everything_that_it_started(settings):
    with JobBoard(settings) as board:
        running, waiting = board.start(ENDLESS), board.start(VERSION)
        until(lambda: running.output_file.exists())
        board.cancel(waiting.id)
        assert waiting.state is JobState.CANCELLED
        supervisor = running.supervisor()
        processes = [supervisor, *supervisor.children(recursive=True)]
        board.cancel(running.id)
        until(lambda: running.end() is not None)
        assert running.state is JobState.CANCELLED
        assert not psutil.wait_procs(processes, LONG)[1]
        assert not waiting.output_file.exists()


def test_the_end_of_the_server_is_the_end_of_its_jobs(settings):
    with JobBoard(settings) as board:
        running, waiting = board.start(ENDLESS), board.start(VERSION)
        until(lambda: running.state is JobState.RUNNING)
    assert running.state is JobState.CANCELLED
    assert waiting.state is JobState.CANCELLED
    assert waiting.end()["reason"] == "The server ended before it began."


def test_a_killed_server_leaves_its_job_to_the_next_one(settings):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom zoolens.faces.ui.jobs import test_board as t\n"
        "board = t.JobBoard(t.Settings(store=Path(sys.argv[1]))).__enter__()\n"
        "job = board.start(t.ENDLESS)\nt.until(lambda: job.state is t.JobState.RUNNING)\nprint(job.id, flush=True)\n"
        "time.sleep(600)"
    )
    server = subprocess.Popen([sys.executable, "-c", code, settings.store], stdout=subprocess.PIPE, text=True)
    job_id = server.stdout.readline().strip()
    server.kill()
    server.wait()
    with JobBoard(settings) as board:
        job, later = board.job(job_id), board.start(VERSION)
        assert job.state is JobState.RUNNING
        board.cancel(job_id)
        until(lambda: later.end() is not None)
        assert (job.state, later.state) == (JobState.CANCELLED, JobState.DONE)


@pytest.mark.slow  # two whole explorers; the test below has a killed one
def test_two_servers_leave_each_other_s_jobs_alone(settings):
    with JobBoard(settings) as first:
        running, waiting = first.start(ENDLESS), first.start(VERSION)  # which is a second server, in a process
        until(lambda: running.output_file.exists() and b"explorer is at" in running.output_file.read_bytes())
        assert waiting.state is JobState.QUEUED
        with JobBoard(settings) as second:
            later = second.start(VERSION)
            assert later.state is JobState.QUEUED
        assert later.state is JobState.CANCELLED
        assert running.state is JobState.RUNNING


def test_a_job_whose_process_is_gone_or_another_is_lost(settings):
    folder = make_job_folder("other", "t", {}, ["--version"])
    folder.write_process(psutil.Process(os.getpid()))
    assert folder.state is JobState.RUNNING
    (folder.path / "job.json").write_text(json.dumps({**folder.asked(), "server": {"pid": 1, "began": 1.0}}))
    (folder.path / "process.json").write_text(json.dumps({"pid": os.getpid(), "began": 1.0}))  # its number was reused
    assert folder.supervisor() is None
    with JobBoard(settings):
        assert folder.state is JobState.FAILED
        assert "lost" in folder.end()["reason"]


def test_the_token_is_not_given_to_jobs(settings):
    board = JobBoard(settings)
    assert "ZOOLENS_UI_TOKEN" not in board._environment
    assert board._environment["ZOOLENS_STORE"] == str(settings.store)


def test_too_many_jobs_are_refused(settings, monkeypatch):
    monkeypatch.setattr("zoolens.faces.ui.jobs.board.MOST_WAITING", 1)
    with JobBoard(settings) as board:
        board.start(ENDLESS)
        until(lambda: job_folders()[0].state is JobState.RUNNING)
        board.start(VERSION)
        with pytest.raises(Exception, match="Too many jobs"):
            board.start(VERSION)


def test_what_a_job_may_not_use_is_refused_before_it_exists(settings):
    with JobBoard(settings) as board:
        with pytest.raises(Exception, match="may not read"):
            board.start(EvaluateJob(models=["/etc/passwd"]))
        assert board.jobs() == []
