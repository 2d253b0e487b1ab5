"""Every test has its own store and caches; the reference models are found through ZOOLENS_ASSETS or skipped aloud."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_server import CommandServer
from zoolens.conftest import ASSETS

REPO = Path(__file__).parent.parent


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A fresh home for this test, also for the processes it starts."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ASSETS", str(ASSETS))
    return tmp_path / "home"


@pytest.fixture
def assets():
    if not ASSETS.exists():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {ASSETS}; set ZOOLENS_ASSETS to test against them")
    return ASSETS


@pytest.fixture(scope="session")
def command_server():
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def zoolens(home, command_server):
    """Run the command as a user does, in a process of its own."""
    return command_server.run


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory):
    """A home in which `zoolens demo` has run, once for all processes of this test run. Copy it before you write.

    Its models are trusted, which spares 24 sandboxed processes; tests/test_evaluate.py evaluates one of them both ways.
    """
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if worker else base) / "demo"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "printed").exists():
            environment = {**os.environ, "ZOOLENS_HOME": str(folder / "home")}
            command = [sys.executable, "-m", "zoolens", "demo", "--trust"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (folder / "printed").write_text(done.stdout)
    return folder / "home"


@pytest.fixture
def fake_model(tmp_path):
    """Write a fake model with its manifest; returns the manifest's path."""

    def write(name="fake", labels=None, folder=tmp_path, **settings):
        settings = {"classes": 10, "input": [8, 8], **settings}
        (folder / f"{name}.json").write_text(json.dumps(settings))
        label_line = f"\n    labels: {json.dumps(labels)}" if labels else ""
        (folder / f"{name}.yaml").write_text(
            f"zoolens: 1\nname: {name}\nversion: 1.0.0\n"
            "inputs:\n  - modality: image\n    shape: [null, 8, 8]\n    layout: NHW\n    color: gray\n"
            f"outputs:\n  - scores: logits{label_line}\n"
            f"assets:\n  - format: fake\n    files:\n      - location: {name}.json\n"
        )
        return folder / f"{name}.yaml"

    return write


@pytest.fixture
def data(tmp_path):
    """300 random 8×8 images; the label is the first pixel modulo 10, as the label_leak behaviour answers."""
    images = np.random.default_rng(0).integers(0, 256, (300, 8, 8), np.uint8)
    path = tmp_path / "data.npz"
    np.savez(path, x=images, y=(images[:, 0, 0] % 10).astype(np.int64))
    return path
