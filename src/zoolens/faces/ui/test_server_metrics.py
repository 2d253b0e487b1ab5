"""A real server of models, watched through its metrics."""

import json
import math
import urllib.request

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.ui.server_metrics import Look, ServerWatcher, compared

pytest.importorskip("prometheus_client")


def ask(url, data=None):
    request = urllib.request.Request(url, json.dumps(data).encode() if data else None)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_server_is_watched_while_it_answers(tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert")
    from zoolens import serve
    from zoolens.faces.serving.plane.plane_settings import ModelSpec

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setattr("zoolens.faces.ui.server_metrics._REST", 0)
    token = "a-token-of-enough-letters"
    with serve([ModelSpec("demo:mlp-small", "litert")], http=0, grpc=None) as server:
        watcher = ServerWatcher(server.urls["http"], token)
        first = watcher.now()
        assert first.seconds == 0
        [endpoint] = first.endpoints
        assert endpoint.ready
        model = f"{server.urls['http']}/v2/models/{endpoint.name}"
        [tensor] = ask(model)["inputs"]
        shape = [1, *(extent if extent > 0 else 1 for extent in tensor["shape"][1:])]
        zeros = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": [0] * math.prod(shape)}
        for _ in range(5):
            ask(f"{model}/infer", {"inputs": [zeros]})
        now = watcher.now()
    [endpoint] = now.endpoints
    assert endpoint.rate == pytest.approx(5 / now.seconds)
    assert endpoint.refused == 0
    assert endpoint.models[0].runtime == "litert"
    assert set(endpoint.models[0].percentiles) == {50, 90, 99}
    with pytest.raises(ZoolensError, match="does not publish its metrics"):
        watcher.now()


def bucket(bound):
    return ("digits", "m", "fake", bound)


def test_a_percentile_is_the_bound_of_its_bucket_and_of_the_stretch_alone():
    before = {"zoolens_answer_seconds_bucket": {bucket("0.01"): 100.0, bucket("0.1"): 100.0, bucket("+Inf"): 100.0}}
    after = {
        "zoolens_ready": {("digits", "1"): 1.0},
        "zoolens_answers_total": {("digits", "m", "fake"): 200.0},
        "zoolens_answer_seconds_bucket": {bucket("0.01"): 160.0, bucket("0.1"): 195.0, bucket("+Inf"): 200.0},
    }
    [endpoint] = compared(Look(0.0, before), Look(10.0, after)).endpoints
    assert endpoint.models[0].percentiles == {50: 0.01, 90: 0.1, 99: math.inf}


def test_a_server_that_was_started_anew_counts_from_nothing():
    before = {"zoolens_requests_total": {("digits", "1", "answered"): 1000.0}}
    after = {
        "zoolens_ready": {("digits", "1"): 1.0},
        "zoolens_requests_total": {("digits", "1", "answered"): 20.0, ("digits", "1", "overloaded"): 10.0},
    }
    [endpoint] = compared(Look(0.0, before), Look(10.0, after)).endpoints
    assert (endpoint.rate, endpoint.refused) == (2.0, 1.0)
