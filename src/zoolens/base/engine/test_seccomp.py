"""The filter's answer to every system call, worked out by running it here; and the filter itself, in a child."""

# ruff: noqa: PTH123 - a child that has confined itself calls the system as plainly as it can

import errno
import json
import os
import socket

import pytest

from zoolens.base.engine import seccomp
from zoolens.base.engine.seccomp import program

ALLOW, KILL, REFUSE, UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050000 | errno.ENOSYS
WORDS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OWN = 4321


def answer(machine, number, first=0, second=0, *, programs=False, accelerated=False, architecture=None):
    """What the kernel would do: the classic BPF of the filter on the fields of struct seccomp_data."""
    code = program(programs=programs, process=OWN, machine=machine, accelerated=accelerated)
    data = {0: number, 4: WORDS[machine] if architecture is None else architecture, 16: first, 24: second}
    place, loaded = 0, 0
    while True:
        kind, yes, no, value = code[place]
        place += 1
        if kind == 0x20:
            loaded = data[value]
        elif kind == 0x06:
            return value
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[kind]
            place += yes if holds else no


def numbers(table, machine):
    column = 0 if machine == "x86_64" else 1
    return [pair[column] for pair in table if pair[column] is not None]


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("programs", [False, True])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_only_comparisons_jump(machine, programs, accelerated):
    for kind, yes, no, _ in program(programs=programs, process=OWN, machine=machine, accelerated=accelerated):
        assert kind in (0x15, 0x35, 0x45) or (kind in (0x20, 0x06) and yes == no == 0)


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request):
    return request.param


def test_calls_that_no_model_needs_are_refused(machine):
    for number in numbers(seccomp._CALLS.values(), machine):
        assert answer(machine, number) == answer(machine, number, programs=True) == REFUSE


def test_what_frameworks_call_is_allowed(machine):
    named = (range(10), range(17, 57)) if machine == "x86_64" else (range(17, 39), range(56, 84))
    refused = {*numbers(seccomp._CALLS.values(), machine), *numbers([seccomp._CLONE, seccomp._PRLIMIT], machine)}
    refused |= set(numbers([pair for pair, _ in seccomp._PRIORITIES.values()], machine))
    for number in (one for some in named for one in some if one not in refused):
        assert answer(machine, number, 7, 7) == ALLOW
    assert answer(machine, 500) == ALLOW


def test_with_a_gpu_local_sockets_are_made_and_reach_nobody(machine):
    """CUDA's driver makes one and gives it a name when it starts; it connects to nothing and sends nothing."""
    [number] = numbers([seccomp._SOCKET], machine)
    assert answer(machine, number, socket.AF_UNIX) == REFUSE
    assert answer(machine, number, socket.AF_UNIX, accelerated=True) == ALLOW
    for family in (socket.AF_INET, socket.AF_INET6, 16):  # the last is the kernel's own, "netlink"
        assert answer(machine, number, family, accelerated=True) == REFUSE
    for reaching in numbers(seccomp._REACHING.values(), machine):
        assert answer(machine, reaching, accelerated=True) == REFUSE
    others = [pair for name, pair in seccomp._CALLS.items() if name != "socket"]
    assert all(answer(machine, other, accelerated=True) == REFUSE for other in numbers(others, machine))


def test_commands_that_reach_others_are_refused(machine):
    for pair, commands in seccomp._COMMANDS.values():
        [number] = numbers([pair], machine)
        assert all(answer(machine, number, 5, command) == REFUSE for command in commands)
        for harmless in (1, 2, 3, 4, 1030, 0x5401):  # F_GETFD … F_SETFL, F_DUPFD_CLOEXEC, TCGETS
            assert answer(machine, number, 5, harmless) == ALLOW
    [number] = numbers([seccomp._PRCTL], machine)
    assert answer(machine, number, 1) == REFUSE
    assert answer(machine, number, 15) == ALLOW  # PR_SET_NAME


def test_scheduling_of_others_is_refused(machine):
    for number in numbers(seccomp._SCHEDULING.values(), machine):
        assert answer(machine, number, 0) == answer(machine, number, OWN) == ALLOW
        assert answer(machine, number, OWN + 1) == REFUSE


def test_files_in_memory_are_made_only_where_drivers_and_compilers_need_them(machine):
    for number in numbers(seccomp._MEMORY_FILES.values(), machine):
        assert answer(machine, number) == REFUSE
        assert answer(machine, number, programs=True) == answer(machine, number, accelerated=True) == ALLOW


def test_programs_are_started_only_where_they_may_be(machine):
    for number in numbers(seccomp._PROGRAMS.values(), machine):
        assert answer(machine, number) == REFUSE
        assert answer(machine, number, programs=True) == ALLOW


def test_threads_are_made_and_processes_only_with_programs(machine):
    [number] = numbers([seccomp._CLONE], machine)
    threads, processes, namespaces = 0x3D0F00, 0x11, (0x20000, 0x10000000, 0x40000000, 0x02000000)
    assert answer(machine, number, threads) == ALLOW
    assert answer(machine, number, processes) == REFUSE
    assert answer(machine, number, processes, programs=True) == ALLOW
    for namespace in namespaces:
        assert answer(machine, number, threads | namespace) == REFUSE
        assert answer(machine, number, processes | namespace, programs=True) == REFUSE
    assert answer(machine, 435, threads) == answer(machine, 435, threads, programs=True) == UNKNOWN


def test_only_this_process_is_spoken_of(machine):
    about = numbers([seccomp._PRLIMIT, *seccomp._MOVE_MEMORY.values()], machine)
    signals = numbers(seccomp._ABOUT_A_PROCESS.values(), machine)
    for number in (*about, *signals):
        for process, expected in ((0, ALLOW), (OWN, ALLOW), (1, REFUSE), (OWN + 1, REFUSE), (0xFFFFFFFF, REFUSE)):
            assert answer(machine, number, process) == expected
    for number in about:
        assert answer(machine, number, 1, programs=True) == REFUSE
    for number in signals:  # a compiler's driver ends its own children; Landlock keeps it from others
        assert answer(machine, number, 1, programs=True) == ALLOW


def test_priorities_of_others_stay(machine):
    column = 0 if machine == "x86_64" else 1
    for pair, of_user in seccomp._PRIORITIES.values():
        number = pair[column]
        assert answer(machine, number, 0, OWN) == answer(machine, number, 0, 0) == ALLOW
        assert answer(machine, number, 0, 1) == REFUSE
        assert answer(machine, number, of_user, 0) == answer(machine, number, of_user, OWN) == REFUSE


def test_another_architecture_ends_the_process_and_the_second_set_of_numbers_is_refused(machine):
    other = next(word for name, word in WORDS.items() if name != machine)
    assert answer(machine, 1, architecture=other) == answer(machine, 1, architecture=0) == KILL
    assert answer("x86_64", 0x40000000) == answer("x86_64", 0x40000001) == REFUSE
    assert answer("x86_64", 0x3FFFFFFF) == ALLOW
    assert answer("aarch64", 0x40000000) == ALLOW  # there it is no call at all


def test_the_machine_is_this_one_unless_another_is_named(monkeypatch):
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "x86_64")
    assert program(programs=True, process=1) == program(programs=True, process=1, machine="x86_64")
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
    assert seccomp.available() is False
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(seccomp.sys, "platform", "darwin")
    assert seccomp.available() is False


def told_by_child(function):
    """What a forked child that did this says, as JSON."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sending, json.dumps(function()).encode())
        except BaseException as error:
            os.write(sending, json.dumps(repr(error)).encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        told = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(told)


def number_of(act):
    """The error's number of what was tried; 0 where it went well."""
    try:
        act()
    except OSError as error:
        return error.errno
    return 0


def _status(name):
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith(f"{name}:"))


@pytest.mark.skipif(not seccomp.available(), reason="THIS KERNEL HAS NO SECCOMP FILTERS: not tested")
@pytest.mark.parametrize("programs", [False, True])
def test_the_kernel_takes_the_filter(programs):
    def act():
        before = _status("NoNewPrivs"), _status("Seccomp")
        seccomp.forbid_new_privileges()
        seccomp.install(programs=programs)
        return [
            *before,
            _status("NoNewPrivs"),
            _status("Seccomp"),
            number_of(socket.socket),
            number_of(lambda: os.kill(os.getpid(), 0)),
            number_of(lambda: os.kill(os.getppid(), 0)),
            number_of(lambda: os.execv("/nonexistent", ["x"])),
            seccomp.available(),
        ]

    told = told_by_child(act)
    other, started = (0, errno.ENOENT) if programs else (errno.EPERM, errno.EPERM)
    assert told[2:] == ["1", "2", errno.EPERM, 0, other, started, True]


def test_a_refusal_of_the_kernel_is_an_error():
    with pytest.raises(OSError, match="Invalid argument") as caught:
        seccomp._prctl(seccomp._SET_SECCOMP, 77, None)
    assert caught.value.errno == errno.EINVAL
