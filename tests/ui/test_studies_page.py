"""Studies of crosstrain as a person looks at them."""

from urllib.parse import quote

import pytest

pytest.importorskip("playwright")
import numpy as np
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.present.figures import percent
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.explanation.stored_explanations import file_explanation
from zoolens.training.crosstrain.study.explanation.test_stored_explanations import made_explanation
from zoolens.training.crosstrain.study.report.study_findings import gather
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial, read_study
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import ALIGNED

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>"
NAME = f"rates/{HOSTILE}"
SIDES = {"torch": {"torch": "2"}, "jax": {"jax": "1"}}


def made_trials():
    """The second side learns little with large rates; the side of the last trial fails."""
    random = np.random.default_rng(3)
    for number in range(24):
        rate = float(10 ** random.uniform(-4, -1))
        ends = (0.9, 0.9 - (0.5 if rate > 0.01 else 0.01))
        sides = [
            TrainedSide(name, accuracy=end, losses=(2.0, 1.0, 1 - end), accuracies=(0.1, end / 2, end), seconds=1.5)
            for name, end in zip(SIDES, ends, strict=True)
        ]
        if number == 23:
            sides[1] = TrainedSide("jax", status="failed", message=f"{HOSTILE} ended")
        yield Trial(f"t{number}", {"rate": rate, "optimizer": str(random.choice(["adam", "sgd"]))}, tuple(sides))


@pytest.fixture(scope="module")
def studied(tmp_path_factory, listed_zoos):
    """The address of an explorer over a store with a study of 24 trials, one of which is explained; and the study."""
    from zoolens.faces.ui.settings import Settings

    home = tmp_path_factory.mktemp("studied")
    with at_home(home), open_store() as store:
        file_study(store, NAME, tuple(SIDES), {"source": HOSTILE})
        for number, trial in enumerate(made_trials()):
            recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=8, epochs=number + 1)
            told = dict.fromkeys(SIDES, (recipe, ALIGNED))
            file_trial(
                store,
                NAME,
                trial,
                TrialFiling(recipe_of=told, dataset=DatasetRecord("d", "digits", 10), versions=SIDES),
            )
        file_study(store, "explain-1", ("a", "b"), {})
        file_explanation(store, made_explanation(), NAME, "t1")
        study = read_study(store, NAME)
    with at_home(home), serving(Settings()) as url:
        yield url, study


@pytest.fixture
def reader(chromium, studied):
    window = Visitor(chromium, studied[0])
    yield window
    window.check()
    window.close()


def test_a_study_is_found_and_its_trials_are_sorted_by_delta(reader, studied):
    findings = gather(studied[1], deep=False)
    page = reader.visit("#/studies", expect="1 study.")
    row = page.locator("tbody tr").first
    assert NAME in row.inner_text()
    assert percent(float(findings.delta.known.max())) in row.inner_text()
    assert f"{findings.apart} of 23" in row.inner_text()
    page.get_by_role("link", name=NAME).click()
    expect(page.get_by_text("24 trials, each trained by torch and jax")).to_be_visible()
    page.get_by_role("tab", name="Trials").click()
    rows = page.get_by_role("group", name="Trials").locator("tbody tr")
    expect(rows).to_have_count(24)
    assert percent(float(findings.delta.known.max())) in rows.first.inner_text()
    assert f"jax: {HOSTILE} ended" in rows.last.inner_text()  # without a Δ, last
    assert page.locator("main img").count() == 0


def test_a_picked_trial_shows_how_both_sides_learnt_and_its_explanation(reader, studied):
    address = f"#/studies/{NAME.replace('/', '%2F')}".replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")
    page = reader.visit(f"{address}?tab=trials", expect="Hyperparameters")
    page.get_by_role("button", name="t1", exact=True).click()
    picked = page.get_by_label("The trial that was picked")
    (trial,) = (trial for trial in studied[1].trials if trial.id == "t1")
    expect(picked.get_by_role("heading", name=f"Trial t1: Δ {percent(trial.delta)}")).to_be_visible()
    expect(picked.get_by_role("figure", name="Loss and accuracy")).to_contain_text("loss while training")
    explained = made_explanation()
    expect(picked).to_contain_text("norm_momentum")
    expect(picked.get_by_role("group", name="Shares of the gap").locator("tbody tr")).to_have_count(2)
    expect(picked.get_by_role("group", name="Shares of the gap")).to_contain_text("90 %")
    picked.get_by_text("All that the command said").click()
    expect(picked).to_contain_text(f"all are in the study {explained.study}")
    expect(picked).to_contain_text("published without its recipe, so that its gap cannot be explained here")
    page.wait_for_url("**trial=t1*")


def test_the_space_is_drawn_over_what_one_chooses(reader, studied):
    page = reader.visit("#/studies", expect="1 study.")
    page.get_by_role("link", name=NAME).click()
    expect(page.get_by_role("figure", name="Trials by rate and optimizer")).to_contain_text("24 trials")
    page.get_by_label("Upwards").select_option("Δ")
    chart = page.get_by_role("figure", name="Trials by rate and Δ")
    expect(chart).to_contain_text("1 without one of the two")
    chart.locator("g.mark-symbol:not([aria-hidden]) path").last.click()
    expect(page.get_by_label("The trial that was picked")).to_contain_text("torch")
    page.wait_for_url("**y=%CE%94*trial=*")


def test_everybody_can_read_it(look_everywhere, studied):
    address = f"#/studies/{NAME.replace('/', '%2F')}".replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")
    look_everywhere(f"{address}?tab=trials&trial=t1", expect="Share of the gap", url=studied[0])
    look_everywhere(address, expect="The whole space", url=studied[0])


def test_no_studies_yet(visitor):
    visitor.visit("#/studies", expect="No studies yet.")


@pytest.mark.slow
def test_what_arrives_late_does_not_push_the_focus_out_of_the_window(reader):
    page = reader.visit(f"#/studies/{quote(NAME)}?tab=trials", expect="Hyperparameters")
    held = []
    page.route("**/api/v1/study/trial?*", lambda route: held.append(route))
    page.get_by_role("group", name="Trials").get_by_role("button", name="t0", exact=True).click()
    picked = page.get_by_label("The trial that was picked")
    expect(picked).to_be_focused()
    page.keyboard.press("Tab")
    close = picked.get_by_role("button", name="Close")
    expect(close).to_be_focused()
    held[0].continue_()
    picked.locator("svg").first.wait_for()
    expect(close).to_be_focused()
    expect(close).to_be_in_viewport()
    page.mouse.wheel(0, -10_000)  # who scrolls away is left alone
    expect(close).not_to_be_in_viewport()
    page.set_viewport_size({"width": 700, "height": 500})
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(close).not_to_be_in_viewport()
    page.unroute_all()
