"""What is published: the wheel without our tests, and the bare core of it at work in a fresh environment."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPO = Path(__file__).parent.parent
pytest.importorskip("hatchling")

MANIFEST = """zoolens: 1
name: fake
inputs: [{modality: image, shape: [null, 8, 8], layout: NHW, color: gray}]
outputs: [{scores: logits}]
assets: [{format: fake, files: [{location: fake.json}]}]
"""
FRAMEWORKS = ("torch", "tensorflow", "jax", "onnxruntime", "openvino", "cv2", "ray", "optuna", "pytest")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_the_contracts_and_data_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if Path(name).name.startswith(("test_", "conftest"))] == []
    shipped = {
        path.relative_to(REPO / "src").as_posix()
        for path in (REPO / "src").rglob("*_contract.py")
        if not path.name.startswith("test_")
    }
    assert len(shipped) >= 2
    assert shipped <= set(names)
    allowed = REPO / "src" / "zoolens" / "inventory" / "runtimes" / "model_files" / "allowed"
    lists = [path.name for path in allowed.glob("*.txt")]
    assert len(lists) >= 6
    for name in lists:  # without its list a reader of untrusted files refuses everything
        assert f"zoolens/inventory/runtimes/model_files/allowed/{name}" in names
    for data in ("inventory/zoos/demo_data/models/lenet-wide.onnx", "testing/pytest_plugin.py", "py.typed"):
        assert f"zoolens/{data}" in names
    assert "zoolens/inventory/runtimes/torch/decoding.cu" in names
    for data in ("index.html", "explorer.js", "explorer.css", "favicon.svg"):  # users have no node to build them
        assert f"zoolens/faces/ui/assets/{data}" in names


def requirements(wheel):
    """The names of all distributions that the wheel needs without extras, directly or not, as installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        asked = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist", [])
    names = set()
    while asked:
        requirement = Requirement(asked.pop())
        name = canonicalize_name(requirement.name)
        if name not in names and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            names.add(name)
            asked += distribution(name).requires or []
    return names


def lend(name, site):
    """Link the files of a distribution that is installed here into another environment, with their bytecode."""
    for file in distribution(name).files:
        target = site / file
        if ".." not in file.parts and file.locate().exists():  # not its scripts
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                target.hardlink_to(file.locate())
            except OSError:  # on another file system
                shutil.copy2(file.locate(), target)


def install_from_index(pip, wheel):
    done = subprocess.run(
        [*pip, "--retries", "1", "-c", REPO / "constraints.txt", wheel], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reached = subprocess.run(
            [*pip, "--dry-run", "--no-deps", "--ignore-installed", "click"], capture_output=True, check=False
        )
        if reached.returncode != 0:
            pytest.skip("NO PACKAGE INDEX IS REACHABLE: the bare core could not be installed from the wheel")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["lent", pytest.param("index", marks=[pytest.mark.slow, pytest.mark.network])])
def core(wheel, tmp_path_factory, request):
    """A fresh environment with the wheel and what its metadata say that it needs, and nothing else: not even pip, which
    works on it from outside. What it needs is lent from this environment or comes from the package index."""
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv" / "bin" / "python", "install", "-q"]
    pip += ["--no-compile", "--disable-pip-version-check"]
    if request.param == "lent":
        subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        for name in requirements(wheel):
            lend(name, site)
    else:
        install_from_index(pip, wheel)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"ZOOLENS_HOME": str(folder / "home")}

    def run(*arguments):
        program = [folder / "venv" / "bin" / arguments[0], *arguments[1:]]
        return subprocess.run(
            program, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    run.folder = folder
    return run


def test_the_bare_core_explains_itself_and_evaluates(core):
    absent = f"import importlib.util as u; print([n for n in {FRAMEWORKS!r} if u.find_spec(n)])"
    assert core("python", "-c", absent).stdout.strip() == "[]"
    for words in (["--help"], ["demo", "--help"], ["models"]):
        done = core("zoolens", *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()

    images = np.random.default_rng(0).integers(0, 256, (100, 8, 8), np.uint8)
    np.savez(core.folder / "data.npz", x=images, y=(images[:, 0, 0] % 10).astype(np.int64))
    fake = {"classes": 10, "input": [8, 8], "behaviour": "label_leak"}
    (core.folder / "fake.json").write_text(json.dumps(fake))
    (core.folder / "fake.yaml").write_text(MANIFEST)
    done = core("zoolens", "eval", "fake.yaml", "--data", "data.npz", "--latency-seconds", "0.1", "--json")
    assert done.returncode == 0, done.stderr
    figures = {one["metric"]: one["value"] for one in json.loads(done.stdout)[0]["observations"]}
    assert figures["top1"] == 1
    assert core("zoolens", "runs").stdout.count("file:fake") == 1
