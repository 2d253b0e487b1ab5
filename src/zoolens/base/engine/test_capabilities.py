"""Root's rights beyond files are given up for good, in a child."""

import errno
import os

import pytest

from zoolens.base.engine import capabilities
from zoolens.base.engine.capabilities import _held, give_up
from zoolens.base.engine.test_seccomp import number_of, told_by_child

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up: NOT TESTED here")


def _all():
    with open("/proc/self/status") as status:  # noqa: PTH123 - as the sandbox reads it
        found = dict(line.split(":", 1) for line in status)
    return [int(found[f"Cap{name}"], 16) for name in ("Eff", "Prm", "Inh")]


@root
def test_only_rights_on_files_are_left():
    def act():
        before = _all()[1]
        give_up()
        return [before, _all(), number_of(lambda: os.chroot("/"))]

    before, after, changed = told_by_child(act)
    assert after == [before & 0b110, before & 0b110, 0]
    assert changed == errno.EPERM


@root
def test_what_was_given_up_before_is_no_error():
    def act():
        give_up()
        give_up()
        return _held()

    assert told_by_child(act) & ~0b110 == 0


def test_others_have_nothing_to_give_up(monkeypatch):
    def unexpected():
        raise AssertionError("asked")

    monkeypatch.setattr(capabilities, "_held", unexpected)
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 1000)
    give_up()
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 0)
    monkeypatch.setattr(capabilities.sys, "platform", "darwin")
    give_up()
    monkeypatch.setattr(capabilities.sys, "platform", "linux")
    monkeypatch.setattr(capabilities, "_CAPSET", {})
    give_up()


@root
def test_a_refusal_of_the_kernel_is_an_error(monkeypatch):
    monkeypatch.setattr(capabilities, "_CAPSET", {os.uname().machine: 9999})
    with pytest.raises(OSError, match="not implemented") as caught:
        give_up()
    assert caught.value.errno == errno.ENOSYS


def test_what_is_held_is_read_from_proc(monkeypatch, tmp_path):
    assert _held() == _all()[1]
    monkeypatch.setattr("builtins.open", lambda *_: (tmp_path / "absent").open())
    assert _held() == 0
    for text, held in (("Name: x\nCapPrm:\t00000000000001ff\n", 0x1FF), ("Name: x\n", 0), ("CapPrm:\tzz\n", 0)):
        (tmp_path / "status").write_text(text)
        monkeypatch.setattr("builtins.open", lambda *_: (tmp_path / "status").open())
        assert _held() == held
