"""Audits, comparisons of two environments and explanations that are started in the browser, really run, and end on
the page that shows what they found."""

import json
import re
import time

import numpy as np
import pytest

pytest.importorskip("playwright")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.faces.ui.jobs.folder import job_folders
from zoolens.findings.audit.auditing import audit_models
from zoolens.training.crosstrain.study.explanation.stored_explanations import filed_explanations
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import ALIGNED

PATIENCE = 180_000  # milliseconds for a job


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, explorer):
    """The address of an explorer over an empty store, and its home."""
    from zoolens import open_store
    from zoolens.faces.ui.settings import Settings

    home = tmp_path_factory.mktemp("real-jobs")
    with at_home(home):
        open_store().close()
        with serving(Settings(zoos=("demo", "onnx"))) as url:
            yield url, home


@pytest.fixture
def window(chromium, workshop):
    made = Visitor(chromium, workshop[0])
    yield made
    made.check()
    made.close()


@pytest.mark.slow  # test_jobs_page.py follows a job from the form to its result
def test_an_audit(window, workshop):
    page = window.visit("#/audit", expect="No audit was started here yet.")
    page.get_by_role("textbox", name="Zoos").fill("onnx")
    page.get_by_role("textbox", name="Architectures").fill("squeezenet1_0")
    page.get_by_role("button", name="Audit", exact=True).click()
    page.get_by_role("link", name="Findings of Audit squeezenet1_0 of onnx").click(timeout=PATIENCE)
    with at_home(workshop[1]):
        audit = audit_models(zoos=["onnx"], archs=["squeezenet1_0"])
    assert audit.findings  # the package's graph of that name is another network
    expect(page.get_by_text(f"{len(audit.findings)} of {len(audit.findings)} findings")).to_be_visible()
    words = window.text()
    for finding in audit.findings:
        assert finding.title in words
        assert all(line in words for line in finding.evidence)
    page.get_by_role("link", name="onnx:light/squeezenet").first.click()
    expect(page.get_by_text("counted from the network")).to_be_visible()  # which the audit has read


@pytest.mark.slow  # test_jobs_page.py follows a job from the form to its result
def test_where_two_stacks_part(window, workshop):
    page = window.visit("#/diverge", expect="No two environments were compared here yet.")
    page.get_by_role("textbox", name="A", exact=True).fill("demo:lenet-int8@onnxruntime")
    page.get_by_role("textbox", name="B", exact=True).fill("demo:lenet-int8@litert")
    page.get_by_label("Inputs").fill("6")
    page.get_by_role("button", name="Find where they diverge").click()
    page.get_by_role("link", name="Result of Diverge").click(timeout=PATIENCE)
    expect(page.locator(".verdict")).to_be_visible()
    printed = json.loads(newest(workshop[1]).output_file.read_bytes())
    expect(page.locator(".verdict")).to_contain_text(printed["verdict"])
    words = window.text()
    assert all(sentence in words for sentence in printed["sentences"])
    assert (printed["first"]["layer"] if printed["first"] else "none") in words
    for cause in printed["causes"]:
        assert f"{'Proved' if cause['proved'] else 'Suspected, not proved'}: {cause['sentence']}." in words
    rows = page.get_by_role("group", name="Layers of both environments").locator("tbody tr")
    expect(rows).to_have_count(len(printed["layers"]))
    for place, layer in enumerate(printed["layers"]):
        assert layer["layer"] in rows.nth(place).inner_text()
        assert layer["verdict"] in rows.nth(place).inner_text()
    expect(page.locator(".chart")).to_contain_text("How the difference grows")
    at = f"{workshop[0]}api/v1/divergences/{newest(workshop[1]).id}/inputs"
    expect(page).to_have_url(re.compile("diverge/"))
    until = time.monotonic() + PATIENCE / 1000
    while (seen := page.request.get(f"{at}?index=5").json())["state"] == "opening" and time.monotonic() < until:
        time.sleep(0.2)
    assert (seen["state"], [row["picture"] for row in seen["rows"]]) == ("ready", [True])
    assert page.request.get(f"{at}/5").body().startswith(b"\x89PNG")
    assert page.request.get(f"{at}/6").status == 404  # six inputs were compared


STUDY = "momentum"


def write_trial(home):
    """A trial of two sides whose statistics of batch norm differ, of images in which only these matter."""
    generator = np.random.default_rng(0)
    for name, count in (("train", 240), ("test", 90)):
        labels = np.arange(count) % 3
        images = generator.integers(200, 225, (count, 8, 8), np.uint8)
        for label in range(3):
            images[labels == label, 2 * label : 2 * label + 3] += 30
        np.savez(home / f"{name}.npz", x=images, y=labels)
    recipe = Recipe(
        architecture="convnorm", dataset=f"{home}/train.npz|{home}/test.npz", learning_rate=2e-3, batch_size=12,
        epochs=1, weights="shared",
    )  # fmt: skip
    details = {"recipe": recipe.model_dump(mode="json"), "overrides": {"jax": {"norm_momentum": 0.9999}}}
    sides = (TrainedSide("torch", accuracy=0.9), TrainedSide("jax", accuracy=0.3))
    with at_home(home), open_store() as store:
        file_study(store, STUDY, ("torch", "jax"), {})
        told = {"torch": (recipe, ALIGNED), "jax": (recipe, ALIGNED)}
        trial = Trial("t0", {"rate": 2e-3}, sides, details=details)
        data = DatasetRecord("d", "stripes", 90)
        file_trial(store, STUDY, trial, TrialFiling(recipe_of=told, dataset=data, versions={"torch": {}, "jax": {}}))


@pytest.mark.slow  # it trains both sides twenty times
def test_a_trial_is_explained_from_its_page(window, workshop):
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    write_trial(workshop[1])
    page = window.visit(f"#/studies/{STUDY}?tab=trials&trial=t0", expect="Explain this trial")
    page.get_by_role("button", name="Explain this trial").click()
    picked = page.get_by_label("The trial that was picked")
    expect(picked.get_by_role("article", name="Explain trial t0")).to_contain_text("Done", timeout=4 * PATIENCE)
    expect(picked.get_by_role("table")).to_contain_text("norm_momentum")
    expect(picked).to_contain_text("All that the command said")
    with at_home(workshop[1]), open_store() as store:
        (filed,) = filed_explanations(store, STUDY)
    assert filed.trial == "t0"
    page.get_by_role("tab", name="Explanations").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("norm_momentum")


@pytest.mark.slow  # of the jobs that the tests above have started
def test_the_page_of_jobs_leads_to_what_they_found(window, workshop):
    page = window.visit("#/jobs", expect="Audit squeezenet1_0 of onnx")
    page.get_by_role("link", name="Result of Diverge").click()
    expect(page.get_by_text("All that was found")).to_be_visible()


def newest(home):
    """The newest comparison of two environments."""
    with at_home(home):
        return next(job for job in job_folders() if "diverge" in job.asked()["command"])


def test_everybody_can_read_it(look_everywhere, workshop):
    job = newest(workshop[1])
    look_everywhere(f"#/diverge/{job.id}", expect="All that was found", url=workshop[0])
    look_everywhere("#/diverge", expect="Result", url=workshop[0])
