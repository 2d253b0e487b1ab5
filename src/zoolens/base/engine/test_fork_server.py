"""Workers that are forked from a process which has imported what they need: nothing passes from one to the next."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest

from zoolens.base.engine import fork_server
from zoolens.base.engine.executors.executor import task
from zoolens.base.engine.fork_host import Preloading
from zoolens.base.engine.fork_server import Preloaded
from zoolens.base.engine.function_process import COMPUTING
from zoolens.base.engine.process import WorkerProcess
from zoolens.base.errors import WorkerError, WorkerTimeout

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "pidfd_open"), reason="workers are forked on Linux"
)
LIBRARY = "import os, numpy\nloaded_by = os.getpid()\nvalues = []\nkind = 'old'\n"


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The file of a library that is slow to import, say."""
    file = tmp_path / "slow_library.py"
    file.write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(fork_server, "_unfit", set())
    yield file
    fork_server.end_servers()


def worker(modules=("slow_library",), files=(), **options):
    preloaded = Preloaded(tuple(modules), tuple(map(str, files)))
    return WorkerProcess(replace(COMPUTING, preloaded=preloaded, own_folder=True, **options))


def called(function, timeout=60, **options):
    """What the function returns, whether its process was forked, and its process."""
    process = worker(**options)
    try:
        return process.ask(task(f"{__name__}:{function}", {}), "testing it", timeout=timeout), process
    finally:
        process.stop()


def test_a_library_is_imported_once_and_no_state_passes(library):
    (first, one), (second, two) = called("look"), called("look")
    assert one.forked
    assert two.forked
    assert first["loaded_by"] == second["loaded_by"] not in (first["pid"], second["pid"], os.getpid())
    assert first["pid"] != second["pid"]
    assert first["values"] == second["values"] == [1]  # each has added one to an empty list
    assert first["drawn"] != second["drawn"]
    assert first["folder"] != second["folder"]


def test_two_live_side_by_side(library):
    one, two = worker(), worker()
    asked = task(f"{__name__}:look", {})
    answers = [process.ask(asked, "testing it") for process in (one, two, one)]
    assert [answer["values"] for answer in answers] == [[1], [1], [1, 1]]
    one.stop()
    assert two.alive
    two.stop()
    assert ended(two.pid)


def test_a_file_that_changed_is_loaded_anew(library):
    assert called("look")[0]["kind"] == "old"
    library.write_text(LIBRARY.replace("old", "quite new"))
    answer, process = called("look")
    assert answer["kind"] == "quite new"
    assert process.forked


@pytest.mark.parametrize("change", ["variable of ours", "variable of the worker", "file", "limit", "rights"])
def test_what_an_import_may_look_at_has_a_server_of_its_own(library, change, monkeypatch, tmp_path):
    import resource

    settings = tmp_path / "settings.json"
    before = called("look", files=[settings])[0]
    options = {"files": [settings]}
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if change == "variable of ours":
        monkeypatch.setenv("ZOOLENS_TEST", "1")
    elif change == "variable of the worker":
        options["variables"] = (("ZOOLENS_TEST", "1"),)
    elif change == "file":
        settings.write_text("{}")
    elif change == "limit":
        resource.setrlimit(resource.RLIMIT_NOFILE, (limits[0] - 1, limits[1]))
    rights = os.umask(0o027) if change == "rights" else None
    try:
        after, process = called("look", **options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        if rights is not None:
            os.umask(rights)
    assert process.forked
    assert after["loaded_by"] != before["loaded_by"]


@pytest.mark.parametrize(
    "code",
    [
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
        "import no_such_library_at_all\n",
        pytest.param("raise SystemExit(3)\n", marks=pytest.mark.slow),
        "import os\nos._exit(3)\n",
        pytest.param("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_forked_is_started(library, code):
    library.write_text(code)
    answer, process = called("place")
    assert not process.forked
    assert answer != os.getpid()
    assert not called("place")[1].forked


def test_a_forked_worker_that_dies_is_said(library):
    with pytest.raises(WorkerError, match=r"exited with code 3 while testing it.*last words"):
        called("dying")
    with pytest.raises(WorkerError, match="SIGKILL"):
        called("killed")


def test_a_forked_worker_is_ended_with_all_that_it_started(library):
    process = worker()
    child = process.ask(task(f"{__name__}:parent", {}), "testing it")
    with pytest.raises(WorkerTimeout):
        process.ask(task(f"{__name__}:endless", {}), "testing it", timeout=0.2)
    assert ended(process.pid)
    assert ended(child)


def test_a_server_that_was_killed_is_replaced(library):
    first = called("look")[0]["loaded_by"]
    os.kill(first, signal.SIGKILL)
    answer, process = called("look")
    assert process.forked
    assert answer["loaded_by"] != first


def test_the_oldest_server_ends_once_its_workers_have(library, monkeypatch, tmp_path):
    monkeypatch.setattr(fork_server, "MOST_SERVERS", 1)
    (tmp_path / "another_library.py").write_text(LIBRARY)
    first = worker()
    look = task(f"{__name__}:look", {})
    server = first.ask(look, "testing it")["loaded_by"]
    assert called("place", modules=["another_library"])[1].forked
    assert first.ask(look, "testing it")["values"] == [1, 1]
    first.stop()
    assert ended(server)


def test_a_server_that_imports_for_too_long_is_not_waited_for(library, monkeypatch):
    monkeypatch.setattr(fork_server, "_IMPORT_SECONDS", 0.5)
    library.write_text("import time\ntime.sleep(600)\n")
    started = time.monotonic()
    assert not called("place")[1].forked
    assert not called("place")[1].forked
    assert time.monotonic() - started < 300


def test_servers_end_when_they_are_told_to_and_their_workers_live_on(library):
    process = worker()
    look = task(f"{__name__}:look", {})
    server = process.ask(look, "testing it")["loaded_by"]
    fork_server.end_servers()
    assert process.ask(look, "testing it")["values"] == [1, 1]
    assert called("look")[0]["loaded_by"] != server
    process.stop()
    assert ended(server)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_servers_and_workers_end_with_us(library, sent):
    code = (
        f"import sys\nsys.path.insert(0, {str(library.parent)!r})\nfrom {__name__} import say_and_wait\nsay_and_wait()"
    )
    us = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert us.stdout is not None
    server, forked = map(int, us.stdout.readline().split())
    assert psutil.pid_exists(server)
    assert psutil.pid_exists(forked)
    us.send_signal(sent)
    us.wait()
    us.stdout.close()
    assert ended(forked)
    assert ended(server)


@pytest.mark.slow  # an interpreter with a server
def test_a_server_that_is_not_needed_ends_with_the_interpreter(library):
    code = f"import sys\nsys.path.insert(0, {str(library.parent)!r})\nfrom {__name__} import called\n"
    code += "answer, process = called('look')\nassert process.forked\nprint(answer['loaded_by'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended(int(out.stdout))
    assert out.stderr == ""


def test_code_that_could_have_imported_something_else_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "putenv", os.putenv)
    monkeypatch.setattr(os, "unsetenv", os.unsetenv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    preloading = Preloading(frozenset({"numpy", "json"}))
    assert preloading.mismatch() is None
    sys.path.insert(0, str(tmp_path))
    (tmp_path / "numpy").mkdir()  # a folder without code loses against the package
    (tmp_path / "my_numpy.py").touch()
    assert preloading.mismatch() is None
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").touch()
    assert preloading.mismatch() == f"{tmp_path} has a module json"
    monkeypatch.setenv("ZOOLENS_TEST", "1")
    monkeypatch.delenv("ZOOLENS_TEST")
    assert preloading.mismatch() == "it changes the environment variable ZOOLENS_TEST"


def ended(pid):
    """Whether a process ends, without being waited for by us."""
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def look(_):
    import tempfile

    import slow_library

    slow_library.values.append(1)
    return {
        "pid": os.getpid(),
        "loaded_by": slow_library.loaded_by,
        "values": slow_library.values,
        "kind": slow_library.kind,
        "drawn": float(np.random.rand()),
        "folder": tempfile.gettempdir(),
    }


def place(_):
    return os.getpid()


def dying(_):
    print("last words", flush=True)
    os._exit(3)


def killed(_):
    os.kill(os.getpid(), signal.SIGKILL)


def parent(_):
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    return child


def endless(_):
    time.sleep(600)


def say_and_wait():
    process = worker()
    answer = process.ask(task(f"{__name__}:look", {}), "testing it")
    print(answer["loaded_by"], process.pid, flush=True)
    time.sleep(600)
