"""Every network of the corpus, exported by every exporter that takes it, is its source again by `diff`.

Exports take minutes to hours: they are kept in the folder that ZOOLENS_EXPORT_CORPUS names (default: .export-corpus in
the repository), so that a run that was interrupted goes on, and a change of passes is tried in minutes. An exporter's
failure is kept there too: delete NETWORK-EXPORTER.error to try it again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest

import zoolens
from export_corpus.networks import DIFFERENT, NETWORKS, Network
from zoolens.findings.graph.structures.structure import structure_of

REPO = Path(__file__).parent.parent
FOLDER = Path(os.environ.get("ZOOLENS_EXPORT_CORPUS") or REPO / ".export-corpus")
NEEDS = {
    "torchscript": ("torch", "onnx"),
    "dynamo": ("torch", "onnx", "onnxscript"),
    "keras": ("keras", "tensorflow", "tf2onnx"),
    "tf2onnx": ("keras", "tensorflow", "tf2onnx"),
}
TIMEOUT = 1_800
_ERROR = re.compile(r"^[\w.]+(Error|Exception): .*", re.MULTILINE)

pytestmark = pytest.mark.slow


def exported(network: Network, exporter: str) -> Path:
    """The file, from the folder or written now by a process of its own. What failed is not tried again."""
    missing = [name for name in (network.library, *NEEDS[exporter]) if find_spec(name) is None]
    if missing:
        pytest.skip(f"EXPORTER ABSENT: {exporter} needs {', '.join(missing)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{network.library}-{network.name}-{exporter}.onnx"
    error = path.with_suffix(".error")
    if not path.exists() and not error.exists():
        script = Path(__file__).parent / "export_corpus" / "export.py"
        command = [script, network.library, network.name, network.size, FOLDER, exporter]
        subprocess.run([sys.executable, *map(str, command)], capture_output=True, timeout=TIMEOUT, check=False)
    if not path.exists():
        found = _ERROR.search(error.read_text()) if error.exists() else None
        pytest.skip(f"{exporter} cannot export {network}: {found[0][:200] if found else 'its process died'}")
    return path


@pytest.fixture(scope="module")
def store(request):
    """Holds the structures of all sources that are asked for: one process reads those of one library and size.

    It is kept beside the exports; what other code has read is read anew.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / "structures.sqlite"
    asked = {item.callspec.params["network"] for item in request.session.items if item.module is request.module}
    together = sorted(asked, key=lambda network: (network.library, network.size))
    for (_, size), networks in groupby(together, key=lambda network: (network.library, network.size)):
        structure_of(map(str, networks), store=path, size=size)
    return path


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
