"""An address shows what it says: nothing of another one stays, also when the server fails or a list is short."""

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

MODEL = "demo:lenet-torch@1.0.0"


def test_what_cannot_be_had_does_not_show_the_one_before(visitor):
    page = visitor.visit(f"#/model/{MODEL}", expect="Replace this model")
    assert page.title() == "demo:lenet-torch · zoolens"
    page.evaluate("location.hash = '#/model/demo:nosuch'")
    expect(page.get_by_role("alert")).to_contain_text("There is no model named 'demo:nosuch'")
    expect(page.get_by_text("Replace this model")).to_have_count(0)
    page.go_back()
    expect(page.get_by_text("Replace this model")).to_be_visible()
    expect(page).to_have_title("demo:lenet-torch · zoolens")
    visitor.problems.clear()  # the browser tells of the error


def test_a_filter_that_fails_leaves_no_rows_of_another(visitor):
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    page.route("**/api/v1/models?**", lambda route: route.abort())
    page.get_by_role("group", name="Measured here").get_by_label("Yes").click()
    expect(page.get_by_role("alert")).to_contain_text("The server of the explorer does not answer.")
    expect(page.locator("tbody tr")).to_have_count(0)
    page.unroute("**/api/v1/models?**")
    expect(page.locator("tbody tr")).to_have_count(2)  # the page asks anew by itself
    visitor.problems.clear()


@pytest.mark.parametrize("view", ["#/models?offset=900", "#/runs?offset=900", "#/choose?offset=900"])
def test_behind_the_end_of_a_list_is_not_an_empty_list(visitor, view):
    page = visitor.visit(view, expect="The list ends before that")
    page.get_by_role("button", name="Show its beginning").click()
    expect(page.locator("tbody tr").first).to_be_visible()
    assert "offset" not in page.url


def test_a_new_page_is_read_from_its_beginning(visitor):
    page = visitor.visit("#/api", expect="/api/v1/models")
    page.evaluate("window.scrollTo(0, 2000)")
    page.evaluate("location.hash = '#/runs'")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert page.evaluate("window.scrollY") == 0
    expect(page.locator("main")).to_be_focused()
