"""Attacks from inside a worker: each thing that a hole in a framework could be used for is refused by the kernel.

The attacker is a runtime whose `load` runs Python from the model file: the worst that a format check can let through.
"""

import errno
import json
import os
import platform
import resource
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from zoolens.base.engine import landlock, sandbox, seccomp
from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import ModelError, WorkerError
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.runtime import Effective, ModelFiles, Options, Runtime, Session, TensorSpec

needs_landlock = pytest.mark.skipif(
    not landlock.version(), reason="THIS KERNEL HAS NO LANDLOCK: that a model cannot reach files is NOT TESTED here"
)
needs_seccomp = pytest.mark.skipif(
    not seccomp.available(), reason="THIS KERNEL HAS NO SECCOMP FILTERS: that a model cannot connect is NOT TESTED here"
)


class Hole(Runtime):
    """Runs whatever Python the model file holds; what it sets as `told` is the answer's provider."""

    name = "hole"
    summary = "a test's own"
    formats = ("hole",)
    modes = ("compiled",)
    compilers = ("compiled",)

    def load_library(self):
        return np

    def load(self, model, options):
        found = {}
        exec(model.path().read_text(), found)
        return str(found.get("told", ""))

    def compile(self, loaded, model, options):
        return HoleSession(loaded)


class HoleSession(Session):
    inputs = (TensorSpec("x", (None,), "float32"),)
    outputs = (TensorSpec("y", (None,), "float32"),)

    def __init__(self, told):
        self._told = told

    def predict(self, feeds):
        return {"y": feeds["x"]}

    def effective(self):
        return Effective(self._told)


@pytest.fixture
def attack(tmp_path):
    """Run a piece of Python where a model is opened; gives back what it set as `told`."""

    def run(source, *, trust=False, mode="default", **names):
        path = tmp_path / "model.hole"
        given = "\n".join(f"{name} = {value!r}" for name, value in names.items())
        path.write_text(f"{given}\n{textwrap.dedent(source)}")
        with trusting(trust), open_isolated(Hole(), ModelFiles("hole", {"model": path}), Options(mode=mode)) as session:
            return session.effective().provider

    return run


REFUSED = (errno.EPERM, errno.EACCES)


@pytest.fixture
def refused(attack):
    """Try several pieces of Python, each for itself, in one worker: those that nothing refused, and what they met."""

    def run(sources, **names):
        tried = """
            import os
            told, here = {}, os.getcwd()
            for source in sources:
                os.chdir(here)
                try:
                    exec(source, dict(names))
                    told[source] = "done"
                except Exception as error:
                    told[source] = getattr(getattr(error, "reason", error), "errno", None) or repr(error)
            import json
            told = json.dumps(told)
        """
        met = json.loads(attack(tried, sources=list(sources), names=names))
        return {source: what for source, what in met.items() if what not in REFUSED}

    return run


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A file such as a home has, which the user may read."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    path = home / ".ssh" / "id_ed25519"
    path.write_text("the key")
    return str(path)


# --- files


CHANGES = [
    "open(path + '.new', 'w')",
    "open(path, 'a')",
    "import os; os.truncate(path, 0)",
    "import os; os.unlink(path)",
    "import os; os.rename(path, path + '.moved')",
    "import os; os.rename(path, 'mine')",
    "import os; os.link(path, path + '.linked')",
    "import os; os.symlink('/etc/passwd', path + '.linked')",
    "import os; os.mkdir(path + '.folder')",
    "import os; os.rmdir(os.path.dirname(path))",
    "import os; os.mkfifo(path + '.fifo')",
    "import socket; socket.socketpair()[0].bind(path + '.sock')",
]


@needs_landlock
def test_nothing_outside_the_scratch_folder_is_changed(refused, secret):
    before = sorted(map(str, Path(secret).parent.parent.rglob("*")))
    assert refused(CHANGES, path=secret) == {}
    assert sorted(map(str, Path(secret).parent.parent.rglob("*"))) == before
    assert Path(secret).read_text() == "the key"


DEVICES = [
    "import os, stat; os.mknod('null', stat.S_IFCHR | 0o600, os.makedev(1, 3))",
    "import os, stat; os.mknod('disk', stat.S_IFBLK | 0o600, os.makedev(8, 0))",
    "import os, stat; os.mknod('socket', stat.S_IFSOCK | 0o600)",
]


@needs_landlock
def test_no_device_is_made_even_by_root(refused):
    """A device in the scratch folder could be opened: Landlock judges where a file lies, not what it is."""
    assert refused(DEVICES) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up: that they are is NOT TESTED here")
def test_root_keeps_its_rights_on_files_only(attack):
    source = """
        import resource
        lines = open("/proc/self/status").read().splitlines()
        told = [int(line.split()[1], 16) & ~0b110 for line in lines if line.startswith(("CapEff", "CapPrm", "CapInh"))]
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
            told.append("raised")
        except (OSError, ValueError):
            pass
    """
    assert attack(source) == "[0, 0, 0]"


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="only Linux chooses whom to end")
def test_a_worker_is_the_first_to_go_when_memory_runs_out(attack):
    assert attack("told = open('/proc/self/oom_score_adj').read().strip()") == "1000"
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


ATTRIBUTES = [
    "import os; os.chmod(path, 0o777)",
    "import os; os.fchmod(os.open('own', os.O_CREAT | os.O_WRONLY), 0o777)",
    "import os; os.chown(path, os.getuid(), -1)",
    "import os; os.utime(path, (0, 0))",
    "import os; os.setxattr(path, 'user.note', b'1')",
]


@needs_seccomp
def test_modes_owners_and_times_of_files_stay(refused, secret):
    before = Path(secret).stat()
    assert refused(ATTRIBUTES, path=secret) == {}
    after = Path(secret).stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)


READS = [
    "told = open(path).read()",
    "import os; told = os.listdir(os.path.dirname(path))",
    "import os; os.symlink(path, 'link'); told = open('link').read()",
    "told = open('/proc/self/root' + path).read()",
    "import os; os.chdir(os.path.dirname(path)); told = open('id_ed25519').read()",
    "import os; told = open(f'/proc/{os.getppid()}/environ').read()",
    "import os; told = open(f'/proc/{os.getppid()}/cmdline').read()",
    "import os; told = os.listdir('/tmp')",
    "import os; told = os.listdir('/dev/shm')",
    "told = open('/etc/shadow').read()",
]


@needs_landlock
def test_files_of_the_user_are_not_read(refused, secret):
    assert refused(READS, path=secret) == {}


@needs_landlock
def test_the_same_with_trust_is_possible(attack, secret):
    """That the attacks fail for the sandbox and not for a mistake in them."""
    assert attack("told = open(path).read()", path=secret, trust=True) == "the key"
    attack("open(path + '.new', 'w')", path=secret, trust=True)
    assert Path(f"{secret}.new").exists()


def test_the_scratch_folder_is_there_to_write_and_gone_afterwards(attack):
    source = """
        import os, tempfile
        from pathlib import Path
        folder = Path(tempfile.mkdtemp())
        (folder / "file").write_text("1")
        assert Path.home() == Path.cwd() == Path(tempfile.gettempdir())
        assert Path(os.environ["XDG_CACHE_HOME"]) == Path.home()
        told = Path.cwd()
    """
    used = Path(attack(source))
    assert used.name
    assert not used.exists()


def test_the_model_and_python_itself_are_read(attack):
    assert attack("import json, xml.dom.minidom, sqlite3; told = json.dumps([1])") == "[1]"


# --- the network


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


CONNECTIONS = [
    "import socket; socket.create_connection(('127.0.0.1', port), 2)",
    "import socket; socket.create_server(('127.0.0.1', 0))",
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'1', ('127.0.0.1', port))",
    "import socket; socket.socket(socket.AF_INET6)",
    "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "import socket; socket.socket(socket.AF_UNIX).connect(path)",
    "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{port}', timeout=2)",
]


@needs_seccomp
def test_nothing_is_sent(refused, server, tmp_path):
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "agent"))
        agent.listen()
        assert refused(CONNECTIONS, port=server.getsockname()[1], path=str(tmp_path / "agent")) == {}
    server.settimeout(0.05)
    with pytest.raises(TimeoutError):
        server.accept()


@needs_seccomp
def test_with_trust_it_connects(attack, server):
    source = "import socket; told = socket.create_connection(('127.0.0.1', port), 5).getpeername()[1]"
    assert attack(source, port=server.getsockname()[1], trust=True) == str(server.getsockname()[1])


@pytest.mark.skipif(landlock.version() < 4, reason="THIS KERNEL'S LANDLOCK HAS NO RULES FOR TCP: not tested")
def test_landlock_alone_refuses_tcp(server):
    """The second lock of the same door: where seccomp is not to be had, TCP is refused all the same."""
    code = f"""
import socket
from zoolens.base.engine import landlock, seccomp
seccomp.forbid_new_privileges()
landlock.restrict([("/", landlock.READ)])
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 2)
except PermissionError as error:
    print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EACCES)]


# --- processes


PROCESSES = [
    "import os; os.fork()",
    "import os; os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "import os; os.posix_spawn('/bin/sh', ['sh'], {})",
    "import subprocess; subprocess.run(['/bin/sh', '-c', 'true'])",
    "import os; os.kill(victim, 9)",
    "import os; os.kill(-1, 0)",
    "import os; os.kill(os.getppid(), 0)",
    "import os; os.pidfd_open(victim)",
    "import resource; resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1))",
    "import os; os.setpriority(os.PRIO_PROCESS, victim, 19)",
    "import os; os.setpriority(os.PRIO_USER, 0, 19)",
    "import os; os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0))",
    "import os; os.sched_setparam(victim, os.sched_param(0))",
    "import os, fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, victim)",
    "import os, fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETSIG, 9)",
    "import os, fcntl; fcntl.ioctl(os.pipe()[0], 0x8901, victim.to_bytes(4, 'little'))",
    "import os; os.memfd_create('x')",
    "import os; os.unshare(0x10000000)" if hasattr(os, "unshare") else "import os; os.fork()",
]


@needs_seccomp
def test_no_other_process_is_started_or_reached(refused):
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            assert refused(PROCESSES, victim=victim.pid) == {}
            assert victim.poll() is None
        finally:
            victim.kill()


CALLS = {"ptrace": [16, 0], "process_vm_readv": [0, 0, 0, 0, 0, 0], "bpf": [0, 0, 0], "io_uring_setup": [1, 0],
         "keyctl": [0, 0], "userfaultfd": [0], "perf_event_open": [0, 0, -1, -1, 0], "mount": [0, 0, 0, 0, 0],
         "shmget": [0, 4096, 0o1600], "mq_open": [0, 0], "open_by_handle_at": [-1, 0, 0], "setns": [-1, 0]}  # fmt: skip


@needs_seccomp
def test_system_calls_that_no_model_needs_are_refused(attack):
    column = seccomp._ARCHITECTURES[platform.machine()][0]
    source = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        told = {name: (libc.syscall(number, *given), ctypes.get_errno()) for name, (number, given) in calls.items()}
    """
    calls = {name: (seccomp._CALLS[name][column], given) for name, given in CALLS.items()}
    assert attack(source, calls=calls) == str(dict.fromkeys(CALLS, (-1, errno.EPERM)))


@needs_seccomp
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only this processor has a second set of numbers")
def test_the_second_set_of_numbers_is_refused_too(attack):
    source = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); told = libc.syscall(0x40000000 + 41, 2, 1, 0)"
    assert attack(source) == "-1"


def test_threads_are_allowed(attack):
    source = """
        import threading
        told = []
        threads = [threading.Thread(target=told.append, args=(n,)) for n in range(3)]
        for one in threads: one.start()
        for one in threads: one.join()
        told = sum(told)
    """
    assert attack(source) == "3"


@needs_seccomp
@needs_landlock
def test_a_compiler_may_be_started_and_is_confined_too(attack, secret, server):
    shell = "import subprocess; told = subprocess.run(['/bin/sh', '-c', {0!r}], capture_output=True, text=True).stdout"
    assert attack(shell.format("echo started"), mode="compiled").strip() == "started"
    assert attack(shell.format(f"cat {secret} || echo refused"), mode="compiled").strip() == "refused"
    assert attack(shell.format(f"echo x > {secret}.new || echo refused"), mode="compiled").strip() == "refused"
    assert not Path(f"{secret}.new").exists()
    port = server.getsockname()[1]
    source = "import socket; socket.create_connection(('127.0.0.1', port), 2)"
    with pytest.raises(ModelError, match="not permitted"):
        attack(source, port=port, mode="compiled")


# --- what a worker is given


def test_no_secret_is_among_the_variables(attack, monkeypatch):
    secrets = ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "ZOOLENS_STORE", "TF_API_KEY", "SSH_AUTH_SOCK"]
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    given = json.loads(attack("import os, json; told = json.dumps(dict(os.environ))"))
    assert not set(secrets) & set(given)
    assert "hunter2" not in given.values()
    assert given["OMP_NUM_THREADS"] == "1"


def test_descriptors_of_ours_are_not_passed_on(attack, secret):
    with Path(secret).open() as opened:
        os.set_inheritable(opened.fileno(), True)
        source = """
            import os
            told = []
            for one in range(3, 100):
                try:
                    told.append(os.readlink(f"/proc/self/fd/{one}"))
                except OSError:
                    pass
        """
        assert secret not in attack(source)


def test_limits_hold(attack):
    source = "import resource as r; told = [r.getrlimit(one)[1] for one in (r.RLIMIT_CORE, r.RLIMIT_FSIZE)]"
    core, size = json.loads(attack(source))
    assert core == 0
    assert 0 < size <= sandbox.FILE_BYTES
    assert "MemoryError" in attack("""
        import resource
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        try:
            bytearray(soft + (1 << 30))
        except MemoryError as error:
            told = repr(error)
    """)
    assert resource.getrlimit(resource.RLIMIT_CORE) is not None  # ours are as they were: nothing leaks to us


# --- a worker that was taken over


@pytest.mark.parametrize(
    "answer",
    [
        *("[]", "{}", '{"ok": 5}', '{"error": 5}', '{"error": {}}', '{"ok": {"inputs": [{"shape": 3}]}}', '{"ok":'),
        *("\\xff", "[" * 60_000),
        '{"ok": {"inputs": [{"name": "x", "dtype": "f4", "shape": [-1]}], "outputs": [], "phases": {}, "sandbox": ""}}',
        '{"ok": {"inputs": [{"name": [], "dtype": "f4", "shape": [1]}], "outputs": [], "phases": {}, "sandbox": ""}}',
    ],
)
def test_answers_that_make_no_sense_are_refused(attack, answer):
    source = """
        import gc, os
        from zoolens.base.engine.wire import Channel
        channel = next(one for one in gc.get_objects() if isinstance(one, Channel))
        os.write(channel.writing, answer.encode() + b"\\n")
    """
    with pytest.raises((WorkerError, ModelError)):
        attack(source, answer=answer)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux seals memory")
def test_shared_memory_is_not_cut_short(attack):
    source = """
        import gc, os
        from zoolens.base.engine.wire import Arena
        arenas = [one for one in gc.get_objects() if isinstance(one, Arena)]
        told = []
        for one in arenas:
            os.ftruncate(one.descriptor, 1 << 16)
            try:
                os.ftruncate(one.descriptor, 0)
            except PermissionError:
                told.append("sealed")
    """
    assert attack(source) == "['sealed', 'sealed']"


def test_shared_memory_takes_no_further_seals(attack):
    """A seal against writing, added by the worker, would make our next request fail."""
    source = """
        import fcntl, os
        told = []
        for name in os.listdir("/proc/self/fd"):
            try:
                fcntl.fcntl(int(name), fcntl.F_ADD_SEALS, 0x0010 | fcntl.F_SEAL_GROW)  # F_SEAL_FUTURE_WRITE
                told.append(name)
            except OSError:
                pass
    """
    assert attack(source) == "[]"


def test_a_worker_that_fills_its_scratch_folder_is_stopped(attack, monkeypatch):
    monkeypatch.setattr("zoolens.base.engine.scratch_quota.MOST_ENTRIES", 50)
    source = """
        import time
        for number in range(100):
            open(str(number), "w")
        time.sleep(600)
    """
    with pytest.raises(WorkerError, match=r"its temporary files took more than 16 GiB or were more than"):
        attack(source)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for the parent's death")
def test_a_worker_that_silences_its_watcher_dies_with_a_killed_parent(tmp_path):
    """The watcher is a thread of the worker: it never runs again where the worker holds Python's lock for good."""
    source = """
        import ctypes
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        open("ready", "w")
        ctypes.PyDLL(None).sleep(600)
    """
    model = tmp_path / "model.hole"
    model.write_text(textwrap.dedent(source))
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_sandbox import Hole
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
open_isolated(Hole(), ModelFiles("hole", {{"model": Path({str(model)!r})}}), Options())
"""
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], env=variables) as parent:
        until = time.monotonic() + 120
        while not (ready := any(tmp_path.glob("zoolens-*/*/ready"))) and time.monotonic() < until:
            time.sleep(0.02)
        workers = [child for child in psutil.Process(parent.pid).children() if "-c" in child.cmdline()[:4]]
        workers = [child for child in workers if "python" in child.cmdline()[0]]  # the other one is a shell
        parent.kill()
    assert ready
    assert len(workers) == 1
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
