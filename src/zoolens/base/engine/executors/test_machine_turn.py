"""Turns of jobs on one machine, and what is told of those that run."""

import os
import subprocess
import sys
import threading

import pytest

from zoolens.base.engine.executors.at_work import at_work, jobs_at_work
from zoolens.base.engine.executors.machine_turn import machine_turn
from zoolens.base.paths import cache_dir

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))


class Turn:
    """A job in a thread of its own, which ends when it is told to."""

    def __init__(self, *, alone):
        self.began, self.end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(alone,), daemon=True)
        self._thread.start()

    def _run(self, alone):
        with machine_turn(alone=alone):
            self.began.set()
            self.end.wait(PATIENCE)

    def finish(self):
        self.end.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


def test_jobs_run_beside_each_other_and_one_that_times_runs_alone():
    first, second = Turn(alone=False), Turn(alone=False)
    assert first.began.wait(PATIENCE)
    assert second.began.wait(PATIENCE)
    timed = Turn(alone=True)
    first.finish()
    assert not timed.began.wait(0.1)
    later = Turn(alone=False)
    assert not later.began.wait(0.1)  # it does not overtake the one that waits
    second.finish()
    assert timed.began.wait(PATIENCE)
    assert not later.began.is_set()
    timed.finish()
    assert later.began.wait(PATIENCE)
    later.finish()


def test_what_jobs_do_is_told_while_they_do_it():
    assert jobs_at_work() == []
    with at_work("evaluating a"), at_work("b" * 1000):
        assert sorted(map(len, jobs_at_work())) == [len("evaluating a"), 200]
    assert jobs_at_work() == []


def test_a_job_whose_process_was_killed_is_not_at_work():
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    with at_work("mine"):
        (mine,) = (cache_dir() / "at-work").glob("*/*")
        mine.with_name(f"{int(ended.stdout)}-dead.job").write_text('"theirs"')
        mine.with_name(f"{os.getpid()}-half.job").write_text('"torn')
        assert jobs_at_work() == ["mine"]
        assert not mine.with_name(f"{int(ended.stdout)}-dead.job").exists()
