"""The benchmarks of serving run and print their ratios; their figures are judged by people, on a quiet machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.slow


def run(name, *arguments, home):
    environment = {**os.environ, "ZOOLENS_HOME": str(home)}
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *arguments], capture_output=True, text=True, timeout=400,
        env=environment,
    )  # fmt: skip


def test_overhead(tmp_path):
    done = run("serve_overhead.py", "--rounds", "1", "--calls", "20", home=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "REST adds" in done.stdout
    assert done.stdout.count("gRPC") == 3


def test_switching(tmp_path):
    done = run(
        "serve_switching.py", "--demo", "--seconds", "6", "--inputs", "20", "--report", str(tmp_path / "out"),
        home=tmp_path,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert "goodput with switching" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "fixed", "two-replicas-(ideal)", "switching", "both",
    }  # fmt: skip


def test_peers(tmp_path):
    done = run("serve_peers.py", "--seconds", "0.5", "--rounds", "1", "--batching", "on", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("zoolens") == 3
