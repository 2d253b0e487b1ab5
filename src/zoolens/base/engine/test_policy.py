"""What a worker may read and which variables it is given, worked out by hand."""

import sys
from pathlib import Path

import pytest

import zoolens
from zoolens.base.engine import policy
from zoolens.base.engine.environments import Environment, parse_env
from zoolens.base.engine.machine import memory_bytes
from zoolens.base.engine.policy import (
    Rights,
    _harmless,
    _narrow,
    lent_modules,
    python_paths,
    worker_policy,
    worker_variables,
)

PACKAGE = str(Path(zoolens.__file__).absolute().parent)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def test_a_policy_by_hand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/opt/lib::/opt/more:{Path.home()}:/")
    monkeypatch.setattr(policy, "_accelerators", lambda: ["/dev/nvidia0"])
    made = worker_policy(
        Path("/scratch"), "zoolens.inventory.runtimes.fake", None, Rights(files=("model.onnx", "/data/x", "/data/x"))
    )
    assert made.scratch == "/scratch"
    assert made.kept is None
    assert made.devices == ("/dev/null", "/dev/full")
    assert made.programs is False
    assert made.memory == memory_bytes()
    assert made.readable[: len(policy._SYSTEM)] == policy._SYSTEM
    assert len(set(made.readable)) == len(made.readable)
    assert {"/opt/lib", "/opt/more", str(tmp_path / "model.onnx"), "/data/x", PACKAGE} <= set(made.readable)
    assert not {str(Path.home()), "/", "", str(tmp_path)} & set(made.readable)


def test_a_compiler_and_an_accelerator_get_more(monkeypatch):
    monkeypatch.setattr(policy, "_accelerators", lambda: ["/dev/nvidia0"])
    made = worker_policy(
        Path("/scratch"),
        "zoolens.inventory.runtimes.fake",
        None,
        Rights(kept="/kept", programs=True, accelerated=True),
    )
    assert (made.kept, made.programs, made.memory) == ("/kept", True, None)
    assert made.devices == ("/dev/null", "/dev/full", "/dev/nvidia0")


def test_in_an_environment_its_own_packages_are_read():
    environment = Environment(Path("/envs/one/bin/python"), parse_env("numpy"), "key", {})
    made = worker_policy(Path("/scratch"), "zoolens.inventory.runtimes.fake", environment, Rights())
    assert "/envs/one" in made.readable


def test_devices_of_accelerators_are_known_by_their_names(monkeypatch, tmp_path):
    for name in ("nvidia0", "nvidiactl", "dri", "kfd", "sda", "xnvidia", "mem"):
        (tmp_path / name).touch()
    monkeypatch.setattr(policy, "Path", lambda place: tmp_path if place == "/dev" else Path(place))
    assert sorted(Path(one).name for one in policy._accelerators()) == ["dri", "kfd", "nvidia0", "nvidiactl"]


def test_python_reads_its_own_folders(monkeypatch, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "single.py").touch()
    environment = Environment(Path("/envs/one/bin/python"), parse_env("numpy"), "key", {})
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", str(here), str(tmp_path), "/", str(Path.home())])
    base = [sys.base_prefix, sys.base_exec_prefix]
    own = [sys.prefix, sys.exec_prefix]
    assert list(python_paths("zoolens.x", None)) == [*base, PACKAGE, *own, str(tmp_path)]
    assert list(python_paths("package.x.y", None)) == [*base, PACKAGE, str(tmp_path / "package"), *own, str(tmp_path)]
    assert list(python_paths("single", None)) == [*base, PACKAGE, str(tmp_path / "single.py"), *own, str(tmp_path)]
    assert list(python_paths("zoolens.x", environment)) == [*base, PACKAGE, "/envs/one"]


def test_our_package_and_the_plug_ins_are_lent(tmp_path, monkeypatch):
    ours = {"zoolens": str(Path(zoolens.__file__).absolute())}
    assert lent_modules("zoolens.inventory.runtimes.fake") == ours
    assert lent_modules("json.decoder") == {**ours, "json": sys.modules["json"].__file__}
    (tmp_path / "space_of_names").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert lent_modules("space_of_names.x") == ours  # a folder without a file of its own


def test_variables_by_hand(tmp_path):
    around = {
        "PATH": "/bin", "OMP_NUM_THREADS": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "LC_ALL": "C", "HOME": "/home/me",
        "TMPDIR": "/tmp/me", "AWS_SECRET_ACCESS_KEY": "x", "TF_API_TOKEN": "x", "TORCH_HOME": "/home/me/torch",
        "JAX_COMPILATION_CACHE_DIR": "/c", "EDITOR": "vi", "SSH_AUTH_SOCK": "/s", "XOMP_A": "1",
        "CUDA_CACHE_PATH": "/c",
        "TF_password": "x", "ORT_api_key": "x", "MKL_PATHOLOGY": "1",
    }  # fmt: skip
    homes = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    assert worker_variables(tmp_path, around) == {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "2",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "LC_ALL": "C",
        "MKL_PATHOLOGY": "1",
        **dict.fromkeys(homes, str(tmp_path)),
    }
    assert _harmless("LD_LIBRARY_PATH") is True  # named, though it ends like a place


def test_the_home_folder_and_all_above_it_are_too_wide(monkeypatch, tmp_path):
    home = tmp_path / "home" / "me"
    (home / "lib").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert [_narrow(str(one)) for one in (home, home.parent, tmp_path, "/")] == [False] * 4
    assert [_narrow(str(one)) for one in (home / "lib", tmp_path / "other", "/usr/lib")] == [True] * 3


def test_without_a_home_only_everything_is_too_wide(monkeypatch):
    def none():
        raise RuntimeError("no home")

    monkeypatch.setattr(policy.Path, "home", none)
    assert (_narrow("/"), _narrow("/usr")) == (False, True)
