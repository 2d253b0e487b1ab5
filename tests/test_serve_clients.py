"""Unmodified clients of Triton, KServe and MLServer accept the server, and get the answers of the model's session."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.serve_clients import environment

import zoolens

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")

CHECKS = Path(__file__).parent / "serve_clients"
MODEL = "demo:lenet-torch"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Addresses of REST and gRPC, and a file with an input and the answer of the session."""
    folder = tmp_path_factory.mktemp("clients")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(folder / "home"))
        with zoolens.open_session(MODEL) as session:
            (source,), (target,) = session.inputs, session.outputs
            x = np.random.default_rng(0).random((3, *source.shape[1:]), np.float32)
            y = session.predict({source.name: x})[target.name]
        np.savez(folder / "case.npz", model="lenet-torch", input=source.name, output=target.name, x=x, y=y)
        with zoolens.serve(MODEL, http=0, grpc=0) as server:
            addresses = [server.urls[name].partition("://")[2] for name in ("http", "grpc")]
            yield [*addresses, str(folder / "case.npz")]


def results(client, script, served):
    """What each check found."""
    done = subprocess.run(
        [client.python, str(CHECKS / script), *served],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_tritonclient(served):
    found = results(environment("clients"), "triton_checks.py", served)
    assert len(found) == 19
    assert set(found.values()) == {"ok"}, "\n".join(f"{name}: {text}" for name, text in found.items() if text != "ok")


def test_kserve(served):
    found = results(environment("clients"), "kserve_checks.py", served)
    assert len(found) == 7
    assert set(found.values()) == {"ok"}, "\n".join(f"{name}: {text}" for name, text in found.items() if text != "ok")


@pytest.mark.parametrize("binary", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_mlserver_infer(served, tmp_path, binary):
    """Its command-line client, which reads requests from a file and writes the answers into another."""
    client = environment("mlserver")
    http, _, case = served
    with np.load(case) as file:
        x, y, name = file["x"], file["y"], str(file["input"])
    lines = [
        json.dumps(
            {"inputs": [{"name": name, "datatype": "FP32", "shape": list(row.shape), "data": row.ravel().tolist()}]}
        )
        for row in (x[place : place + 1] for place in range(len(x)))
    ]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    command = [client.python.parent / "mlserver", "infer", "-u", http, "-m", "lenet-torch", "-w", "1"]
    files = ["-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt"]
    done = subprocess.run(
        [*command, *files, *(["-b"] if binary else [])],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    answers = [json.loads(line) for line in (tmp_path / "out.txt").read_text().splitlines()]
    rows = {answer["parameters"]["batch_index"]: answer["outputs"][0]["data"] for answer in answers}
    np.testing.assert_allclose([rows[place] for place in range(len(x))], y, rtol=1e-6)
