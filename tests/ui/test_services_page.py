"""Services that were served, and one that is being served."""

import time

import pytest

pytest.importorskip("playwright")
from browsing import Visitor, at_home, serving
from playwright.sync_api import expect

# Every view is opened in the quick suite by test_hostile_content.py and test_every_view.py; what a person does on
# this page is tried by `make test-ui`.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def service_explorer(tmp_path_factory):
    from zoolens import open_store
    from zoolens.faces.serving.services.definition import Service
    from zoolens.faces.serving.services.events import AnswerCounts, EventKind, EventLog, ObjectiveCounts, ServiceEvent
    from zoolens.faces.ui.settings import Settings

    second = 10**9
    now = time.time_ns()
    with at_home(tmp_path_factory.mktemp("services")):
        open_store().close()
        for name, ends in (("digits", True), ("clothes", False)):
            log = EventLog(None, {name: Service.model_construct(reference="demo:lenet-wide")})
            entries = [
                ServiceEvent(EventKind.START, "It begins.", model="demo:lenet-wide", time=now - 20 * second),
                AnswerCounts("demo:lenet-wide", "litert", 900, 900, time=now - 10 * second),
                ServiceEvent(
                    EventKind.SWITCH, "the queue is long", "demo:lenet-int8", "demo:lenet-wide", 40, now - 9 * second
                ),
                AnswerCounts("demo:lenet-int8", "litert", 100, 100, time=now - second),
                ObjectiveCounts(1000, 990, 0, 0.02, 95.0, time=now - second),
            ]
            entries += [ServiceEvent(EventKind.STOP, "It ends.", time=now)] if ends else []
            for entry in entries:
                log.record(name, entry)
            log.close()
        log = EventLog(None, {"restless": Service.model_construct(reference="demo:lenet-wide")})
        models = ("demo:lenet-wide", "demo:lenet-int8")
        log.record("restless", ServiceEvent(EventKind.START, "It begins.", model=models[0], time=now - 90 * second))
        for place in range(40):
            previous, model = models[place % 2], models[1 - place % 2]
            reason = f"the queue is short for {place} s" if place % 2 else f"{place // 2} requests wait"
            log.record(
                "restless",
                ServiceEvent(EventKind.SWITCH, reason, model, previous, place, time=now - (80 - 2 * place) * second),
            )
        log.close()
        with serving(Settings(server="http://127.0.0.1:9")) as url:  # where nobody answers
            yield url


@pytest.fixture
def watcher(chromium, service_explorer):
    made = Visitor(chromium, service_explorer)
    yield made
    made.check()
    made.close()


def test_sessions_are_listed_with_their_state(watcher):
    page = watcher.visit("#/services", expect="digits")
    expect(page.get_by_role("alert")).to_contain_text("The server http://127.0.0.1:9 does not publish its metrics")
    assert "Stopped" in page.get_by_role("row").filter(has_text="digits").inner_text()
    running = page.get_by_role("row").filter(has_text="clothes").inner_text()
    assert "Answers now" in running
    assert "demo:lenet-int8" in running
    assert "1,000" in running
    assert "99.00 % within 20 ms" in running


def test_a_session_tells_who_answered_and_why_it_switched(watcher):
    page = watcher.visit("#/services", expect="digits")
    page.get_by_role("link", name="digits").click()
    expect(page.get_by_role("heading", name="digits")).to_be_visible()
    words = page.locator("main")
    expect(words).to_contain_text("900 of 1,000 requests were answered by demo:lenet-wide in litert.")
    expect(words).to_contain_text("the objective of 95 % was kept")
    expect(words).to_contain_text("demo:lenet-wide → demo:lenet-int8: the queue is long")
    page.locator("main svg.marks").wait_for()
    expect(words).to_contain_text("The time of each request is not stored")


def test_events_that_say_the_same_are_one_line(watcher):
    page = watcher.visit("#/services", expect="restless")
    page.get_by_role("link", name="restless").click()
    rows = page.get_by_role("group", name="Events").locator("tbody tr")
    expect(rows).to_have_count(3)  # 41 events
    there = rows.filter(has_text="demo:lenet-wide → demo:lenet-int8")
    assert there.locator("td").nth(2).inner_text() == "20"
    there.locator("summary").click()
    expect(there.get_by_role("listitem")).to_have_count(20)
    expect(there.get_by_role("listitem").first).to_contain_text("19 requests wait")


def test_no_service_is_said(visitor):
    visitor.visit("#/services", expect="No service was served yet.")
    assert "zoolens ui --server http://127.0.0.1:8000 shows here what a running server does." in visitor.text()


def test_everybody_can_read_it(look_everywhere, service_explorer):
    look_everywhere("#/services", expect="digits", url=service_explorer)
