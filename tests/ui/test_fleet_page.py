"""The fleet, as a person reads it: machines, what runs where, and models on kinds of machine."""

import urllib.request

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

from zoolens.base.store.agents import AgentRecord, publish_agent
from zoolens.base.store.jobs import write_jobs
from zoolens.findings.comparisons.test_kind_grid import LARGE, measured, stack
from zoolens.inventory.fleet.agent_facts import describe_agent
from zoolens.testing.job_contract import DRIVER, job

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, explorer):
    """The address of an explorer with two agents, jobs, and models on three kinds of machine."""
    from zoolens import open_store
    from zoolens.faces.ui.settings import Settings

    with at_home(tmp_path_factory.mktemp("fleet")):
        with open_store() as store:
            facts = describe_agent().as_data()
            publish_agent(store, AgentRecord("a", "ant", "k1", facts, 3_600.0, ("eval zoo:net",)))
            publish_agent(store, AgentRecord("b", "bee", "k1", facts, 1e-6))
            write_jobs(
                store, {**DRIVER, "lease": 3_600.0}, [job("0123456789abcdef", state="running", log=[[1.0, "half"]])]
            )
            measured(store, ms=10.0)
            measured(store, where=stack(version="1.24.1"), ms=13.1)
            measured(store, "zoo:other@1.0.0", stack(LARGE), ms=5.0)
        with serving(Settings()) as url:
            yield url


@pytest.fixture
def reader(chromium, fleet):
    window = Visitor(chromium, fleet)
    yield window
    window.check()
    window.close()


def test_machines_and_jobs(reader):
    page = reader.visit("#/fleet", expect="ant")
    row = page.get_by_role("row").filter(has_text="bee")
    expect(row).to_contain_text("Lost")
    page.get_by_role("tab", name="What runs where").click()
    page.get_by_role("link", name="zoo:0123456789abcdef").click()
    expect(page.get_by_role("group", name="Log")).to_contain_text("half")
    expect(page.get_by_text("zoolens fleet cancel 0123456789ab")).to_be_visible()


def test_the_grid_is_chosen_searched_and_explained(reader):
    page = reader.visit("#/fleet?tab=grid", expect="zoo:net@1.0.0")
    expect(page.get_by_text("not measured", exact=True).first).to_be_visible()
    page.get_by_label("Figure").select_option("latency")
    page.wait_for_url("**quantity=latency*")
    mark = page.get_by_text("1.31 × the time")
    mark.first.click()
    expect(page.locator("details[open]").get_by_text("onnxruntime 1.24.1 instead of 1.31.1").first).to_be_visible()
    expect(page.get_by_role("region", name="What is worse")).to_contain_text("1.31 × [1.22, 1.41]")
    page.get_by_label("Search models").fill("other")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_text("Kinds", exact=True).click()
    page.get_by_role("checkbox", name="Large, 64 cores").uncheck()
    expect(page.locator("thead th.kind-head").filter(has_text="Large")).to_have_count(0)
    page.wait_for_url("**kind=*")


def test_a_store_without_anything_says_what_to_do(chromium, tmp_path):
    from zoolens import open_store
    from zoolens.faces.ui.settings import Settings

    with at_home(tmp_path):
        open_store().close()
        with serving(Settings()) as url:
            window = Visitor(chromium, url)
            window.visit("#/fleet", expect="zoolens agent")
            window.visit("#/fleet?tab=jobs", expect="--on each-kind")
            window.visit("#/fleet?tab=grid", expect="zoolens store copy")
            window.close()


def test_prometheus_can_ask_the_explorer(fleet):
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(f"{fleet}metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert {"zoolens_fleet_agents", "zoolens_fleet_jobs", "zoolens_store_runs"} <= families


def test_everybody_can_read_it(look_everywhere, fleet):
    for view, text in (("", "ant"), ("?tab=jobs", "Now"), ("?tab=grid&quantity=latency", "1.31 ×")):
        look_everywhere(f"#/fleet{view}", expect=text, url=fleet)
