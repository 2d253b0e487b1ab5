"""The page of models, as a person uses it."""

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow


def test_the_page_shows_every_model_and_what_was_measured(visitor):
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    assert page.title() == "Models · zoolens"
    row = page.get_by_role("row").filter(has_text="lenet-int8")
    words = row.inner_text()
    assert "classification" in words
    assert "44.4k" in words  # parameters
    assert "[" in words  # an interval
    assert "fashion-mnist/test[:2000] (first 200)" in words
    assert "litert" in words or "onnxruntime" in words
    assert row.get_by_role("img").get_attribute("aria-label").startswith("2 runs between")
    assert "models." in visitor.text()


def test_a_search_narrows_as_one_types_and_lives_in_the_address(visitor):
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    page.get_by_label("Search models").press_sequentially("wide int8")
    page.wait_for_url("**q=wide+int8*")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "lenet-wide-int8" in visitor.text()
    again = visitor.visit("#/models?q=wide+int8", expect="lenet-wide-int8")
    assert again.get_by_label("Search models").input_value() == "wide int8"
    assert again.locator("tbody tr").count() == 1


def test_a_facet_counts_and_filters(visitor):
    page = visitor.visit("#/models", expect="Measured here")
    group = page.get_by_role("group", name="Measured here")
    assert "Yes\n2" in group.inner_text()
    group.get_by_label("Yes").check()
    expect(page.locator("tbody tr")).to_have_count(2)
    assert "measured=yes" in page.url
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator("tbody tr")).not_to_have_count(2)
    assert "measured" not in page.url
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_columns_are_chosen_and_sorted_by_keyboard_alone(visitor):
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    page.locator("summary", has_text="Columns").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Licence", exact=True).focus()
    page.keyboard.press("Space")
    page.get_by_role("columnheader", name="Licence").wait_for()
    assert "columns=" in page.url
    page.get_by_role("button", name="Parameters").focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]", has_text="Parameters").wait_for()
    assert "sort=-params" in page.url


def test_nothing_that_fits_is_said(visitor):
    visitor.visit("#/models?q=nosuchmodel", expect="No model fits.")
    assert "0 of" in visitor.text()


def test_an_unknown_page_leads_back(visitor):
    page = visitor.visit("#/nowhere", expect="There is no such page.")
    page.get_by_role("link", name="Go to Home").click()
    page.get_by_role("heading", name="Home", exact=True).wait_for()


def test_everybody_can_read_it(look_everywhere):
    look_everywhere("#/models", expect="demo:lenet-torch")


def test_the_api_explains_itself(visitor):
    page = visitor.visit("#/api", expect="/api/v1/models")
    assert page.title() == "API · zoolens"
    assert "Models of all zoos and of the store, by search and facets." in visitor.text()


def test_everybody_can_read_of_the_api(look_everywhere):
    look_everywhere("#/api", expect="/api/v1/models")
