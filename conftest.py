"""Property tests draw the same examples every time, so that a passing change passes again;
`pytest --hypothesis-profile search` draws new ones. They draw none of the constants in our modules: only modules that
were imported before count, so that examples would depend on the tests that ran before, and each process would parse all
of our sources first (6 s of CPU in a new checkout).

The slowest files come first, then all others of tests/, most of which start commands and take seconds each, and unit
tests last, so that the processes of `make test` end at the same time. Folders whose tests share training processes, a
browser, a server, a measured store or what frameworks do the first time are one piece of work of one of them.

JAX keeps what it compiled for all processes of a run: most tests train the same few networks. It compiles them without
most optimisations, since each is used for a few steps only.

Numpy computes in one thread: on matrices of a few hundred rows a second one takes more than it gives, and where two
processes share two cores its waiting takes CPU from the other (a file of Gaussian processes 25 → 9 s of CPU).

Threads of OpenMP, which torch has, sleep while they wait for each other: by default they ask again and again, which
takes CPU from whatever else runs on the same cores.

Python looks for cycles less often, and for none while tests are collected: what frameworks and thousands of collected
tests make lives to the end, and to search it at every 700 objects took a twentieth of the time of the tests that run in
these processes.

Temporary files lie in memory where there is room for them: every commit to a store waits until the disk has it, and for
two processes this adds up to minutes. TMPDIR, if set, says where they lie instead.

Settings of the user's own zoolens do not hold for tests: one would write into the store that ZOOLENS_STORE names.

Ctrl-C is not ignored, whatever the shell that started us does (one behind `&` or `trap '' INT`): processes that a test
starts and interrupts would inherit that."""

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from zoolens.base.engine.sandbox import trusting

# No example has a time limit: how long one takes says how busy the machine is.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, **UNHURRIED)
settings.register_profile("search", print_blob=True, **UNHURRIED)
settings.load_profile("fixed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(10_000)

SLOWEST = (
    "src/zoolens/training/crosstrain/",
    "tests/test_crosstrain.py",
    "tests/test_hostile.py",
    "tests/test_readme.py",
    "tests/test_wheel.py",
    "tests/test_plugin.py",
    "src/zoolens/findings/audit/doctor/test_damaged.py",
    "src/zoolens/findings/audit/doctor/test_doctor.py",
    "src/zoolens/inventory/runtimes/isolation/test_environments_network.py",
    "tests/test_fanout.py",
    "tests/ui/",
    "src/zoolens/training/port/",
    "src/zoolens/training/pairs/",
    "src/zoolens/faces/serving/services/",
    "src/zoolens/faces/serving/transports/",
    "tests/test_docs_python.py",  # not beside test_readme.py: one would wait until the demo has run for the other
)
TOGETHER = tuple(name for name in SLOWEST if name.endswith("/"))


IN_MEMORY = Path("/dev/shm")
IN_USE = pytest.StashKey()
OF_THE_USER = ("STORE", "BULK", "ZOO_PATH", "FILE_CACHE", "OPENAI_KEY", "UI_TOKEN", "SERVE_TOKEN")
NEEDED = 12 << 30  # bytes: the tests leave less than 1 GB behind, and their processes use 6 GB


def folder_in_memory():
    """A new folder in a file system that lies in memory, with room for the tests and where programs may be run; None if
    there is no such thing. Folders of runs that have ended are removed."""
    if not os.access(IN_MEMORY, os.W_OK):
        return None
    for earlier in IN_MEMORY.glob("tests-*"):
        if not psutil.pid_exists(int(earlier.name.removeprefix("tests-"))):
            shutil.rmtree(earlier, ignore_errors=True)
    room = os.statvfs(IN_MEMORY)
    free = min(room.f_bavail * room.f_frsize, psutil.virtual_memory().available)
    if free < NEEDED or room.f_flag & os.ST_NOEXEC:
        return None
    folder = IN_MEMORY / f"tests-{os.getpid()}"  # short: the path of a socket has at most 107 characters
    folder.mkdir(mode=0o755)  # PostgreSQL is run by another user where we are root
    return folder


def pytest_configure(config):
    if config.getoption("--hypothesis-profile", None) is None:
        # hypothesis has no setting for this: its own set of constants of modules stays as empty as it is made
        providers._get_local_constants = lambda: providers._local_constants
    for name in OF_THE_USER:
        os.environ.pop(f"ZOOLENS_{name}", None)
    if "PYTEST_XDIST_WORKER" in os.environ:  # it inherits the variables of the process that started it
        return
    if "TMPDIR" not in os.environ and (folder := folder_in_memory()):
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        config.option.basetemp = config.option.basetemp or str(folder / "pytest")
        config.stash[IN_USE] = folder
    programs = tempfile.TemporaryDirectory(prefix="jax-programs-")
    config.add_cleanup(programs.cleanup)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = programs.name
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items):
    order = (*SLOWEST, "tests/", "")

    def place(item):
        node = item.nodeid  # which pytest puts together each time
        return next(place for place, name in enumerate(order) if node.startswith(name))

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """As `--dist loadfile`, but that each folder of TOGETHER is like one file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FilesAndFolders(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))

    return FilesAndFolders(config, log)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Give the memory back, but for what other libraries remove when this process ends."""
    folder = session.config.stash.get(IN_USE, None)
    if folder is not None and exitstatus == 0:
        shutil.rmtree(folder / "pytest", ignore_errors=True)


@pytest.fixture(scope="module")
def trusted_models():
    """Models are opened in this process: for tests that open many and whose subject is not the sandbox."""
    with trusting():
        yield
