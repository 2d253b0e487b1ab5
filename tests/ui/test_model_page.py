"""One model, as a person looks at it."""

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import expect
from tests.ui.conftest import at_home

import zoolens
from zoolens.base.present.figures import count
from zoolens.base.store.store import open_store
from zoolens.findings.audit.claims_chart import claims_beside
from zoolens.findings.graph.diff.network_layout import heat, network_layout

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

MODEL = "demo:lenet-torch@1.0.0"


def test_claims_stand_beside_what_was_measured(visitor, explored_home):
    page = visitor.visit(f"#/model/{MODEL}?tab=claims", expect="Claimed and measured accuracy")
    with at_home(explored_home), open_store() as store:
        (claim,) = claims_beside(store, zoolens.find_model(MODEL))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    words = rows.inner_text()
    assert f"{100 * claim.value:.4g} %" in words
    assert claim.dataset in words
    for run in claim.measured:
        assert f"{100 * run.value:.4g} %" in words
        assert run.judgement in words


def test_the_network_and_its_cost_are_drawn(visitor, explored_home):
    page = visitor.visit(f"#/model/{MODEL}", expect="counted from the network")
    with at_home(explored_home):
        graph = zoolens.graph_of(MODEL)
    spent, layout = zoolens.cost(graph), network_layout(graph)
    assert f"{count(spent.macs)} multiply-accumulates" in visitor.text()
    expect(page.locator(".chart")).to_contain_text("Cost by layer of demo:lenet-torch")
    boxes = page.get_by_role("group", name="The network of lenet-torch").locator(".box.layer")
    expect(boxes).to_have_count(len(graph))
    for place, part in enumerate(layout.parts):
        words = boxes.nth(place).inner_text()
        assert part.title in words
        assert part.shape in words
        if part.amounts["macs"]:
            share = layout.share(part.amounts, "macs")
            assert f"{count(part.amounts['macs'])} · {100 * share:.1f} %" in words
            assert f"heat-{heat(share)}" in boxes.nth(place).get_attribute("class")


def test_replacing_it_takes_two_clicks(visitor):
    page = visitor.visit(f"#/model/{MODEL}", expect="Replace this model")
    page.get_by_role("link", name="Replace this model").click()
    expect(page.get_by_role("combobox", name="Query")).to_have_value(
        "CORR demo:lenet-torch WITHIN 90% ON size <= 100% AND latency <= 100%"
    )
    expect(page.locator(".verdict")).to_be_visible()


def test_how_the_networks_of_two_models_differ(visitor, explored_home):
    here = f"#/model/{MODEL}?tab=namesakes"
    visitor.visit(here, expect="No other model here has its name")
    visitor.visit(f"{here}&other=demo:lenet-jax@1.0.0", expect="zoolens cost demo:lenet-jax")  # it was not read yet
    visitor.visit(f"{here}&other={MODEL}", expect="The same network (both are one file).")


def test_runs_over_time_and_manifest(visitor):
    page = visitor.visit(f"#/model/{MODEL}?tab=history", expect="Top-1 over time")
    expect(page.locator(".chart")).to_contain_text("2 runs on")
    page.get_by_role("tab", name="Manifest").click()
    expect(page.locator("pre.explanation")).to_contain_text("name: lenet-torch")


def test_a_model_that_nobody_knows_and_a_path_are_refused(visitor):
    for name in ("zoo:nothing", "../../etc/passwd", "/etc/passwd"):
        page = visitor.page
        page.goto("about:blank")
        page.goto(f"{visitor.url}#/model/{name}")
        expect(page.get_by_role("alert")).to_contain_text("There is no")
    page.goto("about:blank")
    visitor.problems[:] = [problem for problem in visitor.problems if "404" not in problem]


def test_everybody_can_read_it(look_everywhere):
    look_everywhere(f"#/model/{MODEL}?tab=claims", expect="Claimed and measured accuracy")
