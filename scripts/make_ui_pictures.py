"""Write `docs/images/explorer-*.png`: pictures of the explorer over your own store, as docs/ui.md shows them.

Run `zoolens demo` first, so that there is something to see. It needs chromium and the package playwright.

python -m scripts.make_ui_pictures [NAME…]
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

from zoolens.ui.server import running
from zoolens.ui.settings import Settings

TARGET = Path(__file__).parent.parent / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
QUIET = 700  # milliseconds without a request before a picture is taken

# name of the picture -> the view, a text that must be there, and whether it is dark; what else is done is in `prepare`
PICTURES = {
    "models": ("#/models?measured=yes&sort=-claimed_top1", "demo:resnet-tiny", False),
    "run": ("#/run/last?tab=inputs&shown=wrong", "Download as JSON", False),
    "network": ("#/model/demo:resnet-tiny?open=p5.p6&zoom=70", "Network", False),
    "networks": ("#/networks?a=demo:lenet-torch&b=demo:lenet-deep", "Two networks", False),
    "live": ("#/live?with=demo:lenet-torch+in+litert&with=demo:lenet-int8&with=demo:mlp-small", "Waits", False),
}


async def prepare(page: Any, name: str) -> None:
    """What a reader does before there is something to see."""
    if name == "run":
        await page.locator(".gallery img").first.wait_for(timeout=60_000)
    if name in ("network", "networks"):
        await page.locator(".network, .aligned, .state button.primary").first.wait_for(timeout=60_000)
        while await (unread := page.get_by_role("button", name="Read this network")).count():
            await unread.first.click()
            await page.locator(".job.done").first.wait_for(timeout=120_000)
            await page.wait_for_timeout(QUIET)
        await page.locator(".network, .differences").first.wait_for(timeout=60_000)
    if name == "networks":
        await page.locator(".differences").evaluate("list => list.scrollIntoView()")
    if name == "network":
        await page.get_by_role("group", name="How the picture is shown").evaluate("bar => bar.scrollIntoView()")
    if name == "live":
        await page.get_by_role("button", name="Example 3").click()
        for card in await page.get_by_role("article").all():
            await card.get_by_text("this call took").wait_for(timeout=60_000)


async def main(names: list[str]) -> None:
    from playwright.async_api import async_playwright

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    async with running(Settings()) as url, async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name in names or list(PICTURES):
            view, text, dark = PICTURES[name]
            page = await opened.new_page(viewport=SIZE, color_scheme="dark" if dark else "light")
            await page.goto(url + view)
            await page.get_by_text(text).first.wait_for(timeout=60_000)
            await page.get_by_text("Zoos are being listed").wait_for(state="detached", timeout=120_000)
            await prepare(page, name)
            await page.wait_for_timeout(QUIET)
            await page.screenshot(path=TARGET / f"explorer-{name}.png")
            await page.close()
        await opened.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
