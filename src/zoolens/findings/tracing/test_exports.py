"""Spans as files and messages that other tools read."""

import gzip
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.tracing.chrome import write_chrome
from zoolens.findings.tracing.otlp import endpoint, send_otlp, with_outer_spans
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.timeline import Band, TimelineWindow, bands_chart, timeline, timeline_chart
from zoolens.findings.tracing.trace_context import TraceContext
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

NAME = "<script>conv & relu</script>"


def table(*operators, repeats=3):
    columns = SpanColumns(TraceContext("ab" * 16, 7), Level.LAYER)
    profiles = [Profile(1000, 100_000, operators)] * repeats
    add_profiles(columns, profiles, [True] * repeats)
    return columns.table()


CROSSING = (
    OperatorTime(NAME, "Conv", 40_000, 11_000, kernel="brgconv", precision="bfloat16", shapes=((1, 8),), thread=3),
    OperatorTime("b", "Relu", 40_000, 31_000, thread=3),
)


def test_events_of_one_thread_never_cross(tmp_path):
    write_chrome(tmp_path / "trace.json", [("model in runtime", table(*CROSSING))])
    document = json.loads((tmp_path / "trace.json").read_text())
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    names = [event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"]
    assert names == ["model in runtime: layer observed"]
    assert len(spans) == 9
    first = next(event for event in spans if event["name"] == NAME)
    other = next(event for event in spans if event["name"] == "b")
    assert first["tid"] != other["tid"]  # they overlap, and neither holds the other
    assert (first["ts"], first["dur"]) == (10.0, 40.0)
    assert first["args"]["kernel"] == "brgconv"


def test_starts_that_were_not_measured_are_said(tmp_path):
    write_chrome(tmp_path / "trace.json", [("m", table(OperatorTime("a", "Conv", 5)))])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "durations only" in next(event for event in events if event["name"] == "a")["args"]["start"]


def bars(chart):
    return {row["name"]: row for row in chart.spec["layer"][0]["data"]["values"]}


def test_a_timeline_shows_one_call_with_spans_below_their_callers():
    drawn = timeline(table(*CROSSING), Level.LAYER)
    assert [(span.name, span.lane) for span in drawn.spans] == [("predict", 0), (NAME, 1), ("b", 2)]
    assert drawn.spans[1].start == pytest.approx(10e-6)
    assert drawn.spans[1].kernel == "brgconv"
    rows = bars(timeline_chart(drawn))
    assert (rows[NAME]["x"], rows[NAME]["end"]) == pytest.approx((10, 50))  # microseconds
    assert rows[NAME]["computed"] == "brgconv bfloat16"
    assert timeline(table(*CROSSING), Level.LIBRARY) is None


def test_a_part_of_a_timeline_has_only_the_spans_of_that_time():
    drawn = timeline(
        table(OperatorTime("a", "Conv", 10_000, 1_000), OperatorTime("b", "Relu", 50_000, 41_000)), "layer"
    )
    assert set(bars(timeline_chart(drawn, window=TimelineWindow(0.0, 0.3)))) == {"predict", "a"}
    both = bands_chart([Band(drawn, "A", {1}), Band(drawn, "B", ())], "both")
    rows = both.spec["layer"][0]["data"]["values"]
    assert [(row["band"], row["name"]) for row in rows if row["marked"]] == [(0, "a")]
    assert [row["text"] for row in both.spec["layer"][-1]["data"]["values"]] == ["A", "B"]


@contextmanager
def collector(status=200, answer=b""):
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, gzip.decompress(body))
            )
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_collector_gets_spans_as_opentelemetry_has_them():
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    with collector() as (url, received):
        assert send_otlp(url, [("model in runtime", table(*CROSSING, repeats=1))], {"x-key": "secret"}) == 3
    ((path, headers, body),) = received
    assert path == "/v1/traces"
    assert (headers["content-type"], headers["x-key"]) == ("application/x-protobuf", "secret")
    (resource,) = service.ExportTraceServiceRequest.FromString(body).resource_spans
    call, layer, _ = resource.scope_spans[0].spans
    assert resource.resource.attributes[0].value.string_value == "model in runtime"
    assert (call.trace_id.hex(), int.from_bytes(call.parent_span_id)) == ("ab" * 16, 7)
    assert layer.parent_span_id == call.span_id
    assert layer.name == NAME
    assert layer.end_time_unix_nano - layer.start_time_unix_nano == 40_000
    attributes = {attribute.key: attribute.value for attribute in layer.attributes}
    assert attributes["zoolens.kernel"].string_value == "brgconv"
    assert attributes["zoolens.clean"].bool_value


def test_repeated_calls_hang_below_one_outermost_span():
    tables = [("model in a", table(*CROSSING)), ("model in b", table(*CROSSING)), ("model in a", table(*CROSSING))]
    services = list(with_outer_spans([(service, rows.to_pylist()) for service, rows in tables]))
    assert [service for service, _ in services] == ["zoolens trace", "model in a", "model in b"]
    spans = [span for _, rows in services for span in rows]
    by_number = {span["span_id"]: span for span in spans}
    assert len(by_number) == len(spans) == 3 * 9 + 1 + 2 + 2
    outermost = [span for span in spans if span["parent"] not in by_number]
    assert [(span["name"], span["parent"]) for span in outermost] == [("zoolens trace", 7)]  # 7 is who called
    layer = next(span for span in spans if span["name"] == NAME)
    names = []
    while layer is not None:
        names.append(layer["name"])
        layer = by_number.get(layer["parent"])
    assert names == [NAME, "predict", "layer observed", "model in a", "zoolens trace"]
    assert (outermost[0]["time"], outermost[0]["duration"]) == (1000, 100_000)
    assert services == list(with_outer_spans([(service, rows.to_pylist()) for service, rows in tables]))


def test_a_trace_with_one_outermost_span_stays_as_it_is():
    services = [("model in a", table(*CROSSING, repeats=1).to_pylist())]
    assert list(with_outer_spans(services)) == services


def test_a_collector_that_refuses_or_is_not_there_is_a_sentence():
    pytest.importorskip("opentelemetry.proto")
    with collector(503, b"busy") as (url, _), pytest.raises(ZoolensError, match="refused the spans: 503 busy"):
        send_otlp(url, [("m", table(*CROSSING))])
    with pytest.raises(ZoolensError, match="cannot be reached"):
        send_otlp(url, [("m", table(*CROSSING))])


def test_a_collector_that_leaves_spans_out_is_a_sentence():
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    partial = service.ExportTracePartialSuccess(rejected_spans=2, error_message="too old")
    answer = service.ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    with collector(200, answer) as (url, _), pytest.raises(ZoolensError, match="2 were refused"):
        send_otlp(url, [("m", table(*CROSSING))])


@pytest.mark.parametrize("url", ["", "collector", "file:///etc/passwd", "ftp://host", "http://"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ZoolensError, match="is not an address of a collector"):
        endpoint(url)


def test_a_path_is_added_where_there_is_none():
    assert endpoint("http://host:4318/") == "http://host:4318/v1/traces"
    assert endpoint("http://host/api/otel/v1/traces") == "http://host/api/otel/v1/traces"
