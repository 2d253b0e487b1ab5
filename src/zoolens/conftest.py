"""What the tests of several rooms need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# The reference models and data: beside the repository, where nothing else is said.
ASSETS = Path(os.environ.get("ZOOLENS_ASSETS") or Path(__file__).parents[3] / "shared" / "assets").resolve()

MANIFEST = """\
zoolens: 1
name: {name}
version: {version}
inputs: [{{shape: [1, 3, 8, 8]}}]
outputs: [{{task: {task}}}]
assets: [{{format: onnx, files: [{{location: {name}.onnx}}]}}]
claims: [{{metric: params, value: {params}, source: me}}]
"""


def write_manifest(
    folder: Path, name: str, *, version="1.0.0", params=1, task="classification", file: str | None = None
) -> None:
    text = MANIFEST.format(name=name, version=version, params=params, task=task)
    (folder / f"{file or name}.yaml").write_text(text)


@pytest.fixture
def small_zoo(tmp_path, monkeypatch) -> Path:
    """An empty home, and the folder of its zoo: three versions of alpha, beta with a file, and a bare file."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path / "zoo"))
    folder = tmp_path / "zoo"
    folder.mkdir()
    write_manifest(folder, "alpha", params=1000)
    write_manifest(folder, "beta", params=5_000_000, task="regression")
    write_manifest(folder, "alpha", version="10.0.0", file="alpha10")
    write_manifest(folder, "alpha", version="9.0.0", file="alpha9")
    (folder / "beta.onnx").write_bytes(b"x")
    (folder / "bare.tflite").write_bytes(b"x")
    return folder


@pytest.fixture(scope="session")
def environments(tmp_path_factory) -> Path:
    """A home for environments that several files need: each is made once for all processes of this test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "environments"
    folder.mkdir(exist_ok=True)
    return folder
