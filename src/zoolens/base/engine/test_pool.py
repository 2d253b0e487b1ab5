"""One worker and many: what crosses, who is kept, who gets a second chance, and that nothing is left behind.

The worker's `main` is at the end of this file; it runs in processes of its own.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.engine import landlock
from zoolens.base.engine.environments import Environment, EnvSpec
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.pool import WorkerPool
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.engine.service import Service
from zoolens.base.errors import (
    Circumstance,
    EnvironmentBuildError,
    ModelError,
    UnexpectedError,
    WorkerError,
    WorkerTimeout,
)

KIND = WorkerKind("test process", __name__, __name__)


@pytest.fixture
def worker():
    process = WorkerProcess(KIND)
    yield process
    process.stop()


@pytest.fixture
def pool():
    with WorkerPool(stopped="The test was stopped.") as workers:
        yield workers


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_plain_data_and_tensors_cross_and_progress_comes_first(worker):
    seen = []
    feeds = {"x": np.arange(6, dtype=np.float32)}
    layout = worker.ask({"do": "double"}, "doubling", feeds, timeout=60, report=seen.append)
    assert np.array_equal(worker.outputs.read(layout)["x"], feeds["x"] * 2)
    assert seen == [{"tensors": 1}]
    assert worker.answered == 1


def test_errors_are_raised_here_and_the_worker_serves_on(worker):
    with pytest.raises(ModelError, match="made of glass"):
        worker.ask({"do": "refuse"}, "refusing", timeout=60)
    with pytest.raises(UnexpectedError, match=r"Doing raise met an unexpected KeyError at test_pool\.py"):
        worker.ask({"do": "raise"}, "raising", timeout=60)
    with pytest.raises(UnexpectedError, match="unexpected SystemExit"):
        worker.ask({"do": "exit quietly"}, "exiting", timeout=60)
    assert worker.ask({"do": "pid"}, "asking") == worker.pid


def test_a_death_is_told_with_the_last_words(worker):
    with pytest.raises(WorkerError, match="test process exited with code 7 while dying") as caught:
        worker.ask({"do": "die"}, "dying", timeout=60)
    assert "out of cheese" in caught.value.hint
    assert worker.dead
    assert not worker.alive
    with pytest.raises(WorkerError, match="has ended"):
        worker.ask({"do": "pid"}, "asking")


@pytest.mark.parametrize("do", ["sleep", "chatter"])
def test_who_does_not_answer_in_time_is_stopped(worker, do):
    with pytest.raises(WorkerTimeout, match=r"no answer in 1 s while waiting"):
        worker.ask({"do": do}, "waiting", timeout=1)
    assert gone(worker.pid)


def test_an_error_of_who_listens_ends_the_request_and_the_worker(worker):
    def fail(_):
        raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError):
        worker.ask({"do": "double"}, "doubling", {"x": np.zeros(1)}, report=fail)
    assert not worker.running


def test_an_interpreter_that_is_not_there_is_a_circumstance(tmp_path):
    nowhere = Environment(tmp_path / "python", EnvSpec(()), "key", {})
    with pytest.raises(Circumstance, match="test process cannot be started"):
        WorkerProcess(WorkerKind("test process", __name__, __name__, nowhere))


def test_its_temporary_folder_goes_with_it():
    worker = WorkerProcess(WorkerKind("test process", __name__, __name__, own_folder=True))
    folder = Path(worker.ask({"do": "temporary folder"}, "asking"))
    assert folder.is_dir()
    worker.stop()
    assert not folder.exists()


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock, which confines files")
def test_rights_are_what_a_sandboxed_worker_has(tmp_path, pool):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.write_text("content")
    other.write_text("secret")
    kind = WorkerKind("test process", __name__, __name__, rights=Rights(files=(str(mine),)))
    assert pool.ask(kind, {"do": "read", "path": str(mine)}, "reading") == "content"
    with pytest.raises(UnexpectedError, match="PermissionError"):
        pool.ask(kind, {"do": "read", "path": str(other)}, "reading")


# --- many


def test_a_worker_is_kept_for_the_next_request_of_its_kind(pool):
    other = WorkerKind("other process", __name__, __name__, variables=(("ZOOLENS_TEST", "1"),))
    first = pool.ask(KIND, {"do": "pid"}, "asking")
    assert pool.ask(KIND, {"do": "pid"}, "asking") == first
    assert pool.ask(other, {"do": "pid"}, "asking") != first
    pool.retire(KIND)
    assert gone(first)
    assert pool.ask(KIND, {"do": "pid"}, "asking") != first


def test_a_worker_is_recycled():
    with WorkerPool(recycled=2) as pool:
        pids = [pool.ask(KIND, {"do": "pid"}, "asking") for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


def test_who_was_killed_while_idle_fails_no_request(pool):
    pid = pool.ask(KIND, {"do": "pid"}, "asking")
    os.kill(pid, signal.SIGKILL)
    assert pool.ask(KIND, {"do": "pid"}, "asking") != pid


def test_a_worker_that_others_have_worn_out_gives_the_request_a_second_chance(pool):
    tired = pool.ask(KIND, {"do": "tire"}, "tiring")
    assert pool.ask(KIND, {"do": "work if not tired"}, "working") != tired


def test_who_dies_fresh_or_after_progress_gets_no_second_chance(pool):
    with pytest.raises(WorkerError, match="exited with code 7"):
        pool.ask(KIND, {"do": "die"}, "dying")
    pool.ask(KIND, {"do": "pid"}, "asking")
    with pytest.raises(Circumstance, match="Is there enough memory"):
        pool.ask(KIND, {"do": "chatter"}, "chattering", report=lambda progress: os.kill(progress, signal.SIGKILL))


def test_closing_ends_who_is_busy_and_tells_who_waits():
    started, told = threading.Event(), []
    pool = WorkerPool(stopped="The test was stopped.")

    def ask():
        try:
            pool.ask(KIND, {"do": "chatter"}, "chattering", report=lambda pid: (told.append(pid), started.set()))
        except WorkerError as error:
            told.append(error.message)

    thread = threading.Thread(target=ask)
    thread.start()
    assert started.wait(60)
    pool.close()
    thread.join(20)
    assert told[-1] == "The test was stopped."
    assert gone(told[0])
    with pytest.raises(WorkerError, match="stopped"):
        pool.ask(KIND, {"do": "pid"}, "asking")


def test_an_environment_that_cannot_be_made_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    said = []
    kind = WorkerKind("test process", __name__, __name__, EnvSpec(("no-such-package==1.0",)))
    with WorkerPool(say=said.append) as pool, pytest.raises(EnvironmentBuildError, match="could not be made"):
        pool.ask(kind, {"do": "pid"}, "asking")
    assert "Making a virtual environment" in said


# --- in the worker's process


def main(settings, began_ns):
    service = Service(settings, began_ns)
    service.serve(lambda request: answer(request, service), lambda request: f"Doing {request['do']}")


tired = False


def answer(request, service):
    global tired
    match request["do"]:
        case "double":
            feeds = service.inputs.read(request["tensors"])
            service.report({"tensors": len(feeds)})
            return service.outputs.write({name: array * 2 for name, array in feeds.items()})
        case "refuse":
            raise ModelError("It is made of glass.")
        case "raise":
            raise KeyError("unheard of")
        case "exit quietly":
            sys.exit(3)
        case "die":
            os.write(2, b"some noise\nout of cheese\n")
            os._exit(7)
        case "sleep":
            time.sleep(60)
        case "chatter":
            while True:
                service.report(os.getpid())
                time.sleep(0.001)
        case "read":
            return Path(request["path"]).read_text()
        case "temporary folder":
            return tempfile.gettempdir()
        case "work if not tired" if tired:
            os._exit(1)
        case "tire":
            tired = True
    return os.getpid()
