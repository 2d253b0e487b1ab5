"""Environments: what a specification may say, and real ones made by pip from hand-made packages, without network."""

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.engine import environments
from zoolens.base.engine.environments import (
    EnvSpec,
    ensure_environment,
    environment_of,
    list_environments,
    parse_env,
    remove_environment,
)
from zoolens.base.errors import EnvironmentBuildError, UnknownName
from zoolens.inventory.runtimes.mxnet.mxnet_runtime import MxNet
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime


class Tiny(OnnxRuntime):
    name = "tiny"
    requirements = ("tiny-framework", "not-here; python_version < '3'")
    distributions = ("tiny-framework",)


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("mxnet==1.9.1,numpy<1.24", ("mxnet==1.9.1", "numpy<1.24")),
        ("numpy>=1.20,<1.24", ("numpy<1.24,>=1.20",)),
        ("numpy<1.24,>=1.20, mxnet", ("mxnet", "numpy<1.24,>=1.20")),
        (" Some_Package[b,a] == 1.0 , x!=2,~=1.5 ", ("some-package[a,b]==1.0", "x!=2,~=1.5")),
        ("a,a,,a", ("a",)),
    ],
)
def test_specifications_in_normal_form(text, requirements):
    spec = parse_env(text)
    assert spec.requirements == requirements
    assert parse_env(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        " , ",
        "<1.24",
        "numpy==",
        "numpy=1.2",
        "numpy 1.2",
        "--index-url=https://example.org/simple",
        "-r requirements.txt",
        "numpy --index-url=https://example.org/simple",
        "numpy,--pre",
        "pkg @ file:///tmp/evil",
        "pkg @ https://example.org/evil.whl",
        "https://example.org/evil.whl",
        "git+https://example.org/evil",
        "./evil",
        "/tmp/evil",
        "evil.whl",
        "evil-1.0.tar.gz",
        "evil==1.0.zip",
        "evil===../dir",
        "evil === ./dir",
        "evil===1.0",
        "evil>=1,===/tmp/evil",
        "evil==1.0+a.zip",
        "..",
        "numpy; python_version > '3'",
        "numpy\n--pre",
        "$(touch evil)",
        "${HOME}",
        "[a]",
    ],
)
def test_anything_but_packages_and_versions_is_refused(text):
    with pytest.raises(EnvironmentBuildError) as caught:
        parse_env(text)
    assert caught.value.hint


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=30))
def test_garbage_is_refused_or_harmless(text):
    try:
        spec = parse_env(text)
    except EnvironmentBuildError:
        return
    for requirement in spec.requirements:
        assert requirement[0].isalnum()
        assert not set(requirement) & set("/\\@;$ \n")


def test_the_runtime_fills_in_what_the_specification_leaves_open():
    complete = environments._completed
    assert complete(parse_env("mxnet==1.8.0"), MxNet.requirements) == ("mxnet==1.8.0", "numpy<1.24")
    assert complete(parse_env("numpy==1.23.5"), MxNet.requirements) == ("mxnet==1.9.1", "numpy==1.23.5")
    assert complete(parse_env("onnxruntime==1.20.1"), OnnxRuntime.requirements) == ("numpy", "onnxruntime==1.20.1")
    assert complete(parse_env("numpy"), Tiny.requirements) == ("numpy", "tiny-framework")


def test_keys_follow_content():
    keys = {environments._key(parse_env(text).requirements) for text in ("a,b", "B, A", "a,b==1")}
    assert len(keys) == 2


def test_what_is_installed_alone_is_part_of_the_content_and_changes_no_other_key():
    assert environment_of(["B", "a==1"], ["C"]) == EnvSpec(("a==1", "b"), ("c",))
    assert environment_of(["a"]) == parse_env("a")
    requirements = parse_env("a").requirements
    assert len({environments._key(requirements, alone) for alone in ((), ("c",), ("d",))}) == 3
    assert environments._key(requirements, ()) == environments._key(requirements)


@pytest.mark.parametrize("pieces", [(["--pre"], []), (["a"], ["./evil"]), (["a"], ["b; python_version > '3'"])])
def test_declared_requirements_are_refused_likewise(pieces):
    with pytest.raises(EnvironmentBuildError):
        environment_of(*pieces)


def write_wheel(folder, name, version, module, needs=""):
    record = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}.py", f"version = {version!r}\n")
        wheel.writestr(f"{record}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        wheel.writestr(f"{record}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{record}/RECORD", "")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A home of its own, and pip confined to hand-made wheels."""
    wheels = tmp_path_factory.mktemp("wheels")
    write_wheel(wheels, "tiny_framework", "1.0", "tiny_framework")
    write_wheel(wheels, "numpy", "0.1", "numpy")
    write_wheel(wheels, "demanding", "2.0", "demanding", "Requires-Dist: not-to-be-had==1.0\n")
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(home))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        yield home


@pytest.fixture(scope="module")
def made(shelf):
    """One environment, asked for by two at once; with the progress lines."""
    told = []
    spec = parse_env("tiny-framework==1.0")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: ensure_environment(spec, Tiny.requirements, told.append), range(2))
    assert first == second
    return first, told


def test_an_environment_is_made_once_and_holds_what_was_asked(made):
    environment, told = made
    assert environment.freeze["tiny-framework"] == "1.0"
    assert environment.freeze["numpy"] == "0.1"
    assert told.count("Making a virtual environment") == 1
    assert any(line.startswith("Installing") for line in told)
    assert all("\n" not in line for line in told)
    program = "import tiny_framework, sys; print(tiny_framework.version, sys.prefix)"
    answer = subprocess.run([environment.python, "-c", program], capture_output=True, text=True, check=True).stdout
    assert answer.split() == ["1.0", str(environment.python.parent.parent)]


def test_a_complete_environment_is_used_again(made):
    told = []
    assert ensure_environment(parse_env("tiny_framework == 1.0"), Tiny.requirements, told.append) == made[0]
    assert told == []
    assert list_environments() == [made[0]]


def test_a_half_made_environment_is_made_again_and_can_be_removed(made):
    folder = made[0].python.parent.parent
    (folder / environments._MARKER).unlink()
    (folder / "debris").touch()
    assert list_environments() == []
    told = []
    assert ensure_environment(made[0].spec, Tiny.requirements, told.append) == made[0]
    assert "Making a virtual environment" in told
    assert not (folder / "debris").exists()
    remove_environment(made[0].key)
    assert not folder.exists()
    assert list_environments() == []


def test_pips_reason_is_given(shelf):
    with pytest.raises(EnvironmentBuildError) as caught:
        ensure_environment(parse_env("tiny-framework==9.9"), Tiny.requirements)
    assert "No matching distribution found for tiny-framework==9.9." in caught.value.message
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in caught.value.hint
    assert list_environments() == []


@pytest.mark.slow
def test_a_package_that_asks_for_what_cannot_be_had_is_installed_alone(shelf):
    with pytest.raises(EnvironmentBuildError, match="not-to-be-had"):
        ensure_environment(environment_of(["demanding"]))
    environment = ensure_environment(environment_of(["tiny-framework==1.0"], ["demanding==2.0"]))
    assert environment.freeze == {"demanding": "2.0", "numpy": "0.1", "tiny-framework": "1.0"}
    assert list_environments() == [environment]
    remove_environment(environment.key)


@pytest.mark.parametrize("key", ["absent", "..", ".", "", "/etc"])
def test_only_environments_can_be_removed(shelf, key):
    with pytest.raises(UnknownName):
        remove_environment(key)
    assert shelf.exists()


def test_a_cache_folder_that_cannot_be_used_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(environments, "_root", lambda: tmp_path / "file" / "env")
    with pytest.raises(EnvironmentBuildError, match="cannot be made in the cache folder: Not a directory"):
        ensure_environment(EnvSpec(("numpy",)))
