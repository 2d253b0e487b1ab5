"""How the sandbox of a worker is set up, what is told of it, and what is left of it afterwards."""

import ctypes
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoolens.base.engine import landlock, sandbox, scratch, seccomp
from zoolens.base.engine.policy import python_paths, worker_variables
from zoolens.base.engine.sandbox import trusting
from zoolens.inventory.runtimes.isolation.isolated import open_isolated, open_model, opener
from zoolens.inventory.runtimes.isolation.test_sandbox import Hole, needs_landlock
from zoolens.inventory.runtimes.runtime import ModelFiles, Options


def test_caches_of_the_user_are_not_used(tmp_path):
    around = {"TORCHINDUCTOR_CACHE_DIR": "/a", "KERAS_HOME": "/b", "TF_CPP_MIN_LOG_LEVEL": "3", "HOME": "/c"}
    assert worker_variables(tmp_path, around)["HOME"] == str(tmp_path)
    assert set(worker_variables(tmp_path, around)) & set(around) == {"TF_CPP_MIN_LOG_LEVEL", "HOME"}


def test_the_home_folder_is_no_library(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    packages = tmp_path / "home" / ".local" / "packages"
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), str(tmp_path / "home"), str(packages)])
    found = set(python_paths("zoolens.inventory.runtimes.fake", None))
    assert str(packages) in found
    assert not found & {"", str(tmp_path), str(tmp_path / "home")}


def test_what_is_in_force_is_told(tmp_path):
    path = tmp_path / "model.hole"
    path.write_text("")
    files = ModelFiles("hole", {"model": path})
    with open_model(Hole(), files) as session:
        assert session.sandbox == sandbox.describe()
    with trusting(), open_model(Hole(), files) as session:
        assert session.sandbox == "none (trusted)"
    words = sandbox.describe()
    assert ("landlock" in words) == bool(landlock.version())
    assert ("seccomp" in words) == seccomp.available()


@pytest.mark.parametrize(
    ("held", "filtered", "words", "missing"),
    [
        (7, True, "landlock-7+seccomp+rlimits", 0),
        (0, True, "seccomp+rlimits (kernel without Landlock)", 1),
        (3, False, "landlock-3+rlimits (kernel without seccomp)", 2),
        (0, False, "rlimits (kernel without Landlock and seccomp)", 2),
    ],
)
def test_words_for_other_kernels(monkeypatch, held, filtered, words, missing):
    monkeypatch.setattr(landlock, "version", lambda: held)
    monkeypatch.setattr(seccomp, "available", lambda: filtered)
    assert sandbox.describe() == words
    assert len(sandbox.shortcomings()) == missing


def test_a_sandbox_that_cannot_be_set_up_opens_nothing(tmp_path):
    code = """
import sys
from zoolens.base.engine import landlock, sandbox
def refuse(grants):
    raise PermissionError(1, "Operation not permitted")
landlock.version, landlock.restrict = lambda: 7, refuse
sandbox.confine({"scratch": "/", "readable": []})
print("it went on")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "The sandbox could not be set up" in done.stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("programs", [False, True])
def test_the_filter_is_a_well_formed_program(machine, programs):
    """Every jump lands inside, and the end is a return: the kernel checks it, but only for the processor it runs on."""
    code = seccomp.program(programs=programs, process=1, machine=machine)
    for place, (kind, yes, no, _) in enumerate(code):
        if kind in (0x15, 0x35, 0x45):
            assert place + 1 + max(yes, no) < len(code)
    assert code[-1] == (0x06, 0, 0, 0x7FFF0000)
    assert len(code) < 4096


def test_one_worker_for_many_files_of_ours(tmp_path):
    with opener(Hole(), tmp_path) as opened:
        seen = []
        for number in range(3):
            path = tmp_path / "model.hole"
            path.write_text(f"import os; told = (os.getpid(), {number})")
            with opened(ModelFiles("hole", {"model": path})) as session:
                seen.append(session.effective().provider.strip("()").split(", "))
    assert len({process for process, _ in seen}) == 1
    assert [number for _, number in seen] == ["0", "1", "2"]
    assert not Path(f"/proc/{seen[0][0]}").exists()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


PARENT = """
import sys
import time
from pathlib import Path
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.isolation.test_sandbox import Hole
session = open_isolated(Hole(), ModelFiles("hole", {"model": Path(sys.argv[1])}))
print(session._worker.pid, session.effective().provider, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_parent_leaves_neither_process_nor_folder(tmp_path, monkeypatch, how):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    path = tmp_path / "model.hole"
    path.write_text("import os; open('left', 'w').write('1'); told = os.getcwd()")
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        worker, folder = parent.stdout.readline().split()
        assert Path(folder, "left").exists()
        assert Path(folder).is_relative_to(temporary.resolve())
        parent.send_signal(how)
        parent.wait(20)
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
    wait_until(lambda: list(temporary.iterdir()) == [])


def test_scratch_folders_are_for_one_user(tmp_path):
    folder = scratch.make_scratch()
    assert folder.stat().st_mode & 0o077 == 0
    scratch.remove_scratch(folder)
    assert not folder.exists()


def test_the_kernels_structures_have_their_sizes():
    assert ctypes.sizeof(landlock._Ruleset) == 24
    assert landlock._PathBeneath.folder.offset == 8
    assert struct.calcsize("=HBBI") == 8


class Cached(Hole):
    name = "cached"
    compiler_cache = "HOLE_CACHE_DIR"


@needs_landlock
def test_what_a_compiler_made_is_kept_for_the_same_model_only(tmp_path):
    source = "import os, pathlib; told = pathlib.Path(os.environ['HOLE_CACHE_DIR'], 'made'); known = told.exists()"
    paths = [tmp_path / "a.hole", tmp_path / "b.hole"]
    for path in paths:
        path.write_text(f"{source}; told.touch(); told = f'{{known}} {{told}}'")
    seen = []
    for path in (paths[0], paths[0], paths[1]):
        with open_isolated(Cached(), ModelFiles("hole", {"model": path}), Options(mode="compiled")) as session:
            seen.append(session.effective().provider.split())
    assert [known for known, _ in seen] == ["False", "True", "False"]
    assert seen[0][1] != seen[2][1]
