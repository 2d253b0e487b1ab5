"""A short storm: a few evaluations and a study, while nodes, the head, PostgreSQL, the object store and the drivers are
killed. `python benchmarks/storm.py` is the long one; figures are in docs/fleet.md."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from zoolens.testing.object_server import object_server_python
from zoolens.testing.postgres import find_binaries

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

STORM = Path(__file__).parents[1] / "benchmarks" / "storm.py"


def test_a_store_after_a_short_storm_is_that_of_an_undisturbed_run(tmp_path):
    for package in ("ray", "psycopg", "onnx", "onnxruntime", "torch", "jax"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"NO STORM: {package} is not installed")
    if find_binaries() is None or object_server_python() is None:
        pytest.skip("NO STORM: no PostgreSQL (install the package postgresql) or no object server (make object-server)")
    command = [sys.executable, STORM, "--evaluations", "20", "--kills", "6", "--folder", tmp_path / "storm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "KILL 6" in done.stdout
