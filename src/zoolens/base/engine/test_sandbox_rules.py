"""What the sandbox asks of the kernel, and what it says where the kernel has less."""

# ruff: noqa: PTH102, PTH110, PTH123 - a child that has confined itself calls the system as plainly as it can

import fcntl
import os
import resource
import signal
import sys
import time

import pytest

from zoolens.base.engine import landlock, sandbox, seccomp
from zoolens.base.engine.sandbox import Policy, _grants, _limit, confine, describe, shortcomings, trusted, trusting
from zoolens.base.engine.test_seccomp import number_of, told_by_child

FILES = (
    "Files are not confined: a model that finds a hole in a framework has your user's rights on them, and on the "
    "memory of your processes, unless Yama (kernel.ptrace_scope) protects it."
)
SIGNALS = "Signals to other processes are not confined."
TCP_ONLY = "The network is not confined (only TCP is refused), and other programs can be started."
NOTHING = "The network is not confined (nothing is refused), and other programs can be started."


def test_trust_holds_inside_and_is_not_taken_back_by_no_trust():
    assert trusted() is False
    with trusting():
        assert trusted() is True
        with trusting(False):
            assert trusted() is True
        assert trusted() is True
    assert trusted() is False
    with trusting(False):
        assert trusted() is False
    with pytest.raises(KeyError), trusting(True):
        raise KeyError
    assert trusted() is False


@pytest.mark.parametrize(
    ("held", "filtered", "words", "missing"),
    [
        (7, True, "landlock-7+seccomp+rlimits", []),
        (1, True, "landlock-1+seccomp+rlimits", []),
        (0, True, "seccomp+rlimits (kernel without Landlock)", [FILES]),
        (3, False, "landlock-3+rlimits (kernel without seccomp)", [SIGNALS, NOTHING]),
        (4, False, "landlock-4+rlimits (kernel without seccomp)", [SIGNALS, TCP_ONLY]),
        (5, False, "landlock-5+rlimits (kernel without seccomp)", [SIGNALS, TCP_ONLY]),
        (6, False, "landlock-6+rlimits (kernel without seccomp)", [TCP_ONLY]),
        (0, False, "rlimits (kernel without Landlock and seccomp)", [FILES, NOTHING]),
    ],
)
def test_what_other_kernels_lack_is_said(monkeypatch, held, filtered, words, missing):
    monkeypatch.setattr(landlock, "version", lambda: held)
    monkeypatch.setattr(seccomp, "available", lambda: filtered)
    assert describe() == words
    assert shortcomings() == missing


def test_what_a_policy_grants():
    policy = Policy("/scratch", ("/usr", "/model"), None, ("/dev/null",))
    read, device, change = 0b1100, 0b1110 | 1 << 15, landlock.CHANGE
    assert list(_grants(policy)) == [
        ("/usr", read),
        ("/model", read),
        ("/dev/null", device),
        ("/scratch", change),
    ]
    accelerated = Policy("/scratch", (), None, (), accelerated=True)
    assert list(_grants(accelerated)) == [("/proc/self/task", 0b1110 | 1 << 14), ("/scratch", change)]
    kept = Policy("/scratch", ("/usr",), "/kept", programs=True)
    assert list(_grants(kept)) == [("/usr", read | 1), ("/scratch", change), ("/kept", change)]


def _limits(policy):
    _limit(policy)
    threads = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    assert threads == resource.RLIM_INFINITY or threads >= sandbox.THREADS
    kinds = (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)
    with open("/proc/self/oom_score_adj") as file:
        first_to_go = file.read().strip()
    ignored = signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    return [*(list(resource.getrlimit(kind)) for kind in kinds), first_to_go, ignored]


@pytest.mark.skipif(not os.path.exists("/proc/self/oom_score_adj"), reason="only Linux has it")
def test_limits_by_hand():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = [4096 if most == resource.RLIM_INFINITY else min(4096, most)] * 2
    data = list(resource.getrlimit(resource.RLIMIT_DATA))
    told = told_by_child(lambda: _limits(Policy("/s", ())))
    assert told == [[0, 0], files, [8 << 30] * 2, data, "1000", True]
    told = told_by_child(lambda: _limits(Policy("/s", (), memory=3 << 30)))
    assert told == [[0, 0], files, [8 << 30] * 2, [3 << 30] * 2, "1000", True]

    def lower():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))  # a limit that is there already is not raised
        return _limits(Policy("/s", ()))

    assert told_by_child(lower)[1] == [200, 200]


@pytest.mark.skipif(not (landlock.version() and seccomp.available()), reason="THIS KERNEL HAS LESS: not tested")
def test_a_confined_process_says_what_is_in_force(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    policy = {"scratch": str(tmp_path / "in"), "readable": ["/proc/self"], "programs": False}

    def act():
        words = confine(policy)
        with open("/proc/self/status") as status:
            found = dict(line.split(":", 1) for line in status)
        return [
            words,
            found["NoNewPrivs"].strip(),
            found["Seccomp"].strip(),
            number_of(lambda: os.mkdir(tmp_path / "in" / "new")),
            number_of(lambda: os.mkdir(tmp_path / "out" / "new")) > 0,
            number_of(lambda: os.execv("/nonexistent", ["x"])),
            resource.getrlimit(resource.RLIMIT_CORE)[1],
        ]

    assert told_by_child(act) == [describe(), "1", "2", 0, True, 1, 0]
    policy["programs"] = True
    assert told_by_child(act)[5] == 2  # there is no such program: the filter let it pass


@pytest.mark.skipif(not (landlock.version() and seccomp.available()), reason="THIS KERNEL HAS LESS: not tested")
def test_a_confined_process_cannot_reach_around_the_filter(tmp_path):
    policy = {"scratch": str(tmp_path), "readable": ["/proc/self"], "parent": os.getpid()}

    def act():
        confine(policy)
        reading, _ = os.pipe()
        own = fcntl.fcntl(reading, fcntl.F_GETFL)
        param = os.sched_param(0)
        return [
            own == os.O_RDONLY,
            number_of(lambda: fcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid())),
            number_of(lambda: fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGKILL)),
            number_of(lambda: os.sched_setscheduler(os.getppid(), os.SCHED_OTHER, param)),
            number_of(lambda: os.sched_setscheduler(0, os.SCHED_OTHER, param)),
            number_of(lambda: os.memfd_create("x")),
            number_of(lambda: seccomp._prctl(seccomp._SET_DEATH_SIGNAL, 0, None)),
        ]

    assert told_by_child(act) == [True, 1, 1, 1, 0, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a signal for the parent's death")
def test_a_process_dies_with_its_parent_even_if_that_is_killed():
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        started = os.fork()
        if started == 0:
            alone = not seccomp.die_with_parent(os.getppid())
            os.write(writing, b"ended" if alone else b"ready")
            time.sleep(600)
            os._exit(0)
        time.sleep(600)
        os._exit(0)
    assert os.read(reading, 5) == b"ready"
    os.close(writing)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(reading, 1) == b""  # the last process that could write is gone


def test_a_worker_whose_parent_has_ended_already_does_not_start():
    told = told_by_child(lambda: seccomp.die_with_parent(1))
    assert told is False


@pytest.mark.parametrize("broken", ["restrict", "forbid_new_privileges", "install"])
def test_a_sandbox_that_cannot_be_set_up_ends_the_process(monkeypatch, broken):
    done = []

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(landlock, "version", lambda: 7)
    monkeypatch.setattr(seccomp, "available", lambda: True)
    monkeypatch.setattr(sandbox, "_limit", lambda policy: None)
    monkeypatch.setattr(sandbox.capabilities, "give_up", lambda: None)
    for place, name in ((seccomp, "forbid_new_privileges"), (landlock, "restrict"), (seccomp, "install")):
        monkeypatch.setattr(place, name, refuse if name == broken else lambda *_, name=name, **__: done.append(name))
    with pytest.raises(SystemExit, match=r"The sandbox could not be set up: .*Operation not permitted.*add --trust"):
        confine({"scratch": "/s", "readable": []})
    assert done == ["forbid_new_privileges", "restrict", "install"][: len(done)]
    assert broken not in done


@pytest.mark.parametrize(
    ("held", "filtered", "steps"),
    [
        (0, False, []),
        (7, False, ["forbid_new_privileges", "restrict"]),
        (0, True, ["forbid_new_privileges", "install"]),
    ],
)
def test_what_a_kernel_lacks_is_not_asked_for(monkeypatch, held, filtered, steps):
    done = []
    monkeypatch.setattr(landlock, "version", lambda: held)
    monkeypatch.setattr(seccomp, "available", lambda: filtered)
    monkeypatch.setattr(sandbox, "_limit", lambda policy: None)
    monkeypatch.setattr(sandbox.capabilities, "give_up", lambda: None)
    for place, name in ((seccomp, "forbid_new_privileges"), (landlock, "restrict"), (seccomp, "install")):
        monkeypatch.setattr(place, name, lambda *_, name=name, **__: done.append(name))
    assert confine({"scratch": "/s", "readable": []}) == describe()
    assert done == steps
