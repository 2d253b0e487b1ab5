"""Two runs side by side, as a person compares them."""

import re

import pytest

pytest.importorskip("playwright")
import numpy as np
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.present.figures import percent, probability, with_interval
from zoolens.base.present.metric_words import metric_title
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.answer_pages import AnswerOrder, AnswerReader, AnswersShown, page_of_answers
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.report_page import change_words, verdict

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

OPENING = 60_000  # milliseconds in which data are opened on a busy machine


@pytest.fixture(scope="module")
def two_models(explored_home):
    """A comparison of two models in one runtime, and the inputs that they answer differently, the surest first."""
    with at_home(explored_home), open_store() as store:
        a, b = (
            next(run for run in store.runs(model=f"demo:{name}*") if run.stack.runtime == "onnxruntime")
            for name in ("lenet-torch", "lenet-int8")
        )
        rows = page_of_answers(
            AnswerReader(store), a, b, order=AnswerOrder.DISAGREEMENT, shown=AnswersShown.ALL, page=slice(24)
        ).rows
        yield compare_runs(store, a, b, open_files=False), rows


def test_the_figures_are_those_of_the_command(visitor, two_models):
    report, rows = two_models
    answers = report.answers
    folded = "figures.environment.notes"
    page = visitor.visit(f"#/compare?a={report.a.id}&b={report.b.id}&shown=all&unfold={folded}", expect="What")
    expect(page.get_by_role("group", name="Figures of both runs")).to_be_visible()
    words = visitor.text()
    assert verdict(report) in words
    assert f"{percent(answers.agreement)}\nsame answer" in words
    assert f"{answers.only_a:,}\nonly A correct" in words
    figures = page.get_by_role("group", name="Figures of both runs").locator("tbody tr")
    for metric in ("top1", "latency_p50", "file_size"):
        pair = next(each for each in report.figures if each.metric == metric)
        line = figures.filter(has_text=metric_title(metric)).first.inner_text()
        for side in (pair.a, pair.b):
            value, _, interval = with_interval(side).partition(" [")
            assert value in line
            assert interval in line
        assert change_words(pair) in line
    for item in report.environment:
        assert item.what in words
    inputs = page.get_by_role("list", name="Answers of both runs").locator("> li")
    expect(inputs).to_have_count(24)
    expect(inputs.locator("img")).to_have_count(24, timeout=OPENING)
    for row, shown in zip(rows[:5], inputs.all(), strict=False):
        line = shown.inner_text()
        assert row.input in line
        assert row.truth in line
        assert line.count("✓ right") == (row.ours.right is True) + (row.theirs.right is True)
        for scored in (*row.ours.best, *row.theirs.best):
            assert f"{scored.name}\n{probability(scored.score)}" in line
        assert shown.locator("img").get_attribute("src").endswith(f"/runs/{report.a.id}/inputs/{row.index}")


def test_one_screen_says_it_and_the_rest_is_folded(visitor, two_models):
    report, _ = two_models
    answers = report.answers
    page = visitor.visit(f"#/compare?a={report.a.id}&b={report.b.id}", expect="Who is right where")
    ends = (answers.top1_change, *answers.difference)
    change, low, high = (f"{100 * end:+.2f}".replace("-", "−").replace("+0.00", "0.00") for end in ends)
    drawn = page.get_by_role("img", name=f"top-1 accuracy of B less that of A: {change}")
    expect(drawn).to_have_accessible_name(re.compile(re.escape(f"[{low}, {high}] points")))
    outcomes = page.get_by_role("list", name="Inputs by who is right")
    for count in (answers.both_right, answers.only_a, answers.only_b, answers.both_wrong):
        expect(outcomes).to_contain_text(f"{count:,}")
    expect(page.get_by_role("region", name="Inputs that the two answer differently")).to_contain_text(
        "Both give the same"
    )
    assert page.evaluate("document.documentElement.scrollHeight") < 1_300  # it was 5,562 when everything was listed
    expect(page.get_by_role("group", name="Figures of both runs")).to_have_count(0)
    page.get_by_role("button", name="Figures", exact=True).press("Enter")
    expect(page.get_by_role("group", name="Figures of both runs")).to_be_visible()
    page.wait_for_url("**unfold=figures*")


def test_confusion_and_calibration_of_both_lead_to_inputs(visitor, two_models):
    report, _ = two_models
    page = visitor.visit(f"#/compare?a={report.a.id}&b={report.b.id}&part=confusion", expect="Pick a cell")
    pairs = page.get_by_role("group", name="Pairs of classes that are confused most")
    expect(pairs).to_have_count(2)
    pairs.first.get_by_role("button").first.click()
    expect(page.get_by_role("tab", name="Input by input")).to_have_attribute("aria-selected", "true")
    page.wait_for_url("**shown=all&label=*")
    page.get_by_role("tab", name="Calibration").click()
    bins = page.get_by_role("group", name="Confidence and accuracy")
    expect(bins).to_have_count(2)
    bins.last.locator("tbody tr").last.get_by_role("button").click()
    page.wait_for_url(f"**#/run/{report.b.id}?tab=inputs&other={report.a.id}*")
    expect(page.get_by_role("list", name="Answers of both runs").locator("> li img").first).to_be_visible(
        timeout=OPENING
    )


@pytest.mark.slow  # test_jobs_page.py follows a job from the form to its result
def test_what_differs_in_the_files_of_two_models_is_a_job(visitor, two_models):
    report, _ = two_models
    page = visitor.visit(f"#/compare?a={report.a.id}&b={report.b.id}", expect="These are two models.")
    page.get_by_role("button", name="Likely cause").click()
    page.get_by_role("button", name="Look into both models").click()
    expect(page.get_by_text("Done", exact=True)).to_be_visible(timeout=90_000)
    expect(page.get_by_role("region", name="Likely cause")).to_contain_text("weight")
    assert "compare=" in page.url
    page.reload()  # what was found has an address
    expect(page.get_by_role("region", name="Likely cause")).to_contain_text("weight")


@pytest.fixture
def flipping(tmp_path, chromium):
    """A window over a store with one model in two stacks that answer three inputs differently, and the two runs."""
    from zoolens.faces.ui.settings import Settings
    from zoolens.findings.comparisons.conftest import one_hot, write_run

    labels = np.arange(20) % 4
    wrong = np.where(np.arange(20) < 3, (labels + 1) % 4, labels)
    with at_home(tmp_path), open_store() as store:
        a = write_run(store, "a", one_hot(labels, 4), labels)
        b = write_run(store, "a", one_hot(wrong, 4, sure=0.6), labels, runtime="another")
    with at_home(tmp_path), serving(Settings()) as url:
        window = Visitor(chromium, url)
        yield window, a, b
        window.check()
        window.close()


def test_inputs_with_different_answers_come_first_and_lead_to_the_layer(flipping):
    window, a, b = flipping
    page = window.visit(f"#/compare?a={a.id}&b={b.id}&unfold=cause.answers", expect="3 of 20 inputs.")
    rows = page.get_by_role("list", name="Answers of both runs").locator("> li")
    expect(rows).to_have_count(3)
    expect(page.get_by_text("does not record where its dataset is").first).to_be_visible()
    for row in rows.all():
        assert row.inner_text().index("✓ right") < row.inner_text().index("✗ wrong")
    expect(page.get_by_role("figure", name="Inputs with different answers").locator("svg")).to_have_count(1)
    few = page.get_by_role("list", name="Ten of them, the surest first").locator("> li")
    expect(few).to_have_count(3)
    for shown in few.all():
        assert "A ✓" in shown.inner_text()
        assert "B ✗" in shown.inner_text()
    assert page.get_by_role("button", name="Find the layer where they diverge").is_visible()
    assert f"zoolens diverge {a.id[:8]} {b.id[:8]}" in window.text()
    page.get_by_label("Show").select_option("the same answers")
    expect(rows).to_have_count(17)
    page.wait_for_url("**shown=agreeing*")


def test_two_runs_are_chosen_by_search(visitor, two_models):
    report, _ = two_models
    page = visitor.visit("#/compare", expect="Choose a run")
    page.get_by_label("Search Run A").fill(report.a.id[:8])
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    rows.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Run B")).to_be_visible()
    expect(rows).to_have_count(3)  # all but A
    page.locator("tbody tr", has_text=report.b.id[:8]).get_by_role("link").click()
    expect(page.get_by_text(verdict(report))).to_be_visible()
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.locator(".side").first).to_contain_text(report.b.id[:8])


def test_everybody_can_read_it(look_everywhere, two_models):
    report, _ = two_models
    look_everywhere(f"#/compare?a={report.a.id}&b={report.b.id}", expect="Environment difference")
    folded = "cause.figures.environment.notes.classes"
    look_everywhere(f"#/compare?a={report.a.id}&b={report.b.id}&shown=all&unfold={folded}", expect="What")
