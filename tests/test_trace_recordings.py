import threading

import numpy as np
import pytest
from click.testing import CliRunner

import zoolens
from zoolens.base.protocol.client import open_client
from zoolens.base.protocol.messages import InferResponse
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.findings.tracing import load_recording, recording, span, traced
from zoolens.findings.tracing.stored import find_trace
from zoolens.findings.tracing.stored_recording import (
    is_recording,
    recording_as_data,
    sentences,
    steps_table,
    typical_request,
)
from zoolens.findings.tracing.trace_page import recording_page
from zoolens.inventory.catalog.sessions import place
from zoolens.inventory.runtimes.remote import RemoteSession
from zoolens.testing.v2_server import serving


@pytest.fixture
def store(home):
    with open_store() as opened:
        yield opened


@pytest.fixture
def recorded(store, fake_model):
    """Three requests, each answered by two models in a row; one of them in a worker."""
    with zoolens.trusting(), zoolens.open_session(fake_model(), runtime="fake") as first:
        feeds = {spec.name: np.zeros((1, *spec.shape[1:]), spec.dtype) for spec in first.inputs}
        detector, classifier = traced(first, "detector"), traced(first, "classifier")
        with recording("photo service", store=store) as current:
            for _ in range(3):
                with span("request", "request"):
                    detector.predict(feeds)
                    with span("cut out"):
                        pass
                    classifier.predict(feeds)
    return load_recording(current.run, store=store)


def test_models_in_a_row_stand_below_one_request(recorded):
    (request,) = recorded.step.steps
    assert (request.name, request.times) == ("request", 3)
    assert [(step.name, step.level, step.times) for step in request.steps] == [
        ("detector", "model", 3),
        ("cut out", "user", 3),
        ("classifier", "model", 3),
    ]
    assert sum(step.share for step in request.steps) <= 1.0
    assert request.share == pytest.approx(request.total / recorded.step.total)


def test_words_tables_data_and_page_tell_of_every_step(recorded):
    assert [row[0].lstrip("└─ ") for row in steps_table(recorded).rows] == [
        "photo service", "request", "detector", "cut out", "classifier",
    ]  # fmt: skip
    assert recording_as_data(recorded)["recording"]["steps"][0]["times"] == 3
    assert "not known" in " ".join(sentences(recorded))
    page = recording_page(recorded)
    assert "detector" in page
    assert "data-chart" in page
    assert len(typical_request(recorded)) == 4  # one request, with its three steps


def test_the_command_line_shows_and_exports_a_recording(recorded, store, tmp_path):
    assert is_recording(find_trace(store, "last"))
    chrome = tmp_path / "trace.json"
    result = CliRunner().invoke(cli, ["trace", "show", recorded.run.id[:8], "--chrome", str(chrome)])
    assert result.exit_code == 0, result.output
    assert "└── classifier" in result.output
    assert '"detector"' in chrome.read_text()


def test_a_model_in_a_worker_tells_what_it_needed_there(store, fake_model):
    with place(fake_model(latency_us=2000), runtime="fake").open_isolated() as opened:
        feeds = {spec.name: np.zeros((1, *spec.shape[1:]), spec.dtype) for spec in opened.inputs}
        assert opened.elsewhere
        with recording("app", store=store) as current:
            traced(opened, "model").predict(feeds)
    (model,) = load_recording(current.run, store=store).step.steps
    (inside,) = model.steps
    assert inside.name == "in the worker"
    assert 0.002 <= inside.total <= model.total


def test_outside_of_a_recording_a_traced_session_only_predicts(fake_model):
    with zoolens.trusting(), traced(zoolens.open_session(fake_model(), runtime="fake"), "x") as session:
        feeds = {spec.name: np.zeros((1, *spec.shape[1:]), spec.dtype) for spec in session.inputs}
        assert session.predict(feeds)
        assert session.effective().precision
        assert session.profile(feeds)


def test_a_step_whose_caller_never_ended_hangs_on_the_recording(store):
    begun, go = threading.Event(), threading.Event()

    def work():
        with span("endless"):
            with span("inner"):
                pass
            begun.set()
            go.wait()

    with recording("app", store=store) as current:
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
    go.set()
    thread.join()
    assert [step.name for step in load_recording(current.run, store=store).step.steps] == ["inner"]


def test_a_server_is_told_to_which_span_a_prediction_belongs(store):
    headers = []

    def answer(request):
        headers.append(request.traceparent)
        return InferResponse(request.model, "1", {"logits": np.zeros((1, 3), np.float32)})

    with serving(answer) as address, open_client(address.at("net")) as client:
        session = RemoteSession(client, client.server(), client.model("net"))
        with recording("app", keep=False) as current:
            traced(session, "remote model").predict({"input": np.zeros((1, 4), np.float32)})
    (row,) = [row for row in current.table().to_pylist() if row["name"] == "remote model"]
    assert headers == [f"00-{row['trace_id']}-{row['span_id']:016x}-01"]
