"""`zoolens serve` as a user starts and stops it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.serve import command
from zoolens.faces.serving.conftest import write_fake
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.testing import language_models

pytest.importorskip("uvicorn")
pytest.importorskip("grpc")


def refused(*arguments):
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code
    return str(result.exception) if result.exit_code == 1 else result.output


def test_what_cannot_be_served_is_refused_before_anything_is_loaded(tmp_path):
    assert "no token is set" in refused("tiny", "--host", "0.0.0.0")
    assert "no port" in refused("tiny", "--http", "off", "--grpc", "off")
    assert "is not a port" in refused("tiny", "--http", "70000")
    assert "cannot both listen on port 9000" in refused("tiny", "--http", "9000", "--grpc", "9000")
    assert "both --tls-cert and --tls-key" in refused("tiny", "--tls-cert", str(tmp_path / "a"))
    assert "SIZE" in refused("tiny", "--max-request", "much") or "much" in refused("tiny", "--max-request", "much")


@pytest.mark.parametrize("transport", ["--http", "--grpc"])
def test_a_port_that_is_taken_is_named_before_anything_is_loaded(transport):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = "--grpc" if transport == "--http" else "--http"
        words = refused("absent-model", transport, str(port), other, "0")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in words


def test_a_certificate_that_is_none_is_named_before_anything_is_loaded(tmp_path):
    for name in ("cert", "key"):
        (tmp_path / name).write_text("none")
    files = ("--tls-cert", str(tmp_path / "cert"), "--tls-key", str(tmp_path / "key"))
    assert "cannot be used" in refused("absent-model", "--http", "0", "--grpc", "0", *files)


def test_a_file_of_services_that_is_not_there_is_called_a_file(tmp_path):
    assert "There is no file" in refused(str(tmp_path / "missing.yaml"))


# Python's gRPC package is the clients' alone.
@pytest.mark.parametrize("package", ["uvicorn", "starlette", "httptools", "google.protobuf", "hpack"])
def test_a_missing_package_is_named_before_anything_is_loaded(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert f"needs {package}, which is not installed. Run: pip install 'zoolens[serve]'" in refused("absent-model")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_request_that_was_accepted_is_answered_although_the_server_is_told_to_stop(tmp_path, number):
    model = write_fake(tmp_path, "slow", latency_us=200_000)
    options = ("--http", "0", "--grpc", "0", "--log-format", "json")
    process = subprocess.Popen(
        [sys.executable, "-m", "zoolens", "serve", f"digits={model}", *options],
        env={**os.environ, "ZOOLENS_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0] == "digits, version 1: READY\n"
        url = re.fullmatch(r"REST: (http://127\.0\.0\.1:\d+/v2)\n", lines[1])[1]
        assert lines[2].startswith("gRPC: grpc://127.0.0.1:")
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].partition("/")[0]))) as client:
            client.sendall(b"no request\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 400")
        answers = []
        body = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4], "data": [0, 1, 2, 3]}]}

        def ask():
            with urllib.request.urlopen(f"{url}/models/digits/infer", json.dumps(body).encode()) as response:
                answers.append(json.load(response))

        thread = threading.Thread(target=ask)
        thread.start()
        while not _waiting(url):
            pass
        process.send_signal(number)
        thread.join(30)
        assert answers[0]["outputs"][0]["shape"] == [1, 3]
        assert process.wait(30) == 0
        assert process.stdout.read() == "Stopped.\n"
        logged = [json.loads(line) for line in process.stderr]  # and nothing else
        assert [line["message"] for line in logged] == [
            "Loading the models …",
            "Stop with Ctrl-C.",
            "Invalid HTTP request received.",
            "Draining: requests that were accepted are answered.",
        ]
    finally:
        process.kill()
        process.wait()


def _waiting(url):
    """Whether the request has reached the model."""
    with urllib.request.urlopen(f"{url}/models/digits/stats") as response:
        return json.load(response)["model_stats"][0]["inference_stats"]["queue"]["count"]


@pytest.mark.slow  # a process with llama.cpp
def test_the_base_url_of_clients_of_openai_is_told_where_a_model_writes(tmp_path):
    pytest.importorskip("xllamacpp")
    path = language_models.gguf(tmp_path).path()
    write_manifest(draft_manifest(path), tmp_path / "tiny.yaml")
    words = [sys.executable, "-m", "zoolens", "serve", str(tmp_path / "tiny.yaml"), "--http", "0", "--grpc", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            _, rest, openai = (process.stdout.readline() for _ in range(3))
            assert openai == rest.replace("REST", "OpenAI").replace("/v2", "/v1")
        finally:
            process.kill()
