"""What goes wrong under an open page: the store goes away, the server is restarted, others write and work meanwhile.

A page says so in one sentence and goes on when it can. The browser's own console has nothing but the failed request.
"""

import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.base.store.target import resolve
from zoolens.faces.ui.settings import Settings

SILENT = "The server of the explorer does not answer."
DELETED = "The store store.sqlite was deleted or moved away while the explorer was open."
REPLACED = "The store store.sqlite was replaced by another file while the explorer was open."


def write_run(store, name):
    model, data = ModelRecord(name, f"zoo:{name}@1", "fake", {}), DatasetRecord("d", "digits", 10)
    run = store.begin_run(model, data, StackRecord("s", "fake", {}, {}))
    store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.5, unit="fraction", low=0.4, high=0.6)])
    return run


@pytest.fixture
def home(tmp_path):
    """The folder of a store with one run."""
    with at_home(tmp_path):
        with open_store() as store:
            write_run(store, "first")
        yield resolve(None).path.parent


@pytest.fixture
def window(chromium, home):
    """A window over the home, whose server may come and go; asserts at its end that nothing but requests failed."""
    made = Visitor(chromium, "http://127.0.0.1/")
    yield made
    assert not [problem for problem in made.problems if "Failed to load resource" not in problem], made.problems
    made.close()


def opened(window, url, view, text):
    window.url = url
    return window.visit(view, expect=text)


def test_a_page_that_cannot_be_drawn_leaves_the_others_within_reach(window):
    with serving(Settings()) as url:
        page = opened(window, url, "#/runs", "1 evaluation.")
        page.route("**/api/v1/models*", lambda route: route.fulfill(json={"rows": 1}))
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_role("alert")).to_contain_text("This page cannot be shown:")
        page.get_by_role("link", name="Runs", exact=True).click()
        expect(page.get_by_text("1 evaluation.")).to_be_visible()


def test_a_head_that_cannot_be_drawn_leaves_the_page_below_it(window):
    with serving(Settings()) as url:
        window.page.route("**/api/v1/about*", lambda route: route.fulfill(json={"store": "s", "version": "1"}))
        page = opened(window, url, "#/runs", "1 evaluation.")
        expect(page.get_by_role("alert")).to_contain_text("The head of the page cannot be shown:")
        page.unroute("**/api/v1/about*")
        page.reload()
        expect(page.get_by_role("navigation", name="Groups")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_store_that_was_deleted_or_replaced(window, home):
    store, aside = home / "store.sqlite", home / "aside.sqlite"
    with serving(Settings()) as url:
        page = opened(window, url, "#/runs", "1 evaluation.")
        store.rename(aside)
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_role("alert")).to_contain_text(DELETED)
        page.get_by_role("link", name="Serve").click()
        page.get_by_role("link", name="Jobs", exact=True).click()
        expect(page.get_by_text("No job was started yet.")).to_be_visible()  # they can still be seen and cancelled
        page.get_by_role("textbox", name="Models").fill("demo:lenet-torch")
        page.get_by_role("button", name="Evaluate").click()
        expect(page.get_by_role("alert")).to_contain_text(DELETED)
        with open_store() as other:  # somebody makes a new one in its place
            write_run(other, "second")
            write_run(other, "third")
        page.get_by_role("link", name="Look").click()
        page.get_by_role("link", name="Runs", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(REPLACED)
        assert "zoo:first" not in window.text()
        for path in home.glob("store.sqlite*"):
            path.unlink()
        aside.rename(store)
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("1 evaluation.")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.slow
def test_a_server_that_is_restarted_under_an_open_page(window, home):
    with ExitStack() as stack:
        with serving(Settings()) as url:
            page = opened(window, url, "#/runs", "1 evaluation.")
            while not page.evaluate("'zoolensPages' in globalThis"):  # loaded half a second after the first page
                page.wait_for_timeout(100)
        page.get_by_role("searchbox", name="Search runs").fill("zoo")
        expect(page.get_by_role("alert")).to_have_count(1)
        expect(page.get_by_role("alert")).to_contain_text(SILENT)
        expect(page.get_by_text("zoo:first")).to_have_count(0)  # rows of no search are not those of this one
        page.get_by_role("link", name="Serve").click()
        page.get_by_role("link", name="Jobs", exact=True).click()
        page.get_by_role("textbox", name="Models").fill("demo:lenet-torch")
        page.get_by_role("button", name="Evaluate").click()
        expect(page.get_by_role("form", name="Evaluate models")).to_contain_text(SILENT)
        page.get_by_role("link", name="Look").click()
        page.get_by_role("link", name="Runs", exact=True).click()
        with open_store() as store:
            write_run(store, "second")
        stack.enter_context(serving(Settings(port=urlsplit(url).port)))
        expect(page.get_by_text("2 evaluations.")).to_be_visible()  # without a hand on it
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_text("zoo:second")).to_be_visible()


WRITER = """
import sys
from pathlib import Path
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store

with open_store(Path(sys.argv[1])) as store:
    print("writes", flush=True)
    for number in range(10_000):
        run = store.begin_run(
            ModelRecord(f"m{number}", f"zoo:written{number}@1", "fake", {}),
            DatasetRecord("d", "digits", 10), StackRecord("s", "fake", {}, {}),
        )
        store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.5, unit="fraction", low=0.4, high=0.6)])
"""


@pytest.mark.slow
def test_another_process_writes_while_pages_are_read(window, home):
    with serving(Settings()) as url, ExitStack() as stack:
        path = str(home / "store.sqlite")
        writer = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
        stack.callback(writer.kill)
        assert writer.stdout.readline() == b"writes\n"
        counts = []
        for view, text in (
            ("#/runs?sort=-top1", "evaluations."),
            ("#/choose?x=accuracy", "each a model in a runtime"),
            ("#/models?q=zoo", "zoo:"),
            ("#/runs", "evaluations."),
        ):
            page = opened(window, url, view, text)
            counts.append(int(page.locator("header .about").inner_text().split(" · ")[1].split()[0].replace(",", "")))
            assert page.get_by_role("alert").count() == 0
        assert writer.poll() is None, writer.stderr.read()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]  # each page has what was there when it was asked for


@pytest.mark.slow  # of eight jobs one or two run
def test_more_windows_with_jobs_than_a_browser_has_connections(chromium, home):
    """A stream takes one of six connections, which all windows of a browser share."""
    windows = []
    with serving(Settings()) as url:
        first = Visitor(chromium, url)
        page = first.visit("#/jobs", expect="No job was started yet.")
        page.get_by_role("textbox", name="Models").fill("demo:lenet-int8")
        page.get_by_role("textbox", name="Runtimes").fill("litert")
        page.get_by_label("Inputs").fill("5")
        for number in range(1, 9):
            page.get_by_role("button", name="Evaluate").click()
            expect(page.get_by_role("article")).to_have_count(number)
        for _ in range(2):
            windows.append(first.window.new_page())
            windows[-1].goto(f"{url}#/jobs")
            expect(windows[-1].get_by_role("article")).to_have_count(8)
        windows[-1].get_by_role("link", name="Look").click()
        windows[-1].get_by_role("link", name="Runs", exact=True).click()
        expect(windows[-1].get_by_text("zoo:first")).to_be_visible()  # though eight jobs are followed three times
        page.get_by_role("link", name="Look").click()
        page.get_by_role("link", name="Models").click()
        expect(page.get_by_text("demo:lenet-torch").first).to_be_visible()
        jobs = f"{url}api/v1/jobs"
        for job in page.request.get(jobs).json()["rows"]:
            page.request.delete(f"{jobs}/{job['id']}")
        expect(windows[0].get_by_text("Waits for its turn")).to_have_count(0)  # it is told what happens elsewhere
        first.check()
        for other in windows:
            other.close()
        first.window.close()
