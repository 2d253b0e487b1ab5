"""Jobs started, followed and cancelled from the browser."""

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

PATIENCE = 60_000


@pytest.fixture(scope="module")
def own_explorer(tmp_path_factory):
    """An explorer with a home of its own, in which jobs may write."""
    from zoolens import open_store
    from zoolens.faces.ui.settings import Settings

    home = tmp_path_factory.mktemp("jobs")
    with at_home(home):
        open_store().close()
        with serving(Settings()) as url:
            yield url


@pytest.fixture
def starter(chromium, own_explorer):
    made = Visitor(chromium, own_explorer)
    yield made
    made.close()


def test_an_evaluation_is_started_and_goes_on_without_the_page(starter, chromium, own_explorer):
    page = starter.visit("#/jobs?model=demo:lenet-torch", expect="Evaluate")
    page.get_by_label("Runtimes").fill("litert")
    page.get_by_label("Inputs").fill("50")
    page.get_by_role("button", name="Evaluate").click()
    card = page.get_by_role("article", name="Evaluate demo:lenet-torch on demo")
    expect(card).to_contain_text("zoolens eval --data=demo --runtime=litert --limit=50 --json -- demo:lenet-torch")
    starter.close()
    again = Visitor(chromium, own_explorer)
    page = again.visit("#/jobs", expect="Evaluate demo:lenet-torch on demo")
    card = page.get_by_role("article", name="Evaluate demo:lenet-torch on demo")
    expect(card).to_contain_text("Done", timeout=PATIENCE)
    expect(card).to_contain_text("Runs:")
    page = again.visit("#/models?measured=yes", expect="lenet-torch")
    expect(page.locator("tbody tr")).to_have_count(1)
    again.check()
    again.close()


def test_what_may_not_be_started_is_said_beside_the_form(starter):
    page = starter.visit("#/jobs", expect="Evaluate")
    page.get_by_role("textbox", name="Models").fill("/etc/passwd")
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("alert")).to_contain_text("A job may not read the model '/etc/passwd'.")
    starter.problems = [one for one in starter.problems if "403" not in one]  # the browser tells of the refusal
    starter.check()


def test_everybody_can_read_it(look_everywhere, own_explorer):
    look_everywhere("#/jobs", expect="A job does what the command below it does", url=own_explorer)
