"""/traces without a browser."""

import json

import pytest

pytest.importorskip("starlette")

import pyarrow as pa

from zoolens.base.store.records import DatasetRecord, ModelRecord, RunKind, StackRecord
from zoolens.base.store.series import write_series
from zoolens.faces.ui.endpoint import PREFIX
from zoolens.faces.ui.test_app import client, home
from zoolens.findings.tracing.runner import series_name
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.trace_context import TraceContext
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

__all__ = ["client", "home"]  # fixtures
HOSTILE = "<b>conv</b>\u202e"
SLOW = 60_000


def spans(observed, *operators, duration=100_000, repeats=10):
    columns = SpanColumns(TraceContext("ab" * 16, 7), observed)
    add_profiles(columns, [Profile(1000, duration, operators)] * repeats, [True] * repeats)
    return columns.table()


def traced(store, runtime, slow=0):
    """A trace of a file with two operators, of which the first takes longer by `slow` nanoseconds."""
    model, stack = ModelRecord("m", "zoo:net@1", "onnx", {}), StackRecord(f"s:{runtime}", f"trace:{runtime}", {}, {})
    run = store.begin_run(model, DatasetRecord("d", "trace: made up", 1), stack, kind=RunKind.TRACE)
    first = OperatorTime(HOSTILE, "Conv", 30_000 + slow, 5_000, nodes=("conv",), kernel="gemm", shapes=((1, 8),))
    second = OperatorTime("relu", "Relu", 20_000, 40_000 + slow, nodes=("relu",))
    beside = spans(Level.MODEL, duration=100_000 + slow)
    layers = pa.concat_tables([spans(Level.LAYER, first, second, duration=110_000 + slow), beside])
    for level, table in ((Level.MODEL, beside), (Level.LAYER, layers)):
        write_series(store, run.id, series_name(level), table)
        store.finish_stage(run.id, f"trace:{level}", [])
    return run


def test_traces_are_listed_with_the_time_of_a_prediction(home, client):
    run = traced(home, "quick")
    broken = home.begin_run(
        ModelRecord("n", "zoo:other@1", "onnx", {}),
        DatasetRecord("d", "trace: made up", 1),
        StackRecord("s:none", "trace:none", {}, {}),
        kind=RunKind.TRACE,
    )
    home.fail_stage(broken.id, "trace:layer", "it cannot be profiled")
    ask = client()
    page = ask.get(f"{PREFIX}/traces").json()
    assert [row["id"] for row in page["rows"]] == [broken.id, run.id]
    assert page["rows"][0]["failed"] == [{"stage": "layer", "error": "it cannot be profiled"}]
    assert page["rows"][0]["predict"] is None
    assert page["rows"][1]["predict"]["words"] == "100 µs"
    assert (page["rows"][1]["runtime"], page["rows"][1]["recording"]) == ("quick", False)
    assert {one["value"]: one["count"] for one in page["facets"][0]["values"]} == {"none": 1, "quick": 1}
    assert ask.get(f"{PREFIX}/traces?runtime=quick").json()["total"] == 1
    assert ask.get(f"{PREFIX}/traces/{broken.id}").json()["timelines"] == []
    assert ask.get(f"{PREFIX}/traces/{broken.id}/timeline").status_code == 404
    reason = ask.get(f"{PREFIX}/traces/{broken.id}/roofline").json()["reason"]
    assert reason == "it cannot be profiled"
    assert ask.get(f"{PREFIX}/traces/nothing").status_code == 404


def test_a_trace_has_timeline_layers_and_a_file_for_perfetto(home, client):
    run = traced(home, "quick")
    ask = client()
    detail = ask.get(f"{PREFIX}/traces/{run.id}").json()
    assert detail["timelines"] == ["layer"]
    assert detail["layers"] == 2
    assert "<b>conv</b>" in detail["tiles"][-1]["title"]
    assert "\u202e" not in json.dumps(detail, ensure_ascii=False)
    shown = ask.get(f"{PREFIX}/traces/{run.id}/timeline").json()
    named = [(shown["names"][name], shown["lane"][place]) for place, name in enumerate(shown["name"])]
    assert sorted(named) == [("<b>conv</b>\ufffd", 1), ("predict", 0), ("relu", 1)]
    assert (shown["spans"], shown["left_out"], shown["lanes"], shown["number"]) == (3, 0, 2, [0, 1, 2])
    assert shown["time"][0] == shown["seconds"]
    assert shown["categories"][shown["category"][0]]["name"] == "calls and steps"
    span = ask.get(f"{PREFIX}/traces/{run.id}/span?number=1").json()
    assert (span["words"], span["kernel"], span["operators"]) == ("30 µs", "gemm", ["conv"])
    assert ask.get(f"{PREFIX}/traces/{run.id}/span?number=9").status_code == 404
    assert ask.get(f"{PREFIX}/traces/{run.id}/timeline?level=nothing").status_code == 404
    hot = ask.get(f"{PREFIX}/traces/{run.id}/layers?limit=1").json()
    assert (hot["total"], hot["rows"][0]["kind"], hot["rows"][0]["share_words"]) == (2, "Conv", "60.0 %")
    data = ask.get(f"{PREFIX}/traces/{run.id}/data").json()["data"]
    assert data["layers_share"] == pytest.approx(50 / 110), "of the call that they were timed in"
    file = ask.get(f"{PREFIX}/traces/{run.id}/chrome")
    assert file.headers["content-disposition"] == f'attachment; filename="trace-{run.id[:8]}.json"'
    assert {"predict", "relu", HOSTILE} <= {event["name"] for event in file.json()["traceEvents"]}


def test_two_traces_of_one_file_are_compared_and_a_bar_picks_its_difference(home, client):
    a, b = traced(home, "quick"), traced(home, "slow", SLOW)
    ask = client()
    path = f"{PREFIX}/traces/{a.id}/compared/{b.id}"
    both = ask.get(path).json()
    assert "it takes 1.60 times as long" in both["notes"][0]
    assert both["data"]["matched_by"] == "file"
    assert both["data"]["differences"][0]["difference_seconds"] == pytest.approx(SLOW / 1e9)
    assert both["picked"] is None
    picked = ask.get(f"{path}?band=1&span=1").json()
    assert picked["picked"] == 0
    marked = [row for row in picked["calls"]["layer"][0]["data"]["values"] if row["marked"]]
    assert [(row["band"], row["kind"]) for row in marked] == [(0, "Conv"), (1, "Conv")]
    assert ask.get(f"{path}?picked=9").status_code == 404
