"""The list of runs, as a person uses it."""

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect
from tests.ui.conftest import Visitor, at_home, serving

from zoolens.base.present.figures import with_interval
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store

HOSTILE = "<img src=x onerror=alert(1)>"


def stored_runs(home):
    with at_home(home), open_store() as store:
        return {run.id: (run, store.observations(run.id, metric="top1")[0]) for run in store.runs()}


def test_every_run_is_there_with_what_was_measured(visitor, explored_home):
    page = visitor.visit("#/runs", expect="4 evaluations.")
    assert page.title() == "Runs · zoolens"
    known = stored_runs(explored_home)
    rows = page.locator("tbody tr")
    assert rows.count() == len(known)
    for run, top1 in known.values():
        words = rows.filter(has_text=run.id[:8]).inner_text()
        value, _, interval = with_interval(top1).partition(" [")
        assert value in words
        assert interval in words
        assert run.ref in words
        assert run.dataset.name in words
        assert f"{run.stack.runtime} {run.stack.version}" in words


def test_filters_and_sorting_live_in_the_address(visitor, explored_home):
    page = visitor.visit("#/runs", expect="4 evaluations.")
    page.get_by_role("group", name="Runtime").get_by_label("litert").check()
    expect(page.get_by_text("2 evaluations.")).to_be_visible()
    page.get_by_label("Search runs").press_sequentially("int8")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**runtime=litert*q=int8*")
    again = visitor.visit("#/runs?runtime=litert&q=int8", expect="1 evaluation.")
    assert again.get_by_label("litert").is_checked()
    again.get_by_role("button", name="Clear filters").click()
    expect(again.locator("tbody tr")).to_have_count(4)
    again.get_by_role("button", name="Top-1").click()
    again.locator("th[aria-sort=descending]", has_text="Top-1").wait_for()
    best = max(top1.value for _, top1 in stored_runs(explored_home).values())
    expect(again.locator("tbody tr").first).to_contain_text(f"{100 * best:.1f} %")


def test_a_figure_without_a_column_gets_one_when_it_is_sorted_by(visitor, explored_home):
    page = visitor.visit("#/runs", expect="4 evaluations.")
    page.get_by_label("Sort by").select_option("ece")
    page.locator("th[aria-sort=ascending]", has_text="ece").wait_for()
    with at_home(explored_home), open_store() as store:
        values = sorted(store.observations(run.id, metric="ece")[0].value for run in store.runs())
    expect(page.locator("tbody tr").first).to_contain_text(f"{100 * values[0]:.1f} %")


def test_days_without_a_run_are_empty(visitor):
    page = visitor.visit("#/runs?until=2001-01-01", expect="No run fits.")
    assert page.get_by_label("to", exact=True).input_value() == "2001-01-01"
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("tbody tr")).to_have_count(4)


def test_everybody_can_read_it(look_everywhere):
    look_everywhere("#/runs", expect="4 evaluations.")


@pytest.fixture
def strange(tmp_path, chromium):
    """A window over a store with an unfinished, a failed and a hostile run."""
    from zoolens.faces.ui.settings import Settings

    with at_home(tmp_path), open_store() as store:
        stack = StackRecord("s", "fake", {"version": HOSTILE}, {})
        for number, name in enumerate(("begun", "failed", HOSTILE)):
            model = ModelRecord(f"m{number}", f"zoo:{name}@1", "fake", {})
            run = store.begin_run(model, DatasetRecord("d", f"data \u202e{HOSTILE}", 10), stack)
            if number:
                store.finish_stage(run.id, "metric:topk", [Observation("top1", number / 10, unit="fraction")])
            if name == "failed":
                store.fail_stage(run.id, "latency:batch=1", f"{HOSTILE} ended")
    with at_home(tmp_path), serving(Settings()) as url:
        window = Visitor(chromium, url)
        yield window
        window.check()
        window.close()


def test_failures_are_said_and_hostile_names_are_text(strange):
    dialogs = []
    strange.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page = strange.visit("#/runs", expect="3 evaluations.")
    rows = page.locator("tbody tr")
    assert "nothing finished yet" in rows.filter(has_text="zoo:begun@1").inner_text()
    assert f"latency:batch=1 failed: {HOSTILE} ended" in rows.filter(has_text="zoo:failed@1").inner_text()
    assert f"zoo:{HOSTILE}@1" in strange.text()
    assert "\u202e" not in strange.text()
    page.get_by_role("group", name="State").get_by_label("A stage failed").check()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Clear filters").click()
    expect(rows).to_have_count(3)
    page.get_by_label("Search runs").fill(HOSTILE)
    expect(rows).to_have_count(3)  # its words are in the name of the data
    assert not dialogs
    assert page.locator("main img").count() == 0
