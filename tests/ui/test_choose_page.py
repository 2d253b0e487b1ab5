"""What to choose from, as a person uses it."""

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect
from tests.ui.conftest import Visitor, at_home, serving

import zoolens
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"
ASKED = "CORR lenet-torch WITHIN 95% ON size <= 60%"


def address(query):
    return "#/choose?q=" + query.replace("%", "%25").replace(" ", "+").replace("<=", "%3C%3D")


def answered(home, query):
    with at_home(home):
        return zoolens.query(query)


def test_all_models_are_points_and_rows(visitor):
    page = visitor.visit("#/choose", expect="4 rows, each a model in a runtime")
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator(".chart svg")).to_be_visible()
    expect(page.locator(".chart")).to_contain_text("top-1 accuracy")
    assert "demo:lenet-torch@1.0.0" in visitor.text()


def test_a_query_is_answered_and_lives_in_the_address(visitor, explored_home):
    page = visitor.visit("#/choose", expect="4 rows")
    line = page.get_by_role("combobox", name="Query")
    line.fill(ASKED)
    line.press("Enter")
    best = answered(explored_home, ASKED).best
    expect(page.get_by_text(f"{best.ref.partition('@')[0]} fits best")).to_be_visible()
    page.wait_for_url("**q=CORR*")
    expect(page.locator("tbody tr").filter(has_text="in the answer")).to_contain_text(best.ref)
    expect(page.locator("tbody tr").filter(has_text="in the answer")).to_contain_text(f"{100 * best.equivalence:.4g} %")
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("Rows left after each condition")).to_be_visible()


def test_near_misses_say_why_not(visitor, explored_home):
    query = "CORR lenet-torch WITHIN 99.99% ON size <= 1%"
    page = visitor.visit(address(query), expect="Nothing fits; the nearest misses are shown.")
    misses = answered(explored_home, query).misses
    for miss in misses:
        for why in miss.rejections:
            assert why.sentence in visitor.text()
    page.get_by_role("tab", name="Why").click()
    expect(page.get_by_text("What the nearest misses lack")).to_be_visible()


def test_errors_are_shown_at_the_token(visitor):
    page = visitor.visit(address("CORR lenet-torch ON sise <= 60%"), expect="Did you mean")
    assert page.locator(".query-problem mark").inner_text() == "sise"
    expect(page.locator("tbody tr")).to_have_count(4)  # all rows, as without a query


def test_what_may_stand_there_is_offered_and_taken_by_the_keyboard(visitor):
    page = visitor.visit("#/choose", expect="4 rows")
    line = page.get_by_role("combobox", name="Query")
    line.focus()
    line.press_sequentially("CORR lenet-t")
    expect(page.get_by_role("option", name="demo:lenet-torch")).to_be_visible()
    line.press("ArrowDown")
    line.press("Enter")
    expect(line).to_have_value("CORR demo:lenet-torch ")
    expect(page.get_by_role("option", name="WITHIN")).to_be_visible()
    line.press("Escape")
    expect(page.locator("#offers [role=option]")).to_have_count(0)


def test_a_rectangle_in_the_chart_filters_the_models(visitor):
    page = visitor.visit("#/choose", expect="4 rows.")
    box = page.locator(".chart svg .background").first.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 12, steps=4)  # a strip above all points
    page.mouse.up()
    expect(page.get_by_text("No model is in the rectangle.")).to_be_visible()
    assert "y_low" in page.url
    page.get_by_role("button", name="Take all again").click()
    expect(page.locator("tbody tr")).to_have_count(4)


def test_everybody_can_read_it(look_everywhere):
    look_everywhere(address(ASKED), expect="fits best")


def test_other_figures_across_and_upwards(visitor):
    page = visitor.visit("#/choose?x=size&y=latency&size=none", expect="4 rows")
    expect(page.locator(".chart")).to_contain_text("file size")
    assert page.get_by_label("Size of points").input_value() == "none"


@pytest.fixture
def strange(tmp_path, chromium):
    """A window over a store with a hostile name, and one without runs."""
    from zoolens.faces.ui.settings import Settings

    with at_home(tmp_path), open_store():
        pass
    with at_home(tmp_path), serving(Settings()) as url:
        window = Visitor(chromium, url)
        yield window
        window.check()
        window.close()


def test_an_empty_store_says_what_to_do_and_hostile_names_are_text(strange, tmp_path):
    page = strange.visit("#/choose", expect="Nothing was measured yet.")
    with at_home(tmp_path), open_store() as store:
        model = ModelRecord("m", f"zoo:{HOSTILE}@1", "fake", {})
        run = store.begin_run(model, DatasetRecord("d", f"data {HOSTILE}", 10), StackRecord("s", "fake", {}, {}))
        store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.5, unit="fraction", low=0.4, high=0.6)])
        timing = Observation("latency_p50", 0.01, scope="batch=1", unit="s")
        store.finish_stage(run.id, "latency:batch=1", [timing])
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    strange.visit(f"#/choose?q={HOSTILE}", expect="1 row, each")
    assert HOSTILE in strange.text()
    assert not dialogs
    assert page.locator("main img").count() == 0
