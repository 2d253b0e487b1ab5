"""A server of the explorer in this process, and a browser window that notices what goes wrong in it."""

import asyncio
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

SCREENS = {"wide": (1280, 900), "narrow": (400, 800)}
SCHEMES = ("light", "dark")
USUAL = {"forced_colors": "none", "contrast": "no-preference"}
# Who asks for more contrast, and who lets the system choose all colours (high contrast of Windows).
CONTRASTS = {
    "more contrast": {"color_scheme": "light", "forced_colors": "none", "contrast": "more"},
    "colours of the system": {"color_scheme": "dark", "forced_colors": "active", "contrast": "more"},
}
QUICK_ZOOS = ("demo", "folder", "package")
IMPACTS = ("moderate", "serious", "critical")  # of what axe finds; its "minor" ones are matters of taste
PATIENCE = 20_000  # milliseconds


@contextmanager
def at_home(home):
    """All of zoolens in this process looks into this home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(home))
        patch.delenv("ZOOLENS_STORE", raising=False)
        patch.delenv("ZOOLENS_ZOO_PATH", raising=False)
        yield


@contextmanager
def serving(settings):
    """A server of the explorer in a thread of this process; gives its address. Without zoos of its own it lists those
    that need no framework: others would take a minute in a fresh home."""
    from zoolens.faces.ui.server import running

    settings = settings if settings.zoos else replace(settings, zoos=QUICK_ZOOS)

    loop = asyncio.new_event_loop()
    ready, address, failure = threading.Event(), [], []
    end = asyncio.Event()

    async def main():
        try:
            async with running(settings) as url:
                address.append(url)
                ready.set()
                await end.wait()
        except BaseException as error:
            failure.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    try:
        assert ready.wait(60)
        if failure:
            raise failure[0]
        yield address[0]
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(30)
        loop.close()


class Visitor:
    """One browser window, and what went wrong in it.

    A window that was closed is used again by the next visitor of the same browser who wants the same options: to open
    one takes longer than most tests. One to which a test has added listeners of its own is not used again.
    """

    _unused: ClassVar[dict] = {}
    _numbers: ClassVar = count()

    def __init__(self, browser, url, **options):
        self.url, self.problems, self.outside = url, [], []
        options = {"viewport": dict(zip(("width", "height"), SCREENS["wide"], strict=True)), **options}
        self._kind = browser, json.dumps(options, sort_keys=True)
        if unused := self._unused.get(self._kind):
            self.window, self.page = unused.pop()
            self.page.set_viewport_size(options["viewport"])
            self.page.emulate_media(color_scheme=options.get("color_scheme"), **USUAL)
        else:
            self.window = browser.new_context(**options)
            self.page = self.window.new_page()
        self.page.set_default_timeout(PATIENCE)
        self._others = listeners(self.page)
        self._ours = {
            "console": self._hear,
            "pageerror": lambda error: self.problems.append(str(error)),
            "request": lambda request: self._watch(request.url),
        }
        for event, listener in self._ours.items():
            self.page.on(event, listener)
        self._open = True

    def _hear(self, message):
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _watch(self, url):
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self.url).netloc:
            self.outside.append(url)

    def visit(self, view="", expect=None):
        """Open a view such as "#/models?q=lenet" anew and wait for `expect`, a text of it; gives the page."""
        # Another query makes the browser load the page again, and not only change its view; a blank page between the
        # two would take a process of its own.
        self.page.goto(f"{self.url}?{next(self._numbers)}{view}")
        self.page.wait_for_selector("main h1, main .state")
        if expect is not None:
            self.page.get_by_text(expect).filter(visible=True).first.wait_for()
        expect_none(self.page.locator("main .loading"))
        self.check()
        return self.page

    def check(self):
        """No error was written to the console, and nothing was asked of anybody else."""
        assert not self.problems, self.problems
        assert not self.outside, self.outside

    def text(self):
        """What a person reads on the page."""
        return self.page.inner_text("main")

    def close(self):
        if not self._open:
            return
        self._open = False
        for event, listener in self._ours.items():
            self.page.remove_listener(event, listener)
        if listeners(self.page) == self._others and not self.page.is_closed() and len(self.window.pages) == 1:
            self.page.unroute_all(behavior="ignoreErrors")
            self.window.clear_cookies()
            self.page.goto("about:blank")  # nothing of the page goes on
            self._unused.setdefault(self._kind, []).append((self.window, self.page))
        else:
            self.window.close()


def expect_none(locator):
    """None of them is there, or soon none is."""
    from playwright.sync_api import expect

    expect(locator).to_have_count(0, timeout=PATIENCE)


def listeners(page):
    """How many listeners a page has for each event."""
    emitter = page._impl_obj
    return {event: count for event in emitter.event_names() if (count := len(emitter.listeners(event)))}


EVERYTHING_BUT_CONTRAST = (
    "axe.run(document, {resultTypes: ['violations'], rules: {'color-contrast': {enabled: false}}})"
)
CONTRAST_OF_EVERYTHING = "axe.run(document, {resultTypes: ['violations'], runOnly: ['color-contrast']})"
# It takes seconds for hundreds of elements, most of which look alike.
CONTRAST_OF_EACH_LOOK = """(() => {
  const looks = new Map();
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    if (!element.checkVisibility()) continue;
    const chain = [];
    for (let up = element; up && chain.length < 8; up = up.parentElement) chain.push(up.tagName, up.className);
    const style = getComputedStyle(element);
    const look = [...chain, style.color, style.backgroundColor, style.fontSize, style.opacity].join("|");
    if (!looks.has(look)) looks.set(look, element);
  }
  return axe.run({ include: [...looks.values()] }, { resultTypes: ["violations"], runOnly: ["color-contrast"] });
})()"""


def look_at(browser, url, view, expect, *, thoroughly):
    """Open a view: nothing is wider than the window, and axe finds no more than matters of
    taste. Narrow and dark, or `thoroughly` in every size, colour and contrast and at every element."""
    window = Visitor(browser, url, bypass_csp=True)  # axe is a script that the page does not know
    try:
        page = window.visit(view, expect)
        page.add_script_tag(path=axe_script())
        if thoroughly:
            media = {scheme: {"color_scheme": scheme, **USUAL} for scheme in SCHEMES} | CONTRASTS
            for screen, (way, asked) in product(SCREENS, media.items()):
                _look(page, view, (screen, way, asked), CONTRAST_OF_EVERYTHING)
        else:
            _look(page, view, ("narrow", "dark", {"color_scheme": "dark"}), CONTRAST_OF_EACH_LOOK)
        window.check()
    finally:
        window.close()


def _look(page, view, way, contrast):
    screen, name, media = way
    width, height = SCREENS[screen]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(**media)
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0, f"{view} is {wider} pixels wider than a window of {width}"
    keep_picture(page, f"{view}-{name}-{width}")
    for rules in (EVERYTHING_BUT_CONTRAST, contrast):
        assert_accessible(page, rules, f"{view}, {screen}, {name}")


def axe_script():
    package = pytest.importorskip("axe_playwright_python", reason="AXE ABSENT: accessibility was not looked at")
    return Path(package.__file__).parent / "axe.min.js"


def assert_accessible(page, look, where):
    found = [
        f"{one['id']}: {one['help']}: {json.dumps([node['html'][:200] for node in one['nodes'][:3]])}"
        for one in page.evaluate(look)["violations"]
        if one["impact"] in IMPACTS
    ]
    assert not found, f"{where}: {found}"


def keep_picture(page, name):
    """Where ZOOLENS_UI_PICTURES names a folder, a picture of the page is kept there, to be looked at."""
    if folder := os.environ.get("ZOOLENS_UI_PICTURES"):
        safe = "".join(sign if sign.isalnum() else "-" for sign in name).strip("-")
        page.screenshot(path=Path(folder) / f"{safe}.png")
