import asyncio
import io
import json
import logging

import numpy as np
import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.contracts.observer import BatchReport
from zoolens.faces.serving.monitoring.live_line import live_line, show_live_line
from zoolens.faces.serving.monitoring.logs import FIELDS, JsonLines, LogObserver, logging_to_stderr
from zoolens.faces.serving.monitoring.metrics import Histogram, PlaneMetrics
from zoolens.faces.serving.plane.data_plane import open_plane


def report(*, rung=0, previous=0, waited=(0.001,), seconds=0.01, free=True):
    requests = [InferRequest("net", {}, traceparent="00-a-b-01") for _ in waited]
    models = ("zoo:large@1", "zoo:small@1")
    return BatchReport(
        "net", rung, previous, "The queue is long.", requests, [1] * len(waited), {}, {}, waited, seconds, 3,
        Rung(models[rung], "fake", 1.0, 1.0, LatencyProfile({})), free,
    )  # fmt: skip


def samples(metrics):
    content, content_type = metrics.text()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(content.decode())
        for sample in family.samples
    }


def value(metrics, name, **labels):
    return samples(metrics)[name, tuple(sorted(labels.items()))]


def test_a_histogram_counts_up_to_each_bound():
    histogram = Histogram((1.0, 2.0))
    for number in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.add(number)
    assert histogram.cumulative() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert histogram.sum == 8


def test_answers_are_counted_by_the_model_that_gave_them():
    metrics = PlaneMetrics()
    metrics.answered(report(waited=(0.001, 0.002), seconds=0.1))
    metrics.answered(report(rung=1, previous=0))
    large = {"endpoint": "net", "model": "zoo:large@1", "runtime": "fake"}
    assert value(metrics, "zoolens_answers_total", **large) == 2
    assert value(metrics, "zoolens_answers_total", **{**large, "model": "zoo:small@1"}) == 1
    assert value(metrics, "zoolens_answer_seconds_sum", **large) == pytest.approx(0.203)
    assert value(metrics, "zoolens_answer_seconds_bucket", **large, le="0.1") == 0
    assert value(metrics, "zoolens_answer_seconds_bucket", **large, le="0.25") == 2
    assert value(metrics, "zoolens_batch_rows_count", **large) == 1
    assert value(metrics, "zoolens_switches_total", endpoint="net") == 1


def test_a_model_that_a_client_pinned_is_no_switch():
    metrics = PlaneMetrics()
    metrics.answered(report(rung=1, previous=0, free=False))
    assert metrics.switches("net") == 0


def test_recent_latencies_are_those_of_the_last_seconds():
    metrics = PlaneMetrics()
    assert metrics.recent().p99 is None
    metrics.answered(report(waited=[0.0] * 99, seconds=0.01))
    metrics.answered(report(waited=[0.0], seconds=0.5))
    recent = metrics.recent()
    assert recent.p50 == pytest.approx(0.01)
    assert recent.p99 == pytest.approx(0.5)
    assert recent.rate > 0
    assert recent.refused == 0
    metrics.refused("net", InferRequest("net", {}), "The queue is full.")
    assert metrics.recent().refused > 0


def test_a_plane_is_measured_while_it_serves(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    (tmp_path / "net.json").write_text('{"classes": 3, "input": [4]}')
    (tmp_path / "net.yaml").write_text(
        "zoolens: 1\nname: net\ninputs: [{modality: array, shape: [null, 4], layout: NC}]\n"
        "outputs: [{labels: [a, b, c]}]\nassets: [{format: fake, files: [{location: net.json}]}]\n"
    )
    metrics = PlaneMetrics()

    async def serve():
        async with open_plane([str(tmp_path / "net.yaml")], observers=[metrics]) as plane:
            metrics.follow(plane)
            for _ in range(3):
                await plane.infer(InferRequest("net", {"input": np.zeros((1, 4), np.float32)}))
            with pytest.raises(Exception, match="input"):
                await plane.infer(InferRequest("net", {"wrong": np.zeros((1, 4), np.float32)}))
            await asyncio.sleep(0)
            return samples(metrics), live_line(metrics)

    found, line = asyncio.run(serve())
    by_name = {(name, dict(labels).get("outcome")): number for (name, labels), number in found.items()}
    assert by_name["zoolens_requests_total", "answered"] == 3
    assert by_name["zoolens_requests_total", "invalid"] == 1
    assert by_name["zoolens_ready", None] == 1
    assert by_name["zoolens_memory_bytes", None] > 0
    assert by_name["process_open_fds", None] > 0
    assert "answers/s" in line
    assert "refused/s" in line
    assert line.endswith("net")


def test_the_live_line_is_for_terminals_alone():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    async def show(stream):
        task = asyncio.ensure_future(show_live_line(lambda: live_line(PlaneMetrics()), stream))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return stream.getvalue()

    assert "0.0 answers/s" in asyncio.run(show(Terminal()))
    assert asyncio.run(show(io.StringIO())) == ""


def test_logs_are_json_lines_with_the_fields_of_the_event(capsys):
    with logging_to_stderr("json"):
        LogObserver().answered(report(rung=1, previous=0))
        LogObserver().answered(report())
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (switch,) = lines
    assert switch["event"] == "switch"
    assert switch["model"] == "zoo:small@1"
    assert switch["message"] == "net is now answered by zoo:small@1: The queue is long."
    assert switch["time"].endswith("+00:00")


def test_debugging_logs_batches_and_refusals(capsys):
    with logging_to_stderr("json", "debug"):
        LogObserver().answered(report())
        LogObserver().refused("net", InferRequest("net", {}, id="7"), "The queue is full.")
    batch, refusal = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert batch["event"] == "batch"
    assert batch["traceparents"] == ["00-a-b-01"]
    assert refusal["request"] == "7"


def test_a_log_line_is_one_line_whatever_it_holds():
    record = logging.LogRecord("zoolens", logging.INFO, "", 0, "two\nlines %s", ('"',), None)
    setattr(record, FIELDS, {"value": object()})
    assert "\n" not in JsonLines().format(record)
