"""Beside a real Triton: the same requests get the same status, metadata and answers; differences are listed here.

Set ZOOLENS_TRITON_PYTHON to a Python that has nvidia-pytriton and onnxruntime, and ZOOLENS_PERF_ANALYZER to the command
that starts perf_analyzer (docs/serve.md says how to get both on Debian).
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tests.serve_clients import environment

import zoolens
from zoolens.base.protocol.documents import model_from_data
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.base.protocol.rest import decode_response, encode_request
from zoolens.faces.serving.plane.plane_settings import ModelSpec

pytestmark = pytest.mark.slow
pytest.importorskip("onnxruntime")
pytest.importorskip("uvicorn")

FOLDER = Path(__file__).parent / "serve_clients"
ONNX = Path(zoolens.__file__).parent / "inventory" / "zoos" / "demo_data" / "models" / "lenet-torch.onnx"
MODEL = "lenet-torch"
X = np.random.default_rng(0).random((2, 28, 28)).astype(np.float32)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(tmp_path_factory.mktemp("home")))
        with zoolens.serve(ModelSpec(f"demo:{MODEL}", "onnxruntime"), http=0, grpc=0) as server:
            yield server.urls


@pytest.fixture(scope="module")
def triton(tmp_path_factory):
    python = os.environ.get("ZOOLENS_TRITON_PYTHON")
    if not python:
        pytest.skip("NO TRITON: set ZOOLENS_TRITON_PYTHON to a Python that has nvidia-pytriton")
    ports = [str(free_port()), str(free_port())]
    process = subprocess.Popen(
        [python, str(FOLDER / "triton_server.py"), str(ONNX), MODEL, *ports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path_factory.mktemp("triton"),
        env={**os.environ, "PYTHONPATH": ""},
        text=True,
    )
    try:
        assert any(line == "ready\n" for line in process.stdout), "Triton did not start"
        yield {"http": f"http://127.0.0.1:{ports[0]}", "grpc": f"grpc://127.0.0.1:{ports[1]}"}
    finally:
        process.stdin.close()
        process.wait(60)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ask(base, method, path, body=None, headers=None):
    request = urllib.request.Request(base + path, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def infer(request, binary=True):
    body = encode_request(request, binary=binary)
    return "POST", f"/v2/models/{request.model}/infer", body.content(), body.headers


def document(content):
    return "POST", f"/v2/models/{MODEL}/infer", content if isinstance(content, bytes) else json.dumps(content).encode()


def tensor(**fields):
    described = {"name": "input", "datatype": "FP32", "shape": [1, 28, 28], "data": [0.5] * 784, **fields}
    return document({"inputs": [described]})


SAME_STATUS = {
    "live": ("GET", "/v2/health/live"),
    "ready": ("GET", "/v2/health/ready"),
    "model ready": ("GET", f"/v2/models/{MODEL}/ready"),
    "version ready": ("GET", f"/v2/models/{MODEL}/versions/1/ready"),
    "server metadata": ("GET", "/v2"),
    "model metadata": ("GET", f"/v2/models/{MODEL}"),
    "unknown model": ("GET", "/v2/models/absent"),
    "unknown version": ("GET", f"/v2/models/{MODEL}/versions/7"),
    "version that is no number": ("GET", f"/v2/models/{MODEL}/versions/x"),
    "config": ("GET", f"/v2/models/{MODEL}/config"),
    "config of an unknown model": ("GET", "/v2/models/absent/config"),
    "unknown path": ("GET", "/v2/absent"),
    "wrong method": ("DELETE", "/v2/health/live"),
    "infer with GET": ("GET", f"/v2/models/{MODEL}/infer"),
    "infer": infer(InferRequest(MODEL, {"input": X})),
    "infer, JSON": infer(InferRequest(MODEL, {"input": X}), binary=False),
    "infer, unknown model": infer(InferRequest("absent", {"input": X})),
    "infer, wrong name": infer(InferRequest(MODEL, {"x": X})),
    "infer, input too many": infer(InferRequest(MODEL, {"input": X, "x": X})),
    "infer, wrong type": infer(InferRequest(MODEL, {"input": X.astype(np.float64)})),
    "infer, wrong shape": infer(InferRequest(MODEL, {"input": X[:, :3]})),
    "infer, wrong rank": infer(InferRequest(MODEL, {"input": X[0]})),
    "infer, too many rows": infer(InferRequest(MODEL, {"input": np.zeros((65, 28, 28), np.float32)})),
    "infer, no rows": infer(InferRequest(MODEL, {"input": X[:0]})),
    "infer, unknown output": infer(InferRequest(MODEL, {"input": X}, outputs=(RequestedOutput("y"),))),
    "infer, no inputs": document({"inputs": []}),
    "infer, unknown type": tensor(datatype="FP31"),
    "infer, whole numbers": tensor(data=[1] * 784),
    "infer, input twice": document({"inputs": json.loads(tensor()[2])["inputs"] * 2}),
    "infer, header beyond the body": (*document(b"{}"), {"Inference-Header-Content-Length": "100"}),
    "infer, one row without JSON": (*document(X[:1].tobytes()), {"Inference-Header-Content-Length": "0"}),
    "infer, another compression": (*document(b"{}"), {"Content-Encoding": "br"}),
}
OTHER_STATUS = {  # Triton's, and ours
    "unknown model ready": (("GET", "/v2/models/absent/ready"), 400, 404),
    "infer, no JSON": (document(b"{"), 500, 400),
    "infer, no field inputs": (document({}), 500, 400),
    "infer, too few elements": (tensor(data=[1]), 500, 400),
    "infer, texts for numbers": (tensor(data=["a"] * 784), 500, 400),
    "infer, negative shape": (tensor(shape=[-1, 28, 28]), 500, 400),
    "infer, no shape": (tensor(shape=None), 500, 400),
    "infer, timeout that is no number": (
        document({**json.loads(tensor()[2]), "parameters": {"timeout": "x"}}),
        500,
        400,
    ),
    "infer, NaN in JSON": (tensor(data=[float("nan")] * 784), 200, 400),
    "infer, nested in another shape": (tensor(data=[[0.5] * 392] * 2), 200, 400),
}


@pytest.mark.parametrize("case", SAME_STATUS)
def test_the_status_is_tritons(triton, ours, case):
    theirs, mine = ask(triton["http"], *SAME_STATUS[case]), ask(ours["http"], *SAME_STATUS[case])
    assert mine[0] == theirs[0], (theirs[2], mine[2])
    if mine[0] >= 400:
        assert json.loads(mine[2]).keys() == json.loads(theirs[2]).keys() == {"error"}


@pytest.mark.parametrize("case", OTHER_STATUS)
def test_a_difference_that_is_known(triton, ours, case):
    """Triton calls a client's mistake its own (500), or accepts what JSON does not have; ours is 400."""
    request, theirs, mine = OTHER_STATUS[case]
    assert (ask(triton["http"], *request)[0], ask(ours["http"], *request)[0]) == (theirs, mine)


def test_metadata_and_configuration_agree(triton, ours):
    theirs, mine = (
        model_from_data(json.loads(ask(base, "GET", f"/v2/models/{MODEL}")[2]))
        for base in (triton["http"], ours["http"])
    )
    assert (mine.name, mine.versions, mine.inputs, mine.outputs) == (
        theirs.name,
        theirs.versions,
        theirs.inputs,
        theirs.outputs,
    )
    theirs, mine = (
        json.loads(ask(base, "GET", f"/v2/models/{MODEL}/config")[2]) for base in (triton["http"], ours["http"])
    )
    assert mine["max_batch_size"] == theirs["max_batch_size"]
    for side in ("input", "output"):
        for key in ("name", "data_type", "dims"):
            assert [item[key] for item in mine[side]] == [item[key] for item in theirs[side]]


@pytest.mark.parametrize("binary", [False, True])
def test_answers_are_equal_to_the_last_bit(triton, ours, binary):
    request = InferRequest(MODEL, {"input": X}, id="7", parameters={"binary_data_output": binary})
    decoded = []
    for base in (triton["http"], ours["http"]):
        _, headers, content = ask(base, *infer(request))
        length = headers.get("Inference-Header-Content-Length")
        decoded.append(decode_response(content, None if length is None else int(length)))
    theirs, mine = decoded
    assert (mine.model, mine.version, mine.id) == (theirs.model, theirs.version, theirs.id)
    np.testing.assert_array_equal(mine.outputs["logits"], theirs.outputs["logits"])


def test_the_statuses_over_grpc_are_tritons(triton, ours):
    client = environment("clients")
    found = [
        subprocess.run(
            [client.python, str(FOLDER / "grpc_statuses.py"), urls["grpc"].partition("://")[2]],
            capture_output=True,
            check=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": ""},
        ).stdout
        for urls in (triton, ours)
    ]
    theirs, mine = map(json.loads, found)
    assert mine == theirs
    assert theirs["infer, wrong name"] == "StatusCode.INVALID_ARGUMENT"


@pytest.mark.parametrize("transport", ["http", "grpc", "streaming"])
def test_perf_analyzer_measures_the_server(ours, tmp_path, transport):
    command = os.environ.get("ZOOLENS_PERF_ANALYZER") or shutil.which("perf_analyzer")
    if not command:
        pytest.skip("NO PERF_ANALYZER: set ZOOLENS_PERF_ANALYZER to the command that starts it")
    protocol = "http" if transport == "http" else "grpc"
    address = ours[protocol].partition("://")[2]
    options = ["-m", MODEL, "-i", protocol, "-u", address, *(["--streaming"] if transport == "streaming" else [])]
    done = subprocess.run(
        [*shlex.split(command), *options, "--request-count", "500"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert not done.returncode, done.stdout + done.stderr
    assert "Throughput:" in done.stdout
    assert "Successful request count:" in done.stdout  # it reads the server's statistics
