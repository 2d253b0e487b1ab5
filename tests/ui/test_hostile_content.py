"""A store, a zoo and jobs whose every text is an attack, on every page: it is shown as text, and nothing runs."""

from itertools import count

import pytest

pytest.importorskip("playwright")

from browsing import Visitor
from made_home import VIEWS, Words, explored
from playwright.sync_api import expect

SCRIPT = "document.documentElement.setAttribute('hostile','ran')"
MARKUP = (
    f"<script>{SCRIPT}</script>", f'"><img src=nowhere onerror="{SCRIPT}">', f"'><svg onload=\"{SCRIPT}\">",
    f"javascript:{SCRIPT}//", f'<iframe srcdoc="<script>parent.{SCRIPT}</script>">',
    "{{constructor.constructor('x')()}}",
    "</title></style></textarea><h1>forged</h1>",
)  # fmt: skip
BIDI = "gnp.\u202etxet\u2066evil\u2069\u200f"
ENDLESS = "9" * 10_000_000
HOSTILE = Words(" ".join((*MARKUP, BIDI)), (*MARKUP, BIDI, ENDLESS), "forged")

# Attacks in the address itself.
ADDRESSES = {
    "#/choose?q=CORR+%3Cscript%3Ealert(1)%3C/script%3E": "forged",
    "#/runs?sort=-%3Cscript%3Ealert(1)%3C/script%3E": None,
    "#/live?with=%3Cscript%3Ealert(1)%3C/script%3E&with=javascript:alert(1)": "javascript:alert(1)",
    "#/models?zoo=%3Cscript%3Ealert(1)%3C/script%3E": "No model fits.",
    "#/models?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E": None,
    "#/compare?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E": None,
    "#/%3Cscript%3Ealert(1)%3C/script%3E": None,
    "#/model/%3Cimg%20src%3Dnowhere%20onerror%3Dalert(1)%3E": None,
    "#/traces/%3Cimg%20src%3Dnowhere%20onerror%3Dalert(1)%3E": None,
    "#/studies/%3Cimg%20src%3Dnowhere%20onerror%3Dalert(1)%3E": None,
    "#/services/%3Cimg%20src%3Dnowhere%20onerror%3Dalert(1)%3E": None,
}
NUMBERS = count()
MARKUP_OF_OTHERS = (
    "main img:not(.examples img, .drop img), main iframe, main script, main object, main embed, "
    "main svg:not(.sparkline, .marks, .small-history, .difference-line, .swatch, .minimap, .spans svg, .network svg)"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The address of an explorer over a hostile home, and the names that its views need."""
    with explored(tmp_path_factory.mktemp("hostile"), HOSTILE) as made:
        yield made


@pytest.fixture(scope="module")
def window(chromium, hostile):
    """One window for all views. What happens in it is written down: dialogs, and what was asked for."""
    made = Visitor(chromium, hostile[0])
    made.dialogs, made.asked = [], []
    made.page.on("dialog", lambda dialog: (made.dialogs.append(dialog.message), dialog.dismiss()))
    made.page.on("request", lambda request: made.asked.append(request.url))
    yield made
    made.close()


def open_view(window, view, text):
    page = window.page
    page.goto(f"{window.url}?{next(NUMBERS)}{view}")  # another query: the whole page is loaded again
    page.locator("main h1, main .state").first.wait_for()
    if text is not None:
        page.get_by_text(text).filter(visible=True).first.wait_for()
    expect(page.locator("main .loading")).to_have_count(0)
    return page


def assert_nothing_ran(window):
    page = window.page
    assert page.locator("html[hostile]").count() == 0
    assert not window.dialogs
    assert page.locator(MARKUP_OF_OTHERS).evaluate_all("found => found.map(each => each.outerHTML.slice(0, 200))") == []
    assert page.get_by_role("heading", name="forged", exact=True).count() == 0
    assert not [url for url in window.asked if url.endswith("/nowhere") or url.startswith("javascript")]
    assert not window.outside
    words = page.locator("body").inner_text() + page.title()
    assert not set("\u202e\u2066\u2069\u200f") & set(words)
    assert len(words) < 200_000
    links = page.locator("a").evaluate_all("all => all.map((link) => link.href)")
    assert not [link for link in links if link.startswith(("javascript:", "data:"))]


def test_a_script_that_runs_would_be_seen(window):
    page = open_view(window, "#/api", None)
    page.evaluate(SCRIPT)
    assert page.locator("html[hostile]").count() == 1


@pytest.mark.parametrize(
    "view",
    # Tabs and addresses are looked at in the slow suite: they show their texts by the same components, and
    # tests/ui/test_build.py holds that no component makes markup of a text.
    [
        *(pytest.param(view, marks=pytest.mark.slow if "tab=" in view else ()) for view in VIEWS),
        *(pytest.param(view, marks=pytest.mark.slow) for view in ADDRESSES),
    ],
)
def test_nothing_of_a_stranger_runs_or_is_markup(window, hostile, view):
    names = hostile[1]
    text = ADDRESSES.get(view) or VIEWS.get(view)
    open_view(window, view.format_map(names), text and text.format_map(names))
    assert_nothing_ran(window)


def test_labels_of_a_model_that_answers_are_text(window):
    page = open_view(window, "#/live?with=folder:live", "Waits for an image.")
    page.get_by_role("button", name="Example 1").click()
    expect(page.get_by_role("article")).to_contain_text("this call took", timeout=60_000)
    assert_nothing_ran(window)
    page = open_view(window, "#/live?input=text&model=folder:sentiment", "Waits for a text.")
    page.get_by_role("textbox", name="Text").fill(
        "good <img src=x onerror=alert(1)>\u202e" + "<script>alert(1)</script>" * 50
    )
    expect(page.get_by_role("article")).to_contain_text("This call took", timeout=60_000)
    page.get_by_text("Cut: the model reads").click()
    assert_nothing_ran(window)
