"""What tests of the explorer need: a store made once, a server on a free port, and a real browser.

`visit` opens a page as a user does and asserts what holds for every page; `look_everywhere` also lets axe look for what
keeps people out.
"""

import asyncio
import fcntl
import os
import shutil
from contextlib import ExitStack

import pytest
from browsing import PATIENCE, QUICK_ZOOS, Visitor, at_home, look_at, serving


@pytest.fixture(scope="session")
def explored_home(tmp_path_factory):
    """A home whose store has a few models in two runtimes: a copy for this process of what is made once for all
    processes of this test run. Read only."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    base = tmp_path_factory.getbasetemp()
    made = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-explored"
    made.mkdir(exist_ok=True)
    with (made / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            evaluate_a_few(made / "home")
            (made / "complete").touch()
    home = tmp_path_factory.mktemp("explored") / "home"
    shutil.copytree(made / "home", home)
    return home


def evaluate_a_few(home):
    import zoolens
    from zoolens import EvaluationPlan, open_store, trusting
    from zoolens.base.progress import Silent
    from zoolens.findings.measure.evaluate import carry_out
    from zoolens.findings.measure.jobs import RunOptions
    from zoolens.findings.measure.latency import LatencySettings

    home.mkdir(exist_ok=True)
    write_text_models(home / "texts")
    with at_home(home), trusting():
        plan = EvaluationPlan(
            models=["demo:lenet-torch", "demo:lenet-int8"],
            data="demo",
            limit=200,
            wanted=RunOptions(runtimes=("onnxruntime", "litert")),
            latency=LatencySettings(max_seconds=0.05),
            cold=False,
        )
        with open_store() as store:
            assert not [outcome for outcome in carry_out(plan, store, Silent()) if outcome.failed]
            zoolens.graph_of("demo:lenet-torch", store=store)


def write_text_models(folder):
    from zoolens.testing.text_models import write_classifier, write_embedder

    pytest.importorskip("onnx")
    folder.mkdir()
    write_classifier(folder)
    write_embedder(folder, steps=("mean", "l2_normalize"), special_tokens=False)


@pytest.fixture(scope="session")
def listed_zoos():
    """The zoos that the explorers of these tests list: `serving` sees to it."""
    return QUICK_ZOOS


@pytest.fixture(scope="session")
def explorer(explored_home):
    """The address of a server over `explored_home`."""
    from zoolens.faces.ui.settings import Settings

    with ExitStack() as stack:
        with at_home(explored_home):  # while it starts: other tests of this process have homes of their own
            url = stack.enter_context(serving(Settings(allowed=(explored_home / "texts",))))
        yield url


# --- the browser

# All pages of a window share a process. To start another one for each page takes as long as to show it (a window that
# is opened, shows a page and is closed: 1.0 → 0.7 s of CPU).
ONE_PROCESS = ("--renderer-process-limit=1", "--disable-site-isolation-trials")


@pytest.fixture(scope="session")
def started_browser():
    """A browser that is started once, and the event loop of its driver. The loop is hidden again: it runs on, and
    other tests of this process need loops of their own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("NO BROWSER: install Debian's chromium to see the explorer as a user does")
    playwright = pytest.importorskip("playwright.sync_api", reason="PLAYWRIGHT ABSENT: the explorer was not looked at")
    playwright.expect.set_options(timeout=PATIENCE)  # of 5 s, a busy machine may need more for one page
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", *ONE_PROCESS])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield browser, loop
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture(scope="module")
def chromium(started_browser):
    """The browser, for the tests of one file."""
    browser, loop = started_browser
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


@pytest.fixture
def visitor(chromium, explorer):
    """A window of 1280 × 900 in light colours."""
    made = Visitor(chromium, explorer)
    yield made
    made.check()
    made.close()


@pytest.fixture(params=[pytest.param("every way", marks=pytest.mark.slow)])
def look_everywhere(chromium, explorer):
    """Open a view: nothing is wider than the window, and axe finds no more than matters of taste, in every way and at
    every element. This takes seconds: the usual suite looks at a view of each kind instead (test_every_view.py)."""

    def look(view, expect=None, url=None):
        look_at(chromium, url or explorer, view, expect, thoroughly=True)

    return look


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The address of an explorer with something on every page, and the names that the views in `made_home` need."""
    from made_home import PLAIN, explored

    with explored(tmp_path_factory.mktemp("whole"), PLAIN) as made:
        yield made
