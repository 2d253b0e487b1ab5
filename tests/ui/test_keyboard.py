"""What each page is for, done with the keyboard alone: nobody clicks here.

`Keys.to` goes to something as a person does, with the Tab key; on the way, every place that has the focus must be seen.
The usual suite goes through each kind of thing once (links, searches, facets, tables, tabs, forms, the query line), the
slow one also through pages that are made of the same.
"""

import re

import pytest

pytest.importorskip("playwright")
from browsing import Visitor
from made_home import PLAIN
from playwright.sync_api import expect

FARTHEST = 120  # presses of Tab
MODEL = "demo:lenet-torch@1.0.0"
FOCUS = """() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  return {
    outside: element === document.body,
    whole: element.id === "main" || element.className === "picked-trial",
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    seen: element.checkVisibility() && box.width > 0 && box.bottom > 0 && box.top < innerHeight,
    tag: element.outerHTML.slice(0, 120),
    name: (element.getAttribute("aria-label") || element.textContent || element.tagName).slice(0, 80),
  };
}"""


class Keys:
    """A window that is used without a mouse."""

    def __init__(self, visitor):
        self.visitor, self.page = visitor, visitor.page

    def open(self, view, expected):
        self.visitor.visit(view, expect=expected)
        return self

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text):
        self.page.keyboard.type(text)

    def to(self, target, key="Tab"):
        """Press Tab until `target` has the focus."""
        target.first.wait_for()
        for _ in range(FARTHEST):
            self.press(key)
            self.assert_focus_is_seen()
            if target.first.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"{target} is not reached by {key}")

    def assert_focus_is_seen(self):
        """What was painted counts: something that arrives this very moment may still push it out of the window."""
        focus = self.page.evaluate(FOCUS)
        if not is_seen(focus):
            self.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
            focus = self.page.evaluate(FOCUS)
        assert is_seen(focus), focus


def is_seen(focus):
    return focus["outside"] or focus["whole"] or (focus["ring"] and focus["seen"])


@pytest.fixture
def keys(visitor):
    return Keys(visitor)


@pytest.fixture
def whole_keys(chromium, whole):
    window = Visitor(chromium, whole[0])
    yield Keys(window)
    window.check()
    window.close()


@pytest.mark.slow
def test_the_navigation_can_be_skipped(keys):
    page = keys.open("#/models", "demo:lenet-torch").page
    keys.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    keys.press("Enter")
    expect(page.locator("main")).to_be_focused()
    keys.press("Tab")
    expect(page.get_by_label("Search models")).to_be_focused()
    keys.to(page.get_by_role("link", name="zoolens"), "Shift+Tab")
    keys.to(page.get_by_role("link", name="Runs", exact=True))
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    expect(page.locator("main")).to_be_focused()  # who reads by ear hears the new page


def test_models_are_searched_chosen_and_opened(keys):
    page = keys.open("#/models", "demo:lenet-torch").page
    keys.to(page.get_by_label("Search models"))
    keys.type("lenet")
    page.wait_for_url("**q=lenet*")
    keys.to(page.locator("summary", has_text="Columns"))
    keys.press("Enter")
    keys.to(page.get_by_label("Licence", exact=True))
    keys.press("Space")
    expect(page.get_by_role("columnheader", name="Licence")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_label("Licence", exact=True)).to_be_hidden()
    expect(page.locator("summary", has_text="Columns")).to_be_focused()
    keys.to(page.get_by_role("group", name="Measured here").get_by_label("Yes"))
    keys.press("Space")
    expect(page.locator("tbody tr")).to_have_count(2)
    keys.to(page.get_by_role("button", name="Parameters"))
    keys.press("Enter")
    expect(page.locator("th[aria-sort=descending]", has_text="Parameters")).to_be_visible()
    keys.to(page.get_by_role("link", name="demo:lenet-torch"))
    keys.press("Enter")
    expect(page.get_by_role("heading", name="demo:lenet-torch")).to_be_visible()


@pytest.mark.slow
def test_tabs_of_a_model_are_gone_through_by_arrows(keys):
    page = keys.open(f"#/model/{MODEL}", "counted from the network").page
    first = page.get_by_role("tab", selected=True)
    keys.to(first)
    keys.press("ArrowRight")
    second = page.get_by_role("tab", selected=True)
    expect(second).to_be_focused()
    assert "tab=" in page.url
    keys.press("ArrowLeft", "End")
    expect(page.get_by_role("tab").last).to_be_focused()
    expect(page.get_by_role("tab").last).to_have_attribute("aria-selected", "true")
    keys.press("Home")
    expect(page.get_by_role("tab").first).to_be_focused()
    keys.to(page.get_by_role("link", name="Replace this model"), "Shift+Tab")
    keys.press("Enter")
    expect(page.get_by_role("combobox", name="Query")).to_have_value(re.compile("CORR demo:lenet-torch WITHIN"))


def test_a_query_is_completed_asked_and_its_reasons_are_read(keys):
    page = keys.open("#/choose", "4 rows").page
    line = page.get_by_role("combobox", name="Query")
    keys.to(line)
    keys.type("CORR lenet-t")
    expect(page.get_by_role("option", name="demo:lenet-torch")).to_be_visible()
    keys.press("ArrowDown", "Enter")
    expect(line).to_have_value("CORR demo:lenet-torch ")
    expect(page.get_by_role("option", name="WITHIN")).to_be_visible()
    keys.press("Escape")
    keys.type("WITHIN 50%")
    keys.press("Escape", "Enter")
    expect(page.locator(".verdict")).to_be_visible()
    keys.to(page.get_by_label("Across"))
    keys.press("f", "i")
    page.wait_for_url("**x=size*")
    keys.to(page.get_by_role("tab", selected=True))
    keys.press("ArrowRight")
    expect(page.get_by_text("Rows left after each condition")).to_be_visible()
    keys.to(page.locator("summary", has_text="EXPLAIN"))
    keys.press("Enter")
    expect(page.locator("pre.explanation")).to_be_visible()


@pytest.mark.slow
def test_runs_are_sorted_and_two_of_them_compared(keys):
    page = keys.open("#/runs", "4 evaluations.").page
    keys.to(page.get_by_role("group", name="Runtime").get_by_label("litert"))
    keys.press("Space")
    expect(page.get_by_text("2 evaluations.")).to_be_visible()
    keys.open("#/compare", "Choose a run")
    keys.to(page.get_by_role("region", name="Run A").get_by_role("link").first)
    keys.press("Enter")
    keys.to(page.get_by_role("region", name="Run B").get_by_role("link").first)
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Environment difference")).to_be_visible()
    keys.to(page.get_by_role("button", name="Answers", exact=True))
    keys.press("Enter")
    keys.to(page.get_by_label("Show"))
    keys.press("a", "l", "l")
    page.wait_for_url("**shown=all*")


def test_anything_is_found_from_anywhere_by_one_key(keys):
    page = keys.open("#/api", "/api/v1/models").page
    keys.press("/")
    expect(page.get_by_role("combobox", name="Search over everything")).to_be_focused()
    keys.type("lenet-torch onnx")
    expect(page.get_by_role("option", name="demo:lenet-torch in onnxruntime")).to_be_visible()
    while "demo:lenet-torch in onnxruntime" not in page.get_by_role("option", selected=True).inner_text():
        keys.press("ArrowDown")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="demo:lenet-torch")).to_be_visible()
    expect(page.locator("main")).to_be_focused()
    keys.press("Control+k", "Escape")
    expect(page.get_by_role("combobox", name="Search over everything")).to_have_count(0)


@pytest.mark.slow
def test_a_dataset_is_chosen_at_the_head(whole_keys):
    page = whole_keys.open("#/home", "What changed").page
    choice = page.get_by_role("combobox", name="Dataset for all pages")
    whole_keys.to(choice)
    whole_keys.press("ArrowDown", "ArrowDown")
    page.wait_for_url("**data=*")
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Home")
    expect(choice).to_be_focused()


@pytest.mark.slow
def test_a_note_of_a_report_is_written(whole_keys, whole):
    page = whole_keys.open(f"#/reports/{whole[1]['report']}", "As it was").page
    whole_keys.to(page.get_by_role("button", name="Edit"))
    whole_keys.press("Enter")
    whole_keys.to(page.get_by_label("A note in Markdown"))
    whole_keys.type("**by hand**")
    whole_keys.to(page.get_by_role("button", name="Add the note"))
    whole_keys.press("Enter")
    expect(page.locator(".piece strong").last).to_have_text("by hand")


@pytest.mark.slow
def test_an_image_is_given_to_models(keys):
    page = keys.open("#/live?with=demo:nosuch", "Waits for an image.").page
    keys.to(page.get_by_label("Model, or model in runtime"))
    keys.type("demo:nothing")
    keys.press("Enter")
    expect(page.get_by_role("article", name="demo:nothing")).to_be_visible()
    keys.to(page.get_by_role("button", name="Remove demo:nothing"))
    keys.press("Enter")
    expect(page.get_by_role("article")).to_have_count(1)
    keys.to(page.get_by_role("button", name="Example 2"))
    keys.press("Enter")
    expect(page.get_by_role("article")).to_contain_text("There is no model named", timeout=60_000)
    expect(page.get_by_alt_text("The image that the models are given")).to_be_visible()
    keys.visitor.problems = [one for one in keys.visitor.problems if "40" not in one]  # the browser tells of it, too


@pytest.mark.slow
def test_findings_of_an_audit_are_narrowed(whole_keys, whole):
    page = whole_keys.open(f"#/audit/{whole[1]['audit']}", "findings, the gravest first").page
    whole_keys.to(page.get_by_label("Search findings"))
    whole_keys.type("44")
    expect(page.get_by_role("article")).to_have_count(1)
    whole_keys.to(page.get_by_role("group", name="Severity").get_by_role("checkbox"))
    whole_keys.press("Space")
    page.wait_for_url("**severity=*")
    expect(page.get_by_role("article")).to_contain_text("sentence 44")


@pytest.mark.slow
def test_spans_of_a_trace_are_gone_through(whole_keys, whole):
    page = whole_keys.open("#/traces", "2 traces.").page
    whole_keys.to(page.get_by_role("group", name="Traces").get_by_role("link").first)
    whole_keys.press("Enter")
    whole_keys.to(page.get_by_role("button", name="Go through the spans"))
    whole_keys.press("Enter")
    about = page.get_by_label("The span that was picked")
    expect(about).to_be_visible()
    whole_keys.to(page.get_by_role("button", name="Span after"))
    whole_keys.press("Enter")
    page.wait_for_url("**span=1*")
    expect(page.get_by_role("button", name="Span after")).to_be_focused()
    whole_keys.to(page.get_by_role("button", name="Zoom in"), "Shift+Tab")
    whole_keys.press("Enter")
    page.wait_for_url("**from=*")
    whole_keys.to(page.get_by_role("tab", selected=True), "Shift+Tab")
    whole_keys.press("ArrowRight", "ArrowRight")
    expect(page.get_by_role("tab", name="Layers")).to_be_focused()


@pytest.mark.slow
def test_a_trial_of_a_study_is_picked_and_left(whole_keys, whole):
    page = whole_keys.open(f"#/studies/{whole[1]['study']}?tab=trials", "Hyperparameters").page
    trial = page.get_by_role("group", name="Trials").get_by_role("button", name=re.compile("^t")).first
    whole_keys.to(trial)
    whole_keys.press("Enter")
    picked = page.get_by_label("The trial that was picked")
    expect(picked).to_be_focused()
    whole_keys.to(picked.get_by_role("button", name="Close"))
    whole_keys.press("Enter")
    expect(picked).to_be_hidden()
    expect(trial).to_be_focused()


@pytest.mark.slow
def test_a_session_of_a_service_is_opened(whole_keys):
    page = whole_keys.open("#/services", PLAIN.one).page
    whole_keys.to(page.get_by_role("group", name="Sessions of services").get_by_role("link").first)
    whole_keys.press("Enter")
    expect(page.get_by_role("heading", name="Events")).to_be_visible()


@pytest.mark.slow
def test_a_job_is_asked_for(whole_keys):
    page = whole_keys.open("#/jobs", "A job does what the command below it does").page
    whole_keys.to(page.get_by_role("textbox", name="Models"))
    whole_keys.type("/etc/passwd")
    whole_keys.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("A job may not read the model")
    whole_keys.visitor.problems = [one for one in whole_keys.visitor.problems if "403" not in one]
