"""Runtimes in a process of their own: what crosses, what happens when either side dies."""

import ctypes
import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import threading
import time
import venv
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.engine.environments import Environment, EnvSpec
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import (
    CodeNotAllowed,
    MissingDependency,
    ModelError,
    UnknownName,
    UnsupportedAbility,
    WorkerError,
)
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.runtime import Effective, ModelFiles, Options, Runtime, Session, TensorSpec


class Odd(Runtime):
    """Doubles its input, or misbehaves as `architecture` says."""

    name = "odd"
    summary = "a test's own"
    formats = ("fake",)
    cannot = {"count_parameters": "it has none", "set_threads": "it has one", "capture": "there is nothing inside"}  # noqa: RUF012

    def load_library(self):
        print("a framework greets on standard output", flush=True)
        return np

    def load(self, model, options):
        behaviour = (model.architecture or {}).get("at_open")
        if behaviour == "segfault":
            ctypes.string_at(0)
        elif behaviour == "exit":
            print("cannot find libodd.so", file=sys.stderr, flush=True)
            os._exit(7)
        elif behaviour == "hang":
            time.sleep(60)
        elif behaviour == "missing":
            raise MissingDependency("Runtime odd", "oddities", "odd")
        elif behaviour == "raise":
            raise RuntimeError("bad magic number\n  at odd.cc:12")

    def compile(self, loaded, model, options):
        return OddSession(model.architecture or {})


class OddSession(Session):
    def __init__(self, architecture):
        self._behaviour = architecture.get("at_predict")
        self._finished = architecture.get("finished")
        self._source = architecture.get("source") if architecture.get("allowed") else None
        self.inputs = (TensorSpec("x", (None, 3), "float32"),)
        self.outputs = (TensorSpec("y", (None, 3), "float32", 0.5, 3),)

    def predict(self, feeds):
        if self._behaviour == "sleep":
            subprocess.Popen(["sleep", "60"])
            time.sleep(60)
            Path(self._finished).touch()
        if self._behaviour == "raise":
            raise KeyError("a programming mistake")
        if self._behaviour == "own pid":
            return {"y": np.array([os.getpid()])}
        time.sleep(0.01)
        return {"y": feeds["x"] * 2}

    def effective(self):
        return Effective("odd-cpu", "float32", 1, {"source": str(self._source)})


def model(tmp_path, **architecture):
    path = tmp_path / "model.odd"
    path.touch()
    return ModelFiles("fake", {"model": path}, architecture or None)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    code = {
        "preprocess": "import numpy as np\ndef preprocess(image):\n    return np.float32(image) / 255\n",
        "postprocess": "def postprocess(outputs):\n    y = outputs['y']\n    return y[:, :7] - outputs['z']\n",
        "architecture": "def build(): ...",
    }
    with open_isolated(Odd(), model(tmp_path_factory.mktemp("m")), Options(), code=code) as opened:
        yield opened


def shared_memory_held():
    """How often this process has an arena open or mapped; with no name anywhere, that is all that could leak."""
    assert not [entry for entry in Path("/dev/shm").iterdir() if "zoolens" in entry.name]
    opened = [link for link in Path("/proc/self/fd").iterdir() if "zoolens-tensors" in os.path.realpath(link)]
    return len(opened) + Path("/proc/self/maps").read_text().count("zoolens-tensors")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def children_of(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()]


# --- what crosses


def test_tensors_cross_in_any_size_and_stay_the_callers(session):
    first = session.predict({"x": np.ones((1, 3), np.float32)})["y"]
    batch = np.random.default_rng(0).normal(size=(50_000, 3)).astype(np.float32)
    assert np.array_equal(session.predict({"x": batch})["y"], batch * 2)
    assert np.array_equal(first, np.full((1, 3), 2, np.float32))
    first += 1  # writable


def test_a_session_tells_what_the_one_inside_tells(session):
    assert session.inputs == (TensorSpec("x", (None, 3), "float32"),)
    assert session.outputs == (TensorSpec("y", (None, 3), "float32", 0.5, 3),)
    assert session.effective().provider == "odd-cpu"
    assert session.packages["numpy"] == np.__version__
    assert 5 << 20 < session.peak_memory_bytes < 4 << 30


def test_phases_of_a_cold_start_are_timed(session):
    assert list(session.phases) == ["start", "import", "load", "compile"]
    assert all(0 <= seconds < 60 for seconds in session.phases.values())
    assert session.phases["start"] > 0.001
    assert session.phases["import"] > 0.01  # numpy at least


def test_the_workers_own_time_of_a_prediction(session):
    started = time.perf_counter()
    session.predict({"x": np.ones((1, 3), np.float32)})
    assert 0.01 <= session.last_predict_seconds < time.perf_counter() - started


def test_declared_inabilities_hold(session, tmp_path):
    with pytest.raises(UnsupportedAbility, match="it has none"):
        session.count_parameters()
    with pytest.raises(UnsupportedAbility, match="it has one"):
        open_isolated(Odd(), model(tmp_path), Options(threads=2))


def test_an_ability_that_an_older_plug_in_does_not_know_of_is_refused(session):
    ones = {"x": np.ones((1, 3), np.float32)}
    with pytest.raises(UnsupportedAbility, match="does not say how"):
        session.profile(ones)
    with pytest.raises(UnsupportedAbility, match="there is nothing inside"):
        session.capture(ones, ["y"])


def test_strings_are_refused_and_the_session_lives_on(session):
    with pytest.raises(ModelError, match="only numbers"):
        session.predict({"x": np.array(["a"], dtype=object)})
    assert session.predict({"x": np.ones((1, 3), np.float32)})["y"].sum() == 6


def test_errors_keep_their_kind_message_and_hint(tmp_path):
    with pytest.raises(MissingDependency) as caught:
        open_isolated(Odd(), model(tmp_path, at_open="missing"), Options())
    assert caught.value.message == "Runtime odd needs oddities, which is not installed."
    assert caught.value.hint == "Run: pip install 'zoolens[odd]'"
    with pytest.raises(ModelError, match=r"cannot open model.odd as fake: bad magic number"):
        open_isolated(Odd(), model(tmp_path, at_open="raise"), Options())


def test_a_mistake_in_a_plug_in_names_its_place(tmp_path):
    with (
        open_isolated(Odd(), model(tmp_path, at_predict="raise"), Options()) as opened,
        pytest.raises(WorkerError, match=r"unexpected KeyError at test_isolated\.py:\d+"),
    ):
        opened.predict({"x": np.ones((1, 3), np.float32)})


def test_unknown_runtime():
    with pytest.raises(UnknownName):
        open_isolated("onnxruntme", ModelFiles("onnx", {"model": Path("x.onnx")}), Options())


def test_a_class_that_cannot_be_imported_is_refused(tmp_path):
    class Local(Odd):
        pass

    with pytest.raises(WorkerError, match="cannot import"):
        open_isolated(Local(), model(tmp_path), Options())


# --- code of a manifest


def test_snippets_run_in_the_worker(session):
    image = np.full((4, 5, 3), 255, np.uint8)
    assert np.array_equal(session.run_preprocess(image), np.ones((4, 5, 3), np.float32))
    scores = session.run_postprocess({"y": np.ones((2, 9), np.float32), "z": np.ones((2, 7), np.float32)})
    assert np.array_equal(scores, np.zeros((2, 7)))
    assert session.effective().details["source"] == "def build(): ..."


def test_a_snippet_that_raises_is_named_with_its_line(session):
    with pytest.raises(ModelError, match="postprocess code fails in line 2: KeyError: 'y'"):
        session.run_postprocess({"other": np.ones((1, 2))})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def preprocess(image):\n    return (", "preprocess code fails in line 2: SyntaxError"),
        ("x = 1\n1 / 0\n", "preprocess code fails in line 2: ZeroDivisionError"),
        ("raise SystemExit(3)", "preprocess code fails in line 1: SystemExit"),
        ("def other(image): ...", "does not define a function named preprocess"),
    ],
)
def test_a_snippet_that_defines_nothing_is_refused(tmp_path, source, message):
    with pytest.raises(ModelError, match=message):
        open_isolated(Odd(), model(tmp_path), Options(), code={"preprocess": source})


def test_code_that_was_not_allowed_never_runs(tmp_path):
    with open_isolated(Odd(), model(tmp_path), Options()) as opened, pytest.raises(CodeNotAllowed):
        opened.run_preprocess(np.ones((2, 2, 3), np.uint8))


def test_snippets_must_return_numbers(tmp_path):
    source = "def preprocess(image): return {'no': 'array'}"
    with (
        open_isolated(Odd(), model(tmp_path), Options(), code={"preprocess": source}) as opened,
        pytest.raises(ModelError, match="not an array of numbers"),
    ):
        opened.run_preprocess(np.ones((2, 2, 3), np.uint8))


# --- another environment


def test_a_plug_in_is_lent_to_another_environment_without_its_neighbours(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("")
    (tmp_path / "lent_runtime.py").write_text(
        textwrap.dedent("""
        import importlib.util
        from zoolens.inventory.runtimes.runtime import Effective, Runtime, Session, TensorSpec
        class Lent(Runtime):
            name, summary, formats = "lent", "", ("fake",)
            def load_library(self): return None
            def load(self, model, options): return None
            def compile(self, loaded, model, options): return LentSession()
        class LentSession(Session):
            inputs = outputs = ()
            def predict(self, feeds): return {}
            def effective(self): return Effective(str(importlib.util.find_spec("neighbour")))
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import lent_runtime

    here = Environment(Path(sys.executable), EnvSpec(("numpy",)), "here", {})
    with open_isolated(lent_runtime.Lent(), model(tmp_path), Options(), environment=here) as opened:
        assert opened.effective().provider == "None"
        assert opened.predict({}) == {}
    with open_isolated(lent_runtime.Lent(), model(tmp_path), Options()) as opened:
        assert "neighbour" in opened.effective().provider


VERSIONED = """
from zoolens.inventory.runtimes.runtime import Effective, Runtime, Session
class Versioned(Runtime):
    name, summary, formats = "versioned", "", ("fake",)
    def load_library(self):
        import some_library
        return some_library
    def load(self, model, options): return None
    def compile(self, loaded, model, options): return VersionedSession(self.load_library().version)
class VersionedSession(Session):
    inputs = outputs = ()
    def __init__(self, version): self._version = version
    def predict(self, feeds): return {}
    def effective(self): return Effective(self._version)
"""


def environment_with(folder, version):
    """An environment that has this version of a library, and numpy and all the rest from ours."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "some_library.py").write_text(f"version = {version!r}")
    record = packages / f"some_library-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some-library\nVersion: {version}\n")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))
    return Environment(folder / "bin" / "python", EnvSpec(("some-library",)), version, {})


def test_one_model_in_two_versions_of_one_runtime_side_by_side(tmp_path, monkeypatch):
    """Trusted: the sandbox shows a worker of another environment nothing of ours."""
    (tmp_path / "versioned_runtime.py").write_text(VERSIONED)
    monkeypatch.syspath_prepend(tmp_path)
    from versioned_runtime import Versioned

    old_one, new_one = (environment_with(tmp_path / version, version) for version in ("1.0", "2.0"))
    with (
        trusting(),
        open_isolated(Versioned(), model(tmp_path), environment=old_one) as old,
        open_isolated(Versioned(), model(tmp_path), environment=new_one) as new,
    ):
        assert (old.effective().provider, new.effective().provider) == ("1.0", "2.0")
        assert (old.packages["some-library"], new.packages["some-library"]) == ("1.0", "2.0")
        assert old.predict({}) == new.predict({}) == {}


def test_an_environment_without_interpreter(tmp_path):
    gone = Environment(tmp_path / "python", EnvSpec(("numpy",)), "gone", {})
    with pytest.raises(WorkerError, match="cannot be started"):
        open_isolated(Odd(), model(tmp_path), Options(), environment=gone)


def test_the_worker_needs_nothing_but_numpy():
    program = """
import sys
import zoolens.inventory.runtimes.isolation.worker, zoolens.inventory.runtimes.mxnet.mxnet_runtime
allowed = set(sys.stdlib_module_names) | {"numpy", "zoolens", "__main__"}
print(sorted({name.partition(".")[0] for name in sys.modules} - allowed - set(sys.argv[1].split())))
"""
    before = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded_by_site = subprocess.run([sys.executable, "-c", before], capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-c", program, loaded_by_site]
    strangers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert [name for name in eval(strangers) if not name.startswith("_")] == []


# --- death


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("segfault", r"died with signal 11 \(SIGSEGV\) while opening model.odd"),
        ("exit", r"exited with code 7 while opening model.odd. Its last output: .*cannot find libodd.so"),
    ],
)
def test_a_crash_is_explained(tmp_path, behaviour, message):
    with pytest.raises(WorkerError, match=message):
        open_isolated(Odd(), model(tmp_path, at_open=behaviour), Options())


def test_a_worker_that_hangs_is_stopped(tmp_path):
    with pytest.raises(WorkerError, match=r"no answer in 2 s while opening model.odd"):
        open_isolated(Odd(), model(tmp_path, at_open="hang"), Options(), timeout=2)


def test_a_worker_killed_in_mid_prediction_leaves_nothing_behind(tmp_path):
    held, descriptors = shared_memory_held(), len(list(Path("/proc/self/fd").iterdir()))
    with trusting():  # it may start a program
        opened = open_isolated(Odd(), model(tmp_path, at_predict="sleep"), Options())
    assert shared_memory_held() > held
    pid = opened._worker.pid

    def kill_when_busy():
        wait_until(lambda: children_of(pid))
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    with pytest.raises(WorkerError, match=r"died with signal 9 \(SIGKILL\) while running the model"):
        opened.predict({"x": np.ones((1, 3), np.float32)})
    killer.join()
    with pytest.raises(WorkerError, match="has ended"):
        opened.predict({"x": np.ones((1, 3), np.float32)})
    opened.close()
    opened.close()
    assert shared_memory_held() == held
    wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= descriptors)


def test_close_ends_the_worker_and_what_it_started(tmp_path):
    with trusting():
        opened = open_isolated(Odd(), model(tmp_path, at_predict="sleep"), Options(), timeout=30)
    pid = opened._worker.pid
    family = []

    def stop_when_busy():
        wait_until(lambda: children_of(pid))
        family.extend([pid, *children_of(pid)])
        opened._worker.stop()

    stopper = threading.Thread(target=stop_when_busy)
    stopper.start()
    with pytest.raises(WorkerError):
        opened.predict({"x": np.ones((1, 3), np.float32)})
    stopper.join()
    assert len(family) == 2
    wait_until(lambda: not any(alive(member) for member in family))


def test_peak_memory_is_known_after_closing(tmp_path):
    opened = open_isolated(Odd(), model(tmp_path), Options())
    opened.predict({"x": np.ones((1, 3), np.float32)})
    before = opened.peak_memory_bytes
    opened.close()
    assert opened.peak_memory_bytes >= before
    assert not alive(opened._worker.pid)


PARENT = """
import os, signal, sys, threading
from pathlib import Path
import numpy as np
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.base.engine.sandbox import trusting
from zoolens.inventory.runtimes.isolation.test_isolated import Odd
files = ModelFiles("fake", {"model": Path(sys.argv[1])}, {"at_predict": "sleep"})
with trusting():
    session = open_isolated(Odd(), files, Options())
print(session._worker.pid, flush=True)
session.predict({"x": np.ones((1, 3), np.float32)})
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_when_the_parent_dies_the_worker_ends(tmp_path, how):
    path = model(tmp_path).path()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        wait_until(lambda: children_of(pid))
        family = [pid, *children_of(pid)]
        parent.send_signal(how)
        parent.wait(20)
    wait_until(lambda: not any(alive(member) for member in family))


def test_ctrl_c_does_not_reach_the_worker(tmp_path):
    with open_isolated(Odd(), model(tmp_path, at_predict="own pid"), Options()) as opened:
        pid = opened._worker.pid
        assert os.getpgid(pid) == pid != os.getpgid(0)
        assert opened.predict({"x": np.ones((1, 3), np.float32)})["y"][0] == pid


# --- predictions that are begun


def test_a_prediction_is_begun_and_finished_later(session):
    ones = np.ones((2, 3), np.float32)
    finish = session.begin_predict([{"x": ones}, {"x": ones[:1] + 1}])
    for _ in range(2):  # its answers stay
        first, second = finish()
        assert np.array_equal(first["y"], ones * 2)
        assert np.array_equal(second["y"], ones[:1] * 4)


def test_what_is_asked_meanwhile_does_not_take_its_answer(session):
    first = session.begin_predict([{"x": np.full((1, 3), 1, np.float32)}])
    assert session.effective().provider == "odd-cpu"
    second = session.begin_predict([{"x": np.full((1, 3), 2, np.float32)}])
    third = session.predict({"x": np.full((1, 3), 3, np.float32)})
    assert [one["y"][0, 0] for one in (first()[0], second()[0], third)] == [2, 4, 6]


def test_an_error_belongs_to_whoever_began(tmp_path):
    with open_isolated(Odd(), model(tmp_path, at_predict="raise"), Options()) as opened:
        finish = opened.begin_predict([{"x": np.ones((1, 3), np.float32)}])
        assert opened.effective().provider == "odd-cpu"
        with pytest.raises(WorkerError, match="programming mistake"):
            finish()


def test_closing_does_not_wait_for_what_was_begun(tmp_path):
    finished = tmp_path / "finished"
    with trusting():
        opened = open_isolated(Odd(), model(tmp_path, at_predict="sleep", finished=str(finished)), Options())
    finish = opened.begin_predict([{"x": np.ones((1, 3), np.float32)}])
    opened.close()
    assert not finished.exists()
    with pytest.raises(WorkerError):
        finish()


def test_times_are_sampled_inside_the_worker(session):
    repeated = session.repeat({"x": np.ones((1, 3), np.float32)}, 1, 0.0)
    elapsed, waiting = repeated.sample(3, 10.0)
    assert len(elapsed) == len(waiting.delay_ns) == 3
    assert all(10_000_000 <= one < 10_000_000_000 for one in elapsed)  # it sleeps for 10 ms
    assert len(repeated.sample(100, 0.0)[0]) == 1
