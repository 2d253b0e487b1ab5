"""Traces as a person looks at them: the list, one trace, and two of them side by side."""

import json

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.engine.machine import available_cores
from zoolens.base.present.figures import figure
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, RunKind, StackRecord
from zoolens.base.store.store import open_store
from zoolens.findings.tracing.comparison import compare_traces
from zoolens.findings.tracing.comparison import sentences as comparison_sentences
from zoolens.findings.tracing.report import merged_layers, sentences, timing_words
from zoolens.findings.tracing.roofline import peaks
from zoolens.findings.tracing.stored import load_trace

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A home with traces of one model in two runtimes that read different files of it; gives home, address, traces."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    import zoolens
    from zoolens.faces.ui.settings import Settings

    home = tmp_path_factory.mktemp("traced")
    with at_home(home), open_store() as store:
        runtimes = ["onnxruntime", "litert"]
        traces = zoolens.trace(
            "demo:lenet-wide", runtimes=runtimes, batch=4, repeats=10, seconds=1, trust=True, store=store
        )
        model, stack = ModelRecord("m", f"zoo:{HOSTILE}@1", "fake", {}), StackRecord("s", "trace:fake", {}, {})
        begun = store.begin_run(model, DatasetRecord("d", "made up", 1), stack, kind=RunKind.TRACE)
        store.fail_stage(begun.id, "trace:layer", f"{HOSTILE} cannot be profiled.")
    with at_home(home), serving(Settings()) as url:
        yield home, url, {trace.runtime: trace for trace in traces}


@pytest.fixture
def reader(chromium, traced):
    window = Visitor(chromium, traced[1])
    yield window
    window.check()
    window.close()


def test_all_traces_are_listed_and_what_failed_is_said(reader, traced):
    page = reader.visit("#/traces", expect="3 traces.")
    rows = page.locator("tbody tr")
    for trace in traced[2].values():
        words = rows.filter(has_text=trace.run.id[:8]).inner_text()
        assert timing_words(trace.model).partition(" [")[0] in words
        assert trace.stack in words
    assert f"No level layer: {HOSTILE} cannot be profiled." in rows.filter(has_text="zoo:").inner_text()
    page.get_by_role("group", name="Runtime").get_by_label("litert").check()
    expect(page.get_by_text("1 trace.")).to_be_visible()
    page.wait_for_url("**runtime=litert*")


def test_a_trace_shows_its_spans_one_by_one(reader, traced):
    trace = traced[2]["onnxruntime"]
    page = reader.visit(f"#/traces/{trace.run.id}", expect="Timeline")
    for sentence in sentences(trace):
        assert sentence in reader.text()
    chart = page.get_by_role("figure", name="Timeline of one call")
    longest = max(merged_layers(trace), key=lambda layer: layer.timing.median)
    expect(chart).to_contain_text(longest.name)
    page.get_by_role("button", name="Go through the spans").click()
    expect(page.get_by_role("heading", name="predict")).to_be_visible()
    page.get_by_role("button", name="Span after").click()
    about = page.get_by_label("The span that was picked")
    expect(about.get_by_role("heading", name="run")).to_be_visible()  # by the framework's own clock
    page.get_by_role("button", name="Span after").click()
    first = min(trace.layers, key=lambda layer: layer.started)
    expect(about.get_by_role("heading", name=first.name)).to_be_visible()
    page.get_by_role("button", name="Zoom to it").click()
    page.wait_for_url("**from=*")
    expect(page.get_by_role("button", name="Whole call")).to_be_enabled()
    named = chart.locator("text.span-name", has_text=longest.name)
    named.wait_for(state="detached")  # it is outside of what is shown
    page.get_by_role("button", name="Whole call").click()
    named.wait_for()
    chart.locator("[data-span='0'] rect").click(position={"x": 300, "y": 8})
    expect(about.get_by_role("heading", name="predict")).to_be_visible()


def test_a_timeline_is_zoomed_by_wheel_drag_and_keys(reader, traced):
    page = reader.visit(f"#/traces/{traced[2]['onnxruntime'].run.id}", expect="Timeline")
    frame = page.get_by_role("application")
    width = "() => +document.querySelector('[data-span=\"0\"] rect').getAttribute('width')"
    frame.focus()
    page.keyboard.press("w")
    page.wait_for_url("**to=*")
    whole = page.evaluate("() => location.hash")
    frame.hover(position={"x": 100, "y": 40})
    page.mouse.wheel(0, -400)
    page.wait_for_url(lambda url: not url.endswith(whole))
    near = page.evaluate("() => location.hash")
    box = frame.bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_url(lambda url: not url.endswith(near))
    assert page.get_by_label("The span that was picked").count() == 0  # the end of a drag is no click
    assert page.evaluate(width) == page.evaluate("() => document.querySelector('.spans svg').clientWidth")
    frame.focus()
    page.keyboard.press("0")
    page.wait_for_url(lambda url: "from=" not in url and "to=" not in url)


def test_layers_and_levels_are_those_of_the_report(reader, traced):
    trace = traced[2]["litert"]
    page = reader.visit(f"#/traces/{trace.run.id}?tab=layers", expect="hottest first")
    hottest = max(merged_layers(trace), key=lambda layer: layer.timing.median)
    row = page.locator("tbody tr").first
    expect(row).to_contain_text(hottest.name)
    assert figure(hottest.timing.median, "s") in row.inner_text()
    page.get_by_role("tab", name="Levels").click()
    expect(page.get_by_role("group", name="Levels")).to_contain_text(timing_words(trace.model))


@pytest.mark.slow
def test_two_traces_are_aligned(reader, traced):
    home, _, traces = traced
    a, b = traces["onnxruntime"], traces["litert"]
    page = reader.visit(f"#/traces/{a.run.id}?tab=compare", expect="Compare with")
    page.get_by_label("Compare with").select_option(b.run.id)
    with at_home(home), open_store() as store:
        comparison = compare_traces(load_trace(a.run, store=store), load_trace(b.run, store=store))
    expect(page.get_by_text(next(iter(comparison_sentences(comparison))))).to_be_visible(timeout=60_000)
    table = page.get_by_role("group", name="All differences")
    expect(table.locator("tbody tr")).to_have_count(len(comparison.differences) + 1)  # and what is in no layer
    table.get_by_role("button").nth(1).click()
    expect(page.get_by_text(f"Where both sides compute {comparison.differences[1].name}")).to_be_visible()
    page.wait_for_url("**difference=1*")


def test_a_roofline_needs_peaks_and_says_so(reader, traced):
    page = reader.visit(f"#/traces/{traced[2]['litert'].run.id}?tab=roofline", expect="was not measured yet")
    expect(page.get_by_role("button", name="Measure the peaks")).to_be_visible()


@pytest.mark.slow
def test_a_roofline_holds_layers_against_stored_peaks(reader, traced):
    home, _, traces = traced
    subject = peaks._processor(available_cores())
    stack = StackRecord(peaks._fingerprint(subject), "machine:peaks", subject.identity, subject.identity)
    with at_home(home), open_store() as store:
        machine = ModelRecord("machine", "machine:made up", "machine", {})
        run = store.begin_run(machine, DatasetRecord("p", "peaks", 0), stack, kind=RunKind.MACHINE)
        found = [Observation(peaks.FLOPS, 5e10, scope="float32", unit="FLOP/s")]
        found += [Observation(peaks.BANDWIDTH, 2e10, scope=f"bytes={1 << size}", unit="B/s") for size in (20, 30)]
        store.finish_stage(run.id, peaks.STAGE, found)
    view = f"#/traces/{traces['litert'].run.id}?tab=roofline"
    reader.visit(view, expect="of what is possible")


def test_the_download_opens_in_perfetto(reader, traced):
    trace = traced[2]["onnxruntime"]
    page = reader.visit(f"#/traces/{trace.run.id}", expect="Download for Perfetto")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download for Perfetto").click()
    events = json.loads(download.value.path().read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {layer.name for layer in trace.layers} <= names


def test_everybody_can_read_it(look_everywhere, traced):
    _, url, traces = traced
    a, b = (traces[name].run.id for name in ("onnxruntime", "litert"))
    look_everywhere("#/traces", expect="3 traces.", url=url)
    look_everywhere(f"#/traces/{a}?span=1", expect="Zoom to it", url=url)
    look_everywhere(f"#/traces/{a}?tab=compare&with={b}&difference=0", expect="All differences", url=url)


def test_no_traces_yet(visitor):
    page = visitor.visit("#/traces", expect="No traces yet.")
    expect(page.get_by_text("zoolens trace MODEL")).to_be_visible()
