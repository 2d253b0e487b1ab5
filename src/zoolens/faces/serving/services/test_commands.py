"""`zoolens serve FILE --check` and `zoolens events`, on a store that knows some demo models."""

import json
import urllib.request

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.events import command as events
from zoolens.faces.cli.serve import command as serve
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import AnswerCounts, EventLog, ModelComparison, ObjectiveCounts, ServiceEvent

pytestmark = pytest.mark.usefixtures("trusted_models")

FILE = """
services:
  fashion:
    reference: demo:lenet-wide
    within: 80%
    batch: {size: 4}
"""


@pytest.fixture
def service_file(tmp_path):
    path = tmp_path / "service.yaml"
    path.write_text(FILE)
    return str(path)


def called(command, *arguments):
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("added", "sentence"),
    [
        ("policy: {name: memory, room: a lot}", "The policy memory cannot take room"),
        ("memory_limit_file: /nowhere/memory.max", "The memory limit cannot be read from /nowhere/memory.max"),
    ],
)
def test_check_refuses_what_could_not_be_served(measured_store, store_path, tmp_path, added, sentence):
    path = tmp_path / "service.yaml"
    path.write_text(f"{FILE}    {added}\n")
    with pytest.raises(ZoolensError, match=sentence):
        called(serve, str(path), "--check", "--store", str(store_path))


def test_check_explains_the_ladder(measured_store, store_path, service_file):
    shown = called(serve, service_file, "--check", "--store", str(store_path))
    assert "fashion: demo:lenet-wide within 0.8, policy fixed" in shown
    assert "demo:lenet-deep@1.0.0" in shown  # a tier, or why it is none: its speed is that of the machine
    assert "Clients send input FP32[-1,28,28] and get probabilities FP32[-1,10]." in shown
    assert " min" in shown  # ago its times were measured
    assert "days ago" not in shown
    data = json.loads(called(serve, service_file, "--check", "--json", "--store", str(store_path)))
    reference = data["fashion"]["rungs"][0]
    assert reference["timed_at"] >= reference["evaluated_at"][:10]


def test_check_of_a_broken_file_says_where(tmp_path):
    path = tmp_path / "service.yaml"
    path.write_text("services:\n  fashion:\n    reference: demo:lenet-wide\n")
    with pytest.raises(ZoolensError, match=r"line 2: services\.fashion\.within: is missing"):
        called(serve, str(path), "--check")


def test_events_are_shown_newest_session_first(tmp_path):
    target = tmp_path / "store.sqlite"
    log = EventLog(target, {"fashion": Service(reference="a", within=0.9)})
    log.record("fashion", ServiceEvent("switch", "With 9 waiting, a would use 130 % of the time left.", "b", "a", 9))
    log.record("fashion", AnswerCounts("b", "onnxruntime", 1234, 1234))
    log.record("fashion", ObjectiveCounts(600, 600, 0, 0.05, 99.0))
    log.record("fashion", ObjectiveCounts(634, 630, 6, 0.05, 99.0))
    log.record("fashion", ModelComparison("b", "a", 50, 0.9, 0.7, 1.0, 20, 0.1, -0.2, 0.4, 3, 70))
    log.close()
    shown = called(events, "fashion", "--store", str(target))
    assert "a → b: With 9 waiting, a would use 130 % of the time left." in " ".join(shown.split())
    assert "1,234 of 1,234 requests were answered by b in onnxruntime." in shown
    assert "99.19 % of 1,240 requests were answered within 50 ms in the server, 6 were refused" in shown
    assert "the objective of 99 % was kept." in shown
    shown = " ".join(shown.split())
    assert "b and a agree on 90.0 % [70.0, 100.0] of the newest 50 requests that both answered." in shown
    assert "70 of the 1,234 requests that b answered were compared. 3 more were drawn" in shown
    assert "20 of them have labels. Neither of b and a is known to be more accurate" in shown
    assert json.loads(called(events, "--json", "--store", str(target)))[0]["answered"][0]["requests"] == 1234


def test_a_service_answers_over_rest_and_takes_labels(measured_store, store_path, tmp_path):
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from zoolens.faces.serving.serve import serve as serve_in_a_thread

    path = tmp_path / "service.yaml"
    path.write_text(f"{FILE}    shadow: {{model: demo:mlp-wide, share: 100%}}\n    where: name = 'mlp-wide'\n")
    body = {
        "id": "first",
        "inputs": [{"name": "input", "shape": [1, 28, 28], "datatype": "FP32", "data": [0.5] * 784}],
        "parameters": {"zoolens_min_equivalence": 0.99},
    }
    with serve_in_a_thread(http=0, grpc=None, services=[path], store=store_path) as server:
        address = f"{server.urls['http']}/v2/models/fashion"
        answer, headers = posted(f"{address}/infer", body)
        assert answer["parameters"]["zoolens_model"] == headers["zoolens-model"] == "demo:lenet-wide@1.0.0"
        assert headers["zoolens-rung"] == "0"
        known, _ = posted(f"{address}/feedback", {"labels": {"first": "Bag", "second": 3}})
        assert known == {"known": 1, "given": 2}


def posted(url, data):
    request = urllib.request.Request(url, json.dumps(data).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response), response.headers
