"""Landlock's rules, in a child that confines itself; what a kernel's version allows, worked out by hand."""

# ruff: noqa: PTH104, PTH108, PTH115, PTH208 - a child that has confined itself calls the system as plainly as it can

import errno
import os
import socket

import pytest

from zoolens.base.engine import landlock, seccomp
from zoolens.base.engine.landlock import CHANGE, READ, READ_AND_EXECUTE, USE_DEVICE, _handled, restrict, version
from zoolens.base.engine.test_seccomp import number_of, told_by_child

needed = pytest.mark.skipif(not version(), reason="THIS KERNEL HAS NO LANDLOCK: not tested")


def test_rights_by_the_version_of_the_kernel():
    all_of_1, refer, truncate, devices = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
    assert _handled(1) == all_of_1
    assert _handled(2) == all_of_1 | refer
    assert _handled(3) == _handled(4) == all_of_1 | refer | truncate
    assert _handled(5) == _handled(7) == all_of_1 | refer | truncate | devices


@pytest.mark.parametrize(
    ("have", "tcp", "scoped", "size"),
    [(1, 0, 0, 8), (3, 0, 0, 8), (4, 3, 0, 16), (5, 3, 0, 16), (6, 3, 3, 24), (7, 3, 3, 24)],
)
def test_what_is_asked_of_kernels_of_every_version(monkeypatch, have, tcp, scoped, size):
    asked = []

    def call(number, *arguments):
        if number == 444:
            wanted, length, flags = arguments
            asked.append([wanted._obj.fs, wanted._obj.net, wanted._obj.scoped, length.value, flags.value])
            return os.open(os.devnull, os.O_RDONLY)
        asked.append([number, arguments[-1].value])
        return 0

    monkeypatch.setattr(landlock, "version", lambda: have)
    monkeypatch.setattr(landlock, "_call", call)
    assert restrict([("/", READ)]) == []
    assert asked == [[_handled(have), tcp, scoped, size, 0], [445, 0], [446, 0]]


def test_what_is_granted_is_pinned():
    assert (READ, READ_AND_EXECUTE, USE_DEVICE) == (0b1100, 0b1101, 0b110 | 1 << 15)
    execute, character_device, socket_, block_device = 1 << 0, 1 << 6, 1 << 9, 1 << 11
    assert (1 << 15) - 1 - execute - character_device - socket_ - block_device == CHANGE


def test_no_other_system_has_it(monkeypatch):
    monkeypatch.setattr(landlock.sys, "platform", "darwin")
    assert version() == 0
    with pytest.raises(OSError, match="the kernel has no Landlock"):
        restrict([])


def test_a_kernel_that_does_not_know_the_call_has_none(monkeypatch):
    monkeypatch.setattr(landlock, "_CREATE_RULESET", 9999)
    assert version() == 0
    with pytest.raises(OSError, match="not implemented") as caught:
        landlock._call(9999)
    assert caught.value.errno == errno.ENOSYS


def _opened(path, flags=os.O_RDONLY):
    def act():
        os.close(os.open(path, flags, 0o600))

    return act


@needed
def test_only_what_is_granted_can_be_reached(tmp_path):
    read, change, other = (tmp_path / name for name in ("read", "change", "other"))
    for folder in (read, change, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    single = other / "single"
    single.write_text("x")

    def act():
        seccomp.forbid_new_privileges()
        kept = restrict(
            [
                (str(read), READ),
                (str(tmp_path / "absent"), READ),
                (str(single), READ),
                (str(change), CHANGE),
                ("/proc/self", READ),
                ("/dev/null", USE_DEVICE),
            ]
        )
        return [
            len(kept),
            [os.readlink(f"/proc/self/fd/{one}").startswith("/proc/") for one in kept],
            number_of(_opened(read / "file")),
            number_of(lambda: os.listdir(read)),
            number_of(_opened(read / "file", os.O_WRONLY)),
            number_of(_opened(read / "new", os.O_WRONLY | os.O_CREAT)),
            number_of(_opened(single)),
            number_of(_opened(single, os.O_WRONLY)),
            number_of(_opened(other / "file")),
            number_of(lambda: os.listdir(other)),
            number_of(_opened(change / "file")),
            number_of(_opened(change / "file", os.O_WRONLY | os.O_TRUNC)),
            number_of(_opened(change / "new", os.O_WRONLY | os.O_CREAT)),
            number_of(lambda: os.rename(change / "file", other / "moved")),
            number_of(lambda: os.unlink(change / "file")),
            number_of(lambda: os.unlink(other / "file")),
            number_of(lambda: os.execv(read / "file", ["x"])),
            number_of(_opened("/dev/null", os.O_RDWR)),
            number_of(_opened("/dev/zero")),
        ]

    denied = errno.EACCES
    told = told_by_child(act)
    assert told[:2] == [1, [True]]
    assert told[2:6] == [0, 0, denied, denied]
    assert told[6:8] == [0, denied]
    assert told[8:10] == [denied, denied]
    assert told[10:13] == [0, 0, 0]
    assert told[13] in (denied, errno.EXDEV)
    assert told[14:] == [0, denied, denied, 0, denied]
    assert (other / "file").read_text() == "x"
    assert not (change / "file").exists()


@needed
def test_tcp_and_signals_go_too(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()

        def act():
            seccomp.forbid_new_privileges()
            before = len(os.listdir("/proc/self/fd"))
            restrict([("/proc/self", READ), (str(tmp_path), CHANGE)])
            after = len(os.listdir("/proc/self/fd"))
            return [
                after - before,
                number_of(lambda: socket.socket().connect(place)),
                number_of(lambda: socket.socket().bind(("127.0.0.1", 0))),
                number_of(lambda: os.kill(os.getppid(), 0)),
            ]

        opened, connected, bound, signalled = told_by_child(act)
    assert opened == 1  # the folder of /proc, which stays; the rules themselves and other folders are closed
    assert connected == bound == (errno.EACCES if version() >= 4 else 0)
    assert signalled == (errno.EPERM if version() >= 6 else 0)


@needed
def test_a_path_that_is_refused_leaves_nothing_open(tmp_path):
    def act():
        before = len(os.listdir("/proc/self/fd"))
        tried = number_of(lambda: landlock._grant(-1, str(tmp_path), READ))
        return [tried, len(os.listdir("/proc/self/fd")) - before]

    assert told_by_child(act) == [errno.EBADF, 0]


@needed
def test_without_the_promise_of_no_new_privileges_the_kernel_refuses():
    """Unless it is root; a refusal is an error, and nothing stays open."""

    def act():
        before = len(os.listdir("/proc/self/fd"))
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        return [number_of(lambda: restrict([])), len(os.listdir("/proc/self/fd")) - before]

    assert told_by_child(act) == [errno.EPERM, 0]
