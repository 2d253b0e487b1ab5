"""What tests of the explorer need: a store made once, a server on a free port, and a real browser.

`visit` opens a page as a user does and asserts what holds for every page; `look_everywhere` does so in light and dark,
wide and narrow, and lets axe look for what keeps people out.
"""

import shutil
from contextlib import ExitStack

import pytest
from browsing import (
    CONTRAST,
    EVERYTHING_BUT_CONTRAST,
    QUICK_ZOOS,
    SCHEMES,
    SCREENS,
    Visitor,
    assert_accessible,
    at_home,
    axe_script,
    keep_picture,
    serving,
)


@pytest.fixture(scope="session")
def explored_home(tmp_path_factory):
    """A home whose store has a few models in two runtimes; made once for all tests. Read only."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    import zoolens
    from zoolens import EvaluationPlan, open_store, trusting
    from zoolens.measure.evaluate import carry_out
    from zoolens.measure.jobs import Wanted
    from zoolens.measure.latency import LatencySettings
    from zoolens.progress import Silent

    home = tmp_path_factory.mktemp("explored")
    with at_home(home), trusting():
        plan = EvaluationPlan(
            models=["demo:lenet-torch", "demo:lenet-int8"],
            data="demo",
            limit=200,
            wanted=Wanted(runtimes=("onnxruntime", "litert")),
            latency=LatencySettings(max_seconds=0.05),
            cold=False,
        )
        with open_store() as store:
            assert not [outcome for outcome in carry_out(plan, store, Silent()) if outcome.failed]
            zoolens.graph_of("demo:lenet-torch", store=store)
    return home


@pytest.fixture(scope="session")
def listed_zoos():
    """The zoos that the explorers of these tests list: `serving` sees to it."""
    return QUICK_ZOOS


@pytest.fixture(scope="session")
def explorer(explored_home):
    """The address of a server over `explored_home`."""
    from zoolens.ui.settings import Settings

    with ExitStack() as stack:
        with at_home(explored_home):  # while it starts: other tests of this process have homes of their own
            url = stack.enter_context(serving(Settings()))
        yield url


# --- the browser


@pytest.fixture(scope="module")  # no longer: its event loop runs on, and other tests of the process need their own
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("NO BROWSER: install Debian's chromium to see the explorer as a user does")
    playwright = pytest.importorskip("playwright.sync_api", reason="PLAYWRIGHT ABSENT: the explorer was not looked at")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visitor(chromium, explorer):
    """A window of 1280 × 900 in light colours."""
    made = Visitor(chromium, explorer)
    yield made
    made.check()
    made.close()


@pytest.fixture
def look_everywhere(chromium, explorer):
    """Open a view light and dark, wide and narrow: nothing is wider than the window, and axe finds nothing serious."""

    def look(view, expect=None, url=None):
        seen = Visitor(
            chromium, url or explorer, bypass_csp=True
        )  # axe is a script of ours that the page does not know
        try:
            page = seen.visit(view, expect)
            page.add_script_tag(path=axe_script())
            for name, (width, height) in SCREENS.items():
                page.set_viewport_size({"width": width, "height": height})
                wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wider <= 0, f"{view} is {wider} pixels wider than a window of {width}"
                assert_accessible(page, EVERYTHING_BUT_CONTRAST, f"{view}, {name}")
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    keep_picture(page, f"{view}-{scheme}-{width}")
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                assert_accessible(page, CONTRAST, f"{view}, {scheme}")
            seen.check()
        finally:
            seen.close()

    return look
