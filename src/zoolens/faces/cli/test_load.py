import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferResponse
from zoolens.base.store.records import RunKind
from zoolens.base.store.series import read_series
from zoolens.base.store.store import open_store
from zoolens.faces.cli.load import command
from zoolens.faces.load.stored import REQUESTS
from zoolens.testing.v2_server import serving


def answer(request):
    return InferResponse("net", "1", {"logits": np.zeros((1, 3), np.float32)}, parameters={"zoolens_model": "a"})


@pytest.fixture
def address():
    with serving(answer) as address:
        yield str(address)


@pytest.fixture
def load():
    def run(*arguments):
        return CliRunner().invoke(command, list(arguments), catch_exceptions=False)

    return run


FEW = ("--rate", "60", "--duration", "0.3s", "--warmup", "1")


def test_results_are_printed(load, address):
    text = load(address, *FEW, "--deadline", "10s").output
    assert "Goodput: 100.00 %" in text
    assert "p99" in text
    assert "shares this machine" in text
    assert "a  " in text


def test_an_interrupted_load_does_not_promise_that_it_goes_on(tmp_path):
    asked = threading.Event()

    def noted(request):
        asked.set()
        return answer(request)

    with serving(noted) as address:
        words = [sys.executable, "-m", "zoolens", "load", str(address), "--rate", "20", "--duration", "60s"]
        environment = {**os.environ, "ZOOLENS_HOME": str(tmp_path)}
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert "nothing of it was kept" in told
    assert "goes on from there" not in told


def test_results_as_json_with_every_way_to_send(load, address, tmp_path):
    (tmp_path / "trace.csv").write_text("time\n0\n0.05\n0.1\n")
    for arguments, requests in (
        (("--arrivals", "constant", *FEW), 18),
        (("--arrivals", "burst", *FEW), None),
        (("--trace", str(tmp_path / "trace.csv")), 3),
        (("--clients", "2", "--duration", "0.2"), None),
    ):
        data = json.loads(load(address, *arguments, "--json").output)
        assert data["outcomes"]["answered"] == data["requests"]
        assert requests in (None, data["requests"])
        assert data["loop"] == ("closed" if "--clients" in arguments else "open")


def test_a_report_and_a_store_hold_every_request(load, address, tmp_path):
    store = tmp_path / "store.db"
    result = load(address, *FEW, "--report", str(tmp_path / "out"), "--store", str(store))
    assert "Stored as run" in result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"index.html", "results.json", "requests.csv"} <= names
    data = json.loads((tmp_path / "out" / "results.json").read_text())
    with open_store(store) as opened:
        (run,) = opened.runs(kind=RunKind.LOAD)
        assert read_series(opened, run.id, REQUESTS).num_rows == data["requests"]
        metrics = {observation.metric for observation in opened.observations(run.id)}
        assert not opened.runs()
    assert "load_latency_p50" in metrics  # a figure, or why there is none: this machine may be too busy
    again = load(address, "--trace", f"{run.id}:{REQUESTS}", "--store", str(store), "--json")
    assert json.loads(again.stdout)["requests"] == data["requests"]


def test_the_server_is_told_of_the_deadline_and_of_parameters(load):
    asked = []

    def note(request):
        asked.append(request)
        return answer(request)

    with serving(note) as address:
        load(str(address), *FEW, "--deadline", "50ms", "--parameter", "zoolens_min_equivalence=0.9")
        told = asked[-1]
        load(str(address), *FEW, "--deadline", "50ms", "--keep-deadline")
    assert told.deadline == pytest.approx(0.05)
    assert told.parameters["zoolens_min_equivalence"] == 0.9
    assert asked[-1].deadline is None


def test_what_is_shed_is_shown_with_its_reason(load):
    count = iter(range(10_000))

    def shed(request):
        if next(count) % 2:
            raise ServingError(Refusal.OVERLOADED, "The queue is full.")
        return answer(request)

    with serving(shed) as address:
        text = load(str(address), *FEW).output
    assert "shed by the server (429)" in text
    assert "The queue is full." in text
    assert "not answered" in text


def test_a_driver_that_is_held_back_ends_with_an_error(load):
    def slow(request):
        time.sleep(0.03)
        return answer(request)

    with serving(slow) as address:
        result = load(str(address), *FEW, "--connections", "1")
    assert result.exit_code == 1
    assert "This run is not valid" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--deadline", "soon"), "soon"),
        (("--deadline", "-1s"), "-1s"),
        (("--shape", "input"), "NAME:3,224,224"),
        (("--shape", "input:a,b"), "not a shape"),
        (("--arrivals", "trace"), "which trace"),
    ],
)
def test_options_that_make_no_sense_are_explained(load, address, arguments, message):
    result = load(address, *arguments)
    assert result.exit_code == 2
    assert message in result.output
