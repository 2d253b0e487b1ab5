"""A report is composed of notes, figures and charts of other pages, and sent as a bundle."""

import shutil
import zipfile

import pytest

pytest.importorskip("playwright")
from browsing import PATIENCE, Visitor, at_home, serving
from playwright.sync_api import expect


@pytest.fixture
def own(chromium, explored_home, tmp_path):
    """A window over a store of its own, which reports are written into."""
    from zoolens.faces.ui.settings import Settings

    home = tmp_path / "home"
    shutil.copytree(explored_home, home)
    with at_home(home), serving(Settings()) as url:
        window = Visitor(chromium, url)
        yield window
        window.check()
        window.close()


def write(page, place, text):
    page.get_by_label(place, exact=True).fill(text)


def test_a_report_is_composed(own):
    page = own.visit("#/reports", expect="There is no report yet.")
    page.get_by_role("textbox", name="Title").fill("What we ship")
    page.get_by_role("button", name="Begin a report").click()
    expect(page.get_by_role("heading", name="What we ship")).to_be_visible()
    write(page, "A note in Markdown", "# Why\n\n**lenet** is enough: <b>markup</b> is text, [a link](https://a.b)")
    page.get_by_role("button", name="Add the note").click()
    note = page.locator(".markdown")
    expect(note.get_by_role("heading", name="Why")).to_be_visible()
    expect(note.locator("strong")).to_have_text("lenet")
    expect(note).to_contain_text("<b>markup</b>")
    # figures and a chart of a run
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("group", name="Runs").get_by_role("link").nth(1).click()
    page.get_by_role("tab", name="Figures").click()
    page.locator("summary", has_text="Add to a report").click()
    page.get_by_role("button", name="Add to “What we ship”").click()
    expect(page.get_by_text("Added.")).to_be_visible()
    page.get_by_role("tab", name="Confusion").click()
    page.locator("svg.marks").first.wait_for()
    page.locator(".chart-menu summary").click()
    page.get_by_role("button", name="Add to “What we ship”").click()
    page.get_by_role("link", name="Open the report").click()
    expect(page.locator(".piece")).to_have_count(3)
    page.locator(".piece.chart svg.marks").wait_for()
    expect(page.locator(".piece.table")).to_contain_text("top-1 accuracy")
    # another order, and one less
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Move note 1 down").click()
    expect(page.locator(".piece").first).to_contain_text("top-1 accuracy")
    page.locator(".piece").last.get_by_role("button", name="Remove").click()
    expect(page.locator(".piece")).to_have_count(2)
    page.get_by_role("button", name="Done").click()
    page.reload()
    expect(page.locator(".piece")).to_have_count(2)
    page.get_by_role("link", name="Where it is from").click()
    page.wait_for_url("**tab=figures*")


def test_another_window_is_not_written_over(own):
    from zoolens import open_store
    from zoolens.base.store.composed_reports import add_report, load_report, write_report

    with open_store() as store:
        report = add_report(store, "Ours", [{"kind": "note", "text": "first"}])
        page = own.visit(f"#/reports/{report.id}", expect="first")
        write_report(store, report.id, 1, "Ours", [{"kind": "note", "text": "theirs"}])
        page.get_by_role("button", name="Edit").click()
        write(page, "Note in Markdown", "mine")
        page.get_by_role("button", name="Keep the note").click()
        expect(page.get_by_role("alert")).to_contain_text("another window")
        assert load_report(store, report.id).pieces[0]["text"] == "theirs"
    own.problems = [one for one in own.problems if "409" not in one]  # the browser tells of it, too


@pytest.mark.slow
def test_a_report_is_exported_with_progress(own, chromium, tmp_path):
    from zoolens import open_store
    from zoolens.base.store.composed_reports import add_report

    with open_store() as store:
        report = add_report(store, "For Anna", [{"kind": "note", "text": "Take **this** one."}])
    page = own.visit(f"#/reports/{report.id}", expect="Take this one.")
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("article", name="Export 1 report")).to_be_visible()
    link = page.get_by_role("link", name="Save the bundle")
    link.wait_for(timeout=6 * PATIENCE)  # a job is a process of its own, which imports all of zoolens
    with page.expect_download() as download:
        link.click()
    download.value.save_as(tmp_path / "bundle.zip")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as packed:
        packed.extractall(tmp_path / "bundle")
    (folder,) = (tmp_path / "bundle").iterdir()
    reader = Visitor(chromium, (folder / "index.html").as_uri())
    shown = reader.visit(f"#/reports/{report.id}", expect="Take this one.")
    expect(shown.get_by_role("heading", name="For Anna")).to_be_visible()
    expect(shown.get_by_role("button", name="Edit")).to_have_count(0)
    reader.check()
    reader.close()
