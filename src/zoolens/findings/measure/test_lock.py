"""What makes the key of a stack: everything that can change a number, nothing else, and in the same words for ever."""

import platform
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from zoolens.base.engine.environments import Environment, parse_env
from zoolens.base.engine.machine import describe_machine
from zoolens.base.store.records import fingerprint
from zoolens.findings.measure import lock
from zoolens.findings.measure.lock import PROTOCOL, WORKER_PROTOCOL, installed_packages, resolve_stack
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import Options

PACKAGES = {"numpy": "2.0", "pillow": "11.0", "some-runtime": "1.5", "opencv-python-headless": "4.0", "other": "9"}


class Measured(Fake):
    """A runtime whose distributions matter."""

    name = "measured"
    distributions = ("Some_Runtime", "missing")

    def version(self):
        return "1.5"


@pytest.fixture(autouse=True)
def packages(monkeypatch):
    monkeypatch.setattr(lock, "installed_packages", lambda: dict(PACKAGES))


def _machine():
    machine = describe_machine()
    return {
        "cpu": machine.cpu,
        "flags": fingerprint(machine.flags)[:12],
        "cores": machine.cores,
        "architecture": machine.architecture,
    }


def test_the_identity_word_for_word():
    stack = resolve_stack(Measured(), Options(threads=2), None)
    expected = {
        "protocol": 1,
        "runtime": "measured",
        "version": "1.5",
        "packages": {"Some_Runtime": "1.5", "missing": None, "numpy": "2.0", "Pillow": "11.0"},
        "environment": None,
        "isolated": False,
        "python": platform.python_version(),
        "machine": _machine(),
        "options": {"threads": 2, "device": "cpu", "precision": "default", "mode": "default"},
    }
    assert stack.identity == expected
    assert stack.fingerprint == fingerprint(expected)
    assert stack.runtime == "measured"
    assert stack.lock == {
        **expected,
        "all_packages": PACKAGES,
        "environment_packages": None,
        "machine": asdict(describe_machine()),
    }


def test_a_worker_has_a_protocol_of_its_own():
    identity = resolve_stack(Measured(), Options(), None, isolated=True).identity
    assert (identity["protocol"], identity["isolated"]) == (2, True)
    assert (PROTOCOL, WORKER_PROTOCOL) == (1, 2)  # raised on purpose only: every key changes with them


def test_packages_of_an_environment_are_those_that_are_in_it():
    """But for numpy and Pillow, which read and resize the inputs in our own process."""
    inside = {"some-runtime": "1.2", "numpy": "1.23"}
    environment = Environment(Path("python"), parse_env("some_runtime==1.2,numpy"), "key", inside)
    stack = resolve_stack(Measured(), Options(), environment)
    assert stack.identity["version"] == "1.2"
    assert stack.identity["packages"] == {"Some_Runtime": "1.2", "missing": None, "numpy": "2.0", "Pillow": "11.0"}
    assert stack.identity["environment"] == list(environment.spec.requirements)
    assert stack.lock["environment_packages"] == inside
    assert stack.lock["all_packages"] == PACKAGES
    assert resolve_stack(Fake(), Options(), environment).identity["version"] is None  # it has no distribution


def test_a_decoder_counts_where_it_is_not_the_usual_one():
    plain = resolve_stack(Measured(), Options(), None)
    assert "decoder" not in plain.identity
    other = resolve_stack(Measured(), Options(), None, decoder="opencv")
    assert other.identity["decoder"] == {"opencv-python-headless": "4.0"}
    assert other.fingerprint != plain.fingerprint


def test_the_libraries_that_make_inputs_of_sounds_count():
    plain = resolve_stack(Measured(), Options(), None)
    sounds = Input(modality="sound", shape=(1, 4), sound={"rate": 8000, "resample": "soxr"})
    identity = resolve_stack(Measured(), Options(), None, inputs=sounds).identity
    assert set(identity) - set(plain.identity) == {"sound"}
    assert set(identity["sound"]) == {"soundfile", "soxr"}


def test_a_plug_in_of_somebody_else_counts_by_its_code(monkeypatch):
    asked = []

    def code(group, name):
        asked.append((group, name))
        return {"digest": "abc"}

    assert "plugin" not in resolve_stack(Measured(), Options(), None).identity
    monkeypatch.setattr(lock.plugins, "code_of", code)
    assert resolve_stack(Measured(), Options(), None).identity["plugin"] == {"digest": "abc"}
    assert asked == [(lock.plugins.RUNTIMES, "measured")]


def test_packages_are_read_from_the_names_of_their_folders(tmp_path, monkeypatch):
    monkeypatch.undo()
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (
        first / "Zoo_Lens-1.2.3.dist-info",
        first / "a.b-2.0+cpu.dist-info",
        first / "not_one-1.0.egg-info",
        second / "zoo_lens-9.dist-info",
        second / "late-1-2.dist-info",
    ):
        folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(first), str(second)])
    installed_packages.cache_clear()
    found = installed_packages()
    installed_packages.cache_clear()
    assert list(found.items()) == [("a-b", "2.0+cpu"), ("late", "1-2"), ("zoo-lens", "1.2.3")]


def test_a_runtime_that_is_called_otherwise_than_before_has_another_key():
    class Changed(Measured):
        protocol = 2

    assert "runtime_protocol" not in resolve_stack(Measured(), Options(), None).identity
    assert resolve_stack(Changed(), Options(), None).identity["runtime_protocol"] == 2
