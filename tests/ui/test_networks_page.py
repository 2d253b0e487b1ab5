"""Networks in the browser: read by a job, unfolded, zoomed, and side by side from a finding of an audit."""

import json
import re

import pytest

pytest.importorskip("playwright")
pytest.importorskip("onnxruntime")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

import zoolens
from zoolens.base.present.figures import count
from zoolens.findings.audit.audit_findings import Finding, Severity
from zoolens.findings.graph.diff.network_layout import network_layout

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow

SHALLOW, DEEP, BLOCKS = (f"demo:{name}@1.0.0" for name in ("lenet-torch", "lenet-deep", "resnet-tiny"))
PATIENCE = 120_000  # milliseconds for a job


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, explorer):
    """The address of an explorer whose jobs really run, and its home. The network of DEEP is not read yet."""
    from zoolens.faces.ui.settings import Settings
    from zoolens.findings.graph.structures.structure import structure_of

    home = tmp_path_factory.mktemp("workshop")
    with at_home(home), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_ZOO_PATH", str(home))
        structure_of([SHALLOW, BLOCKS])
        with serving(Settings()) as url:
            yield url, home


@pytest.fixture
def window(chromium, workshop):
    made = Visitor(chromium, workshop[0])
    yield made
    made.check()
    made.close()


@pytest.mark.slow
def test_a_network_that_is_not_known_is_read_by_a_job(window, workshop):
    page = window.visit(f"#/model/{DEEP}", expect="Its network was not read yet.")
    page.get_by_role("button", name="Read this network").click()
    expect(page.get_by_text("counted from the network")).to_be_visible(timeout=PATIENCE)
    with at_home(workshop[1]):
        spent = zoolens.cost(zoolens.graph_of(DEEP))
    assert f"{count(spent.macs)} multiply-accumulates, {count(spent.parameters)} parameters" in window.text()


def test_blocks_unfold_and_the_address_keeps_it(window, workshop):
    with at_home(workshop[1]):
        layout = network_layout(zoolens.graph_of(BLOCKS))
    place, part = next((place, part) for place, part in enumerate(layout.parts) if not part.single)
    page = window.visit(f"#/model/{BLOCKS}", expect="counted from the network")
    network = page.get_by_role("group", name="The network of resnet-tiny")
    folded = network.get_by_role("button", name=re.compile(rf"^{part.title} "), expanded=False).first
    layers = network.locator(".box.layer")
    singles = sum(part.single for part in layout.parts)
    expect(layers).to_have_count(singles)
    folded.focus()
    page.keyboard.press("Enter")
    expect(layers).to_have_count(singles + part.blocks[0].count)
    for layer in part.blocks[0].layers:
        expect(network).to_contain_text(layer.words)
    page.wait_for_url(f"**open=p{place}")
    page.get_by_role("button", name="Unfold all").click()
    expect(layers).to_have_count(layout.layers)
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(layers).to_have_count(singles)
    stage = network.get_by_role("button", name=re.compile(r"^stage 1"))
    stage.click()
    expect(stage).to_have_attribute("aria-expanded", "false")


def test_the_picture_is_zoomed_with_buttons_keys_and_the_wheel(window):
    page = window.visit(f"#/model/{BLOCKS}?zoom=100", expect="counted from the network")
    network = page.get_by_role("group", name="The network of resnet-tiny")
    zoom = page.get_by_role("group", name="How the picture is shown").locator("[aria-live]")
    page.get_by_role("button", name="Larger").click()
    expect(zoom).to_have_text("125 %")
    network.focus()
    page.keyboard.press("-")
    expect(zoom).to_have_text("100 %")
    network.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -150)
    page.keyboard.up("Control")
    expect(zoom).to_have_text("165 %")
    page.get_by_role("button", name="Fit").click()
    expect(zoom).not_to_have_text("165 %")
    fits = network.evaluate("frame => frame.scrollHeight <= frame.clientHeight + 1")
    assert fits


def test_colours_are_those_of_the_cost_that_is_chosen(window):
    page = window.visit(f"#/model/{BLOCKS}", expect="counted from the network")
    legend = page.get_by_role("list", name="Share of the network's multiply-accumulates")
    expect(legend).to_contain_text("40 % and more")
    page.get_by_label("Colour by").select_option("parameters")
    expect(page.get_by_role("list", name="Share of the network's parameters")).to_be_visible()


@pytest.mark.slow
def test_a_model_that_was_added_is_listed_when_asked_for(window, workshop):
    page = window.visit("#/models?q=added", expect="No model fits.")
    (workshop[1] / "added.yaml").write_text(
        "zoolens: 1\nname: added\ninputs: [{shape: [null, 1, 28, 28]}]\noutputs: [{}]\nassets: []\n", encoding="utf-8"
    )
    page.get_by_role("button", name="List the zoos again").click()
    expect(page.get_by_role("link", name="folder:added")).to_be_visible(timeout=PATIENCE)
    page.get_by_role("link", name="folder:added").click()
    expect(page.get_by_text("there is no importer for")).to_be_visible()
    expect(page.get_by_role("button", name="Read this network")).to_have_count(0)


@pytest.fixture(scope="module")
def finding(workshop):
    """The id of an audit's job with a finding about two networks; a third one is odd in the same way."""
    from zoolens.faces.ui.jobs.folder import make_job_folder
    from zoolens.findings.audit.report.test_report import audit

    with at_home(workshop[1]):
        about = Finding(
            "structure/depth", Severity.HIGH, "lenet", (BLOCKS, SHALLOW, SHALLOW), "LeNet: these are not one network",
            ("one has more blocks",), "Say which one you mean.",
        )  # fmt: skip
        data = audit().as_data() | {"findings": [about.as_data()]}
        job = make_job_folder("audit", "Audit lenet", {}, ["audit", "--json"])
        job.output_file.write_text(json.dumps(data), encoding="utf-8")
        job.write_end(0)
        return job.id


def test_a_finding_opens_both_networks_side_by_side(window, workshop, finding):
    page = window.visit(f"#/audit/{finding}", expect="LeNet: these are not one network")
    page.get_by_role("link", name="Both networks side by side").click()
    with at_home(workshop[1]):
        found = zoolens.diff(*map(zoolens.graph_of, (BLOCKS, SHALLOW)), names=("demo:resnet-tiny", "demo:lenet-torch"))
    expect(page.locator(".verdict")).to_have_text(f"different {found.headline}")
    sentences = page.locator(".differences li")
    expect(sentences).to_have_count(len(found.differences))
    for place, difference in enumerate(found.differences):
        assert difference.text in sentences.nth(place).inner_text()
    table = page.get_by_role("table", name="Both networks, part by part")
    heads, cells = table.locator("thead th"), table.locator("tr.part").first.locator("td")
    for place in range(3):
        assert heads.nth(place).bounding_box()["x"] == cells.nth(place).bounding_box()["x"]
    words = table.inner_text()
    assert "differs" in words
    assert "only in A" in words
    placed = next(number for number, one in enumerate(found.differences, 1) if one.findings)
    sentences.nth(placed - 1).get_by_role("button", name=f"Difference {placed}", exact=True).click()
    expect(table.locator("tr.picked").first).to_be_visible()
    for row in table.locator("tr.picked").all():
        expect(row.get_by_role("button", name=f"Difference {placed}", exact=True)).to_be_visible()
    page.wait_for_url(f"**mark={placed}*")
    page.get_by_role("combobox", name="Show").select_option("only what is not the same")
    expect(table.locator("tr.beside-same.part")).to_have_count(0)
    page.get_by_role("link", name="Findings of the audit").click()
    expect(page.get_by_text("LeNet: these are not one network")).to_be_visible()


def test_everybody_can_read_it(look_everywhere, workshop):
    look_everywhere(f"#/networks?a={BLOCKS}&b={SHALLOW}&mark=1", expect="Side by side", url=workshop[0])
    look_everywhere(f"#/model/{BLOCKS}?open=p4.p5.p6", expect="counted from the network", url=workshop[0])
