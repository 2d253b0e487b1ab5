"""Every network of the corpus, exported by every exporter that takes it, is its source again by `diff`.

Exports take minutes to hours: they are kept in the folder that ZOOLENS_EXPORT_CORPUS names (default: .export-corpus in
the repository), so that a run that was interrupted goes on, and a change of passes is tried in minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import zoolens
from export_corpus.networks import DIFFERENT, NETWORKS, Network

REPO = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("ZOOLENS_EXPORT_CORPUS") or REPO / ".export-corpus")
NEEDS = {
    "torchscript": ("torch", "onnx"),
    "dynamo": ("torch", "onnx", "onnxscript"),
    "keras": ("keras", "tensorflow", "tf2onnx"),
    "tf2onnx": ("keras", "tensorflow", "tf2onnx"),
}
TIMEOUT = 1_800

pytestmark = pytest.mark.slow


def exported(network: Network, exporter: str) -> Path:
    """The file, from the folder or written now by a process of its own."""
    missing = [name for name in (network.library, *NEEDS[exporter]) if find_spec(name) is None]
    if missing:
        pytest.skip(f"EXPORTER ABSENT: {exporter} needs {', '.join(missing)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{network.library}-{network.name}-{exporter}.onnx"
    if not path.exists():
        script = Path(__file__).parent / "export_corpus" / "export.py"
        command = [script, network.library, network.name, network.size, FOLDER, exporter]
        subprocess.run([sys.executable, *map(str, command)], capture_output=True, timeout=TIMEOUT)
    if not path.exists():
        error = path.with_suffix(".error")
        lines = error.read_text().strip().splitlines() if error.exists() else []
        pytest.skip(f"{exporter} cannot export {network}: {lines[-1][:200] if lines else 'its process died'}")
    return path


@pytest.fixture(scope="module")
def store():
    """Structures are kept beside the exports; those that other code has made are read anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER / "structures.sqlite"


@pytest.mark.parametrize(
    ("network", "exporter"),
    [(network, exporter) for network in NETWORKS for exporter in network.exporters],
    ids=lambda value: str(value),
)
def test_an_export_is_its_source(network, exporter, store):
    path = exported(network, exporter)
    source = zoolens.graph_of(str(network), size=network.size, store=store)
    found = zoolens.diff(source, zoolens.graph_of(path, store=store), names=("source", "export"))
    reason = DIFFERENT.get((str(network), exporter))
    if reason:
        assert not found.same, f"{network} is equal by now: take it off the list ({reason})"
        pytest.xfail(reason)
    assert found.same, [found.verdict, *(one.text for one in found.differences[:5])]
