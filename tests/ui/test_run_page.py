"""One run, as a person reads it."""

import io
from contextlib import closing

import pytest

pytest.importorskip("playwright")
import numpy as np
from browsing import Visitor, at_home, serving
from PIL import Image
from playwright.sync_api import expect

from zoolens.base.present.figures import probability, with_interval
from zoolens.base.present.metric_words import metric_title
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.settings import Settings
from zoolens.findings.comparisons.answer_pages import (
    AnswerOrder,
    AnswerReader,
    AnswersShown,
    AnswersWithin,
    page_of_answers,
)
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.measure.confusion import confusion_of
from zoolens.findings.measure.latency_chart import latency_distributions, latency_table
from zoolens.findings.measure.reliability import reliability_of

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

OPENING = 60_000  # milliseconds in which data are opened on a busy machine


@pytest.fixture(scope="module")
def measured(explored_home):
    """An open store and one of its runs."""
    with at_home(explored_home), open_store() as store:
        yield store, next(run for run in store.runs(model="demo:lenet-int8*") if run.stack.runtime == "onnxruntime")


def answers_of(measured, **asked):
    store, run = measured
    return page_of_answers(AnswerReader(store), run, page=slice(24), **asked)


def cards(page):
    return page.get_by_role("list", name="Inputs").locator("> li")


def test_it_opens_on_the_worst_inputs_what_it_confuses_and_its_calibration(visitor, measured):
    _, run = measured
    page = visitor.visit(f"#/run/{run.id}", expect="What it confuses")
    worst = answers_of(measured, order=AnswerOrder.LOSS, shown=AnswersShown.WRONG).rows[:10]
    few = page.get_by_role("list", name="Ten inputs: wrong answers, the highest loss first").locator("> li")
    expect(few).to_have_count(len(worst))
    for row, shown in zip(worst, few.all(), strict=True):
        assert shown.inner_text().startswith(row.truth)
        assert f"✗ {row.ours.best[0].name}" in shown.inner_text()
    expect(few.locator("img")).to_have_count(len(worst), timeout=OPENING)
    expect(page.locator("figure.chart svg")).to_have_count(2)
    expect(page.get_by_role("table")).to_have_count(0)
    page.get_by_role("button", name="All of them").click()
    expect(cards(page).first).to_contain_text(worst[0].input)


def test_the_figures_are_those_of_the_store(visitor, measured):
    store, run = measured
    page = visitor.visit(f"#/run/{run.id}?tab=figures", expect="Value [95 %]")
    words = visitor.text()
    assert run.ref in words
    assert run.dataset.name in words
    assert f"{run.stack.runtime} {run.stack.version}" in words
    assert "It is about a part of the dataset: 200 of 2,000 inputs." in words
    rows = page.get_by_role("group", name="Figures").locator("tbody tr")
    for metric in ("top1", "ece", "file_size"):
        (known,) = store.observations(run.id, metric=metric, scope="")
        line = rows.filter(has_text=metric_title(metric)).first.inner_text()
        value, _, interval = with_interval(known).partition(" [")
        assert value in line
        assert interval in line
        assert "measured" in line
    top1 = store.observations(run.id, metric="top1", scope="")[0]
    assert f"{with_interval(top1)}\ntop-1" in words
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as JSON").click()
    assert download.value.suggested_filename == f"run-{run.id}.json"


def test_inputs_are_sorted_by_loss_and_each_has_its_own_image(visitor, measured):
    _, run = measured
    page = visitor.visit(f"#/run/{run.id}?tab=inputs", expect="200 of 200 inputs.")
    rows = answers_of(measured, order=AnswerOrder.LOSS).rows
    expect(cards(page)).to_have_count(len(rows))
    expect(cards(page).locator("img")).to_have_count(len(rows), timeout=OPENING)
    with closing(open_inputs(run)) as dataset:
        for row, card in list(zip(rows, cards(page).all(), strict=True))[:6]:
            words = card.inner_text()
            assert f"Label: {row.truth}" in words
            assert ("✗ wrong" if row.ours.right is False else "✓ right") in words
            for scored in row.ours.best:
                assert f"{scored.name}\n{probability(scored.score)}" in words
            source = card.locator("img").get_attribute("src")
            shown = np.asarray(Image.open(io.BytesIO(page.request.get(visitor.url + source).body())))
            np.testing.assert_array_equal(shown[::7, ::7], dataset.read(row.index).value[:, :, 0])
    page.get_by_label("Show").select_option("wrong answers")
    wrong = answers_of(measured, shown=AnswersShown.WRONG)
    expect(page.get_by_text(f"{wrong.total} of 200 inputs.")).to_be_visible()
    page.wait_for_url("**shown=wrong*")


def test_a_cell_of_the_confusion_leads_to_its_inputs(visitor, measured):
    store, run = measured
    confusion = confusion_of(AnswerReader(store).answers(run))
    pair = confusion.pairs[0]
    page = visitor.visit(f"#/run/{run.id}?tab=confusion", expect="Pick a cell")
    chart = page.get_by_role("figure", name="Confusion matrix of 10 classes")
    chart.locator("svg .mark-text text").first.click()
    expect(page.get_by_text(f"{confusion.counts[0][0]} of 200 inputs.")).to_be_visible()
    page.wait_for_url("**label=0&answer=0*")
    page.go_back()
    page.get_by_role("group", name="Pairs of classes").get_by_role("button").first.press("Enter")
    expect(page.get_by_text(f"{pair.count} of 200 inputs.")).to_be_visible()
    page.wait_for_url(f"**label={pair.label}&answer={pair.answer}*")
    for card in cards(page).all():
        assert f"Label: {pair.label_name}" in card.inner_text()
        assert "✗ wrong" in card.inner_text()
    expect(page.get_by_label("Label")).to_have_value(str(pair.label))
    page.get_by_role("button", name="Any class and confidence").click()
    expect(page.get_by_text("200 of 200 inputs.")).to_be_visible()


def test_a_bin_of_the_calibration_leads_to_its_inputs(visitor, measured):
    store, run = measured
    reliability = reliability_of(AnswerReader(store).answers(run))
    number = max(range(len(reliability.bins)), key=lambda place: reliability.bins[place].n)
    page = visitor.visit(f"#/run/{run.id}?tab=calibration", expect=with_interval(reliability.ece))
    row = page.get_by_role("group", name="Confidence and accuracy").locator("tbody tr").nth(number)
    assert str(reliability.bins[number].n) in row.inner_text()
    row.get_by_role("button").press("Enter")
    listed = answers_of(measured, within=AnswersWithin(bin=number))
    assert listed.total == reliability.bins[number].n
    expect(page.get_by_text(f"{listed.total} of 200 inputs")).to_be_visible()
    page.wait_for_url(f"**bin={number}*")


def test_latency_classes_and_observations(visitor, measured):
    store, run = measured
    page = visitor.visit(f"#/run/{run.id}?tab=latency", expect="undisturbed")
    table = latency_table(latency_distributions(store, run))
    for cell in table.rows[0][3:]:
        assert cell in visitor.text()
    expect(page.get_by_role("figure").first.locator("svg")).to_have_count(1)
    page.get_by_role("tab", name="Latency").press("ArrowLeft")
    recalls = sorted(store.observations(run.id, metric="recall"), key=lambda known: known.value)
    first = page.get_by_role("group", name="Classes").locator("tbody tr").first
    expect(first).to_contain_text(recalls[0].details["class"])
    expect(first).to_contain_text(with_interval(recalls[0]).partition(" [")[0])
    page.get_by_role("tab", name="Observations").click()
    expect(page.get_by_text(f"{len(store.observations(run.id))} observations.")).to_be_visible()
    page.get_by_label("Metric").select_option("recall")
    expect(page.get_by_text(f"{len(recalls)} observations.")).to_be_visible()


def test_two_runs_are_chosen_from_the_list_and_compared(visitor, measured):
    _, run = measured
    page = visitor.visit("#/runs?q=lenet-int8", expect="2 evaluations.")
    boxes = page.get_by_role("checkbox", name="to compare it")
    boxes.first.check()
    expect(page.get_by_text("choose another one on the same data")).to_be_visible()
    boxes.last.check()
    page.get_by_role("link", name="Compare these two").click()
    expect(page.get_by_role("heading", name="Environment difference")).to_be_visible()
    visitor.visit("#/runs?q=lenet-int8", expect="2 evaluations.")
    page.get_by_role("link", name=run.id[:8]).click()
    expect(page.get_by_role("tab", name="Confusion")).to_be_visible()
    page.get_by_role("link", name="Its model").click()
    page.get_by_role("tab", name="Over time").click()
    page.get_by_role("group", name="Newest runs").get_by_role("link", name=run.id[:8]).click()
    expect(page.get_by_role("heading", name=run.ref)).to_be_visible()
    page.wait_for_url(f"**#/run/{run.id}")


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """The address of an explorer over a run that failed, one that was only begun, and one whose data are elsewhere."""
    from zoolens.findings.comparisons.conftest import one_hot, vector_columns, write_run

    home = tmp_path_factory.mktemp("troubled")
    with at_home(home), open_store() as store:
        model, data = ModelRecord("m", "demo:m@1", "onnx", {}), DatasetRecord("d", "digits", 10)
        failed = store.begin_run(model, data, StackRecord("s", "fake", {}, {}))
        store.finish_stage(failed.id, "size", [Observation("file_size", 1000.0, unit="B")])
        store.fail_stage(failed.id, "predictions", "the input has 5 channels")
        begun = store.begin_run(model, data, StackRecord("t", "other", {}, {}))
        labels = np.full(30, -1)
        elsewhere = write_run(store, "away", one_hot(np.arange(30) % 3, 3), labels, classes=["a", "b", "c"])
        origin = {"data": f"imagefolder:{home}/photos", "limit": None, "seed": None}
        store.set_resolved(elsewhere.id, {"origin": origin})
        about = [{"task": "embedding", "name": "features"}]
        vectors = write_run(store, "vectors", vector_columns(np.eye(12)), np.full(12, -1), about=about)
    with at_home(home), serving(Settings()) as url:
        yield url, failed, begun, elsewhere, vectors


def test_what_went_wrong_is_said_with_what_to_do(chromium, troubled):
    url, failed, begun, elsewhere, vectors = troubled
    window = Visitor(chromium, url)
    page = window.visit(f"#/run/{failed.id}", expect="the input has 5 channels")
    assert "measures what is missing" in window.text()
    page.get_by_role("tab", name="Inputs").click()
    expect(page.get_by_text("They were not finished.")).to_be_visible()
    window.visit(f"#/run/{begun.id}", expect="Nothing of this run is finished yet.")
    window.visit(f"#/run/{elsewhere.id}?tab=inputs", expect="The inputs themselves are not shown.")
    assert "zoolens ui --allow FOLDER" in window.text()
    assert cards(page).count() == 24
    expect(page.get_by_label("Show")).to_have_count(0)  # where there is one choice, there is none to make
    window.visit(f"#/run/{vectors.id}?tab=inputs", expect="12 of 12 inputs.")
    expect(page.get_by_label("Sort by")).to_have_count(0)
    expect(page.get_by_text("does not record where its dataset is")).to_be_visible()
    for of_classes in ("Confusion", "Calibration", "Classes"):
        expect(page.get_by_role("tab", name=of_classes)).to_have_count(0)
    window.close()


def test_everybody_can_read_it(look_everywhere, measured):
    look_everywhere(f"#/run/{measured[1].id}?tab=inputs", expect="200 of 200 inputs.")
