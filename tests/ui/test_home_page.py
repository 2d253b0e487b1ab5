"""The first page, the choice of a dataset that every page follows, and the search over everything."""

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

DATASET = "A plain sentence, not short"


@pytest.fixture
def window(chromium, whole):
    made = Visitor(chromium, whole[0])
    yield made
    made.check()
    made.close()


def test_the_first_page_says_what_is_good_and_what_comes_next(visitor):
    page = visitor.visit("", expect="What changed")
    best = page.get_by_role("article", name="Best on")
    expect(best).to_have_count(1)
    expect(best.get_by_role("row")).to_have_count(3)  # two models below their heads
    expect(best).to_contain_text("200 inputs, 2 models")
    page.get_by_role("region", name="What to do next").get_by_role("link", name="Compare the two best").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("demo:lenet")
    page.go_back()
    page.get_by_role("region", name="Newest runs").get_by_role("link", name="demo:lenet").first.click()
    page.wait_for_url("**#/run/**")


def test_an_empty_store_offers_three_ways_to_begin(chromium, tmp_path, monkeypatch):
    from zoolens.faces.ui.settings import Settings

    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    with at_home(tmp_path / "home"), serving(Settings(allowed=(tmp_path,))) as url:
        window = Visitor(chromium, url)
        page = window.visit("", expect="Three ways to begin")
        page.get_by_role("textbox", name="The folder").fill(str(tmp_path))
        page.keyboard.press("Enter")
        expect(page.get_by_text("There is no model in it that can be run as it is.")).to_be_visible()
        page.go_back()
        picture = {"name": "x.png", "mimeType": "image/png", "buffer": b"no picture"}
        page.get_by_label("Picture", exact=True).set_input_files(picture)
        page.wait_for_url("**#/live*")
        expect(page.get_by_text("x.png")).to_be_visible()
        window.visit("#/home", expect="Three ways to begin")
        page.route("**/api/v1/jobs/demo", lambda route: route.fulfill(status=429, json={"error": "Too many jobs."}))
        page.get_by_role("button", name="Run the demo").click()
        expect(page.get_by_role("alert")).to_have_text("Too many jobs.")
        window.problems = [one for one in window.problems if "429" not in one]
        window.check()
        window.close()


def test_a_dataset_is_chosen_once_and_every_page_follows(window, whole):
    page = window.visit("#/runs", expect="15 evaluations.")
    choice = page.get_by_role("combobox", name="Dataset for all pages")
    choice.select_option(label="kinds A plain sentence, not short")
    expect(page.get_by_text("4 evaluations.")).to_be_visible()
    expect(page.get_by_role("group", name="Data")).to_have_count(0)  # the head of the page has it
    page.get_by_role("link", name="Models", exact=True).click()
    expect(choice).to_have_value('["","kinds A plain sentence, not short"]')
    page.get_by_role("link", name="Compare", exact=True).first.click()
    expect(page.get_by_text("Nothing on kinds A plain sentence, not short can be chosen from")).to_be_visible()
    page.get_by_role("link", name="Compare", exact=True).last.click()
    expect(page.get_by_role("region", name="Run A").first.get_by_role("link")).to_have_count(4)
    page.get_by_role("link", name="zoolens: home").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("kinds A plain sentence, not short")
    choice.select_option(label="All datasets")
    expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("kinds A plain sentence, not short")


@pytest.mark.slow
def test_an_alarm_that_was_seen_is_hidden_until_it_is_about_something_else(window):
    page = window.visit("#/home", expect="What needs a look")
    alarms = page.locator(".alarm")
    expect(alarms.first).to_be_visible()
    count = alarms.count()
    seen = alarms.first.get_by_role("link").inner_text()
    page.get_by_role("button", name=f"Hide: {seen}").click()
    expect(alarms).to_have_count(count - 1)
    page = window.visit("#/home", expect="1 hidden in this browser until something about it changes.")
    expect(alarms).to_have_count(count - 1)
    page.get_by_role("button", name="Show again").click()
    expect(alarms).to_have_count(count)
    expect(page.get_by_text("hidden in this browser")).to_have_count(0)


def test_one_key_searches_everything(visitor):
    page = visitor.visit("#/models", expect="demo:lenet-torch")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search over everything")
    expect(box).to_be_focused()
    box.fill("lenet-int8")
    expect(page.get_by_role("option", name="demo:lenet-int8").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    page.get_by_label("Search models").focus()
    page.keyboard.press("/")  # where one writes it is a letter
    expect(page.get_by_label("Search models")).to_have_value("/")
    page.keyboard.press("Control+k")
    box.fill("traces")
    page.keyboard.press("Enter")
    page.wait_for_url("**#/traces*")
    expect(page.get_by_role("heading", name="Traces")).to_be_visible()
    page.get_by_role("button", name="Search").click()
    box.fill("equiv")
    expect(page.get_by_role("option", name="zoolens equiv")).to_be_visible()


def test_a_phone_has_one_line_at_the_head(chromium, explorer):
    window = Visitor(chromium, explorer, viewport={"width": 400, "height": 800})
    page = window.visit("#/home", expect="What changed")
    assert page.locator("header.top").bounding_box()["height"] < 50
    menu = page.get_by_role("button", name="Menu")
    menu.click()
    page.get_by_role("navigation", name="Menu").get_by_role("link", name="Services").click()
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(menu).to_have_attribute("aria-expanded", "false")
    menu.click()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    window.check()
    window.close()
