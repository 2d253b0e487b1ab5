"""Write `docs/images/explorer-*.png`: pictures of the explorer over your own store, as docs/ui.md shows them.

Before it, so that there is something to see:

    zoolens demo
    zoolens trace demo:lenet-wide --runtime onnxruntime --runtime litert
    zoolens crosstrain import $ZOOLENS_ASSETS/crossedwires
    zoolens serve service.yaml    # of docs/serve.md, with `zoolens load` against it

    python -m scripts.write_text_zoo zoo    # and ZOOLENS_ZOO_PATH=zoo for this script

and in the explorer (`zoolens ui`) an audit of two zoos, such as torchvision and keras with the architecture resnet50,
and a job of the page *Diverge*. Pictures of what the store does not have are left out. It needs chromium and the
package playwright.

python -m scripts.make_ui_pictures [NAME…]
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoolens.faces.ui.server import running
from zoolens.faces.ui.settings import Settings

TARGET = Path(__file__).parent.parent / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
QUIET = 700  # milliseconds without a request before a picture is taken
PATIENCE = 60_000  # milliseconds
TOOK = re.compile("(this call|these calls) took", re.IGNORECASE)


@dataclass(frozen=True)
class Picture:
    """A view, and a text that must be there. {names} in the view are found out by `names_of`."""

    view: str
    text: str
    dark: bool = False


PICTURES = {
    "models": Picture("#/models?measured=yes&sort=-claimed_top1", "demo:resnet-tiny"),
    "network": Picture("#/model/demo:resnet-tiny?open=p5.p6&zoom=70", "Network"),
    "choose": Picture("#/choose?q=CORR+demo:lenet-wide+WITHIN+90%25+ON+size+%3C%3D+60%25", "fits best"),
    "runs": Picture("#/runs?sort=-top1", "evaluations.", dark=True),
    "run": Picture("#/run/{run}?tab=inputs&shown=wrong", "Download as JSON"),
    "compare": Picture("#/compare?a={run}&b={other}", "Environment difference"),
    "diverge": Picture("#/diverge/{diverge}", "first layer beyond rounding"),
    "audit": Picture("#/audit/{audit}", "findings, the gravest first"),
    "networks": Picture("#/networks?a=demo:lenet-torch&b=demo:lenet-deep", "Two networks"),
    "traces": Picture("#/traces/{trace}?tab=compare&with={other_trace}", "All differences"),
    "crosstrain": Picture("#/studies/{study}", "The whole space", dark=True),
    "live": Picture("#/live?with=demo:lenet-torch+in+litert&with=demo:lenet-int8&with=demo:mlp-small", "Waits"),
    "live-text": Picture(
        "#/live?input=text&model=folder:word-average&model=folder:bi-gru+in+onnxruntime&model=folder:minilm"
        "&text=A+wonderful+film:+warm,+funny+and+far+too+short.&text=I+loved+this+movie."
        "&text=The+train+to+Berlin+was+late+again.",
        "Add a text",
    ),
    "services": Picture("#/services/{session}", "Events"),
    "api": Picture("#/api", "/api/v1/models"),
    "jobs": Picture("#/jobs", "A job does what the command below it does"),
}


async def names_of(page: Any, url: str) -> dict[str, str]:
    """What the views are about: the most accurate run and another one, and the newest of everything else."""

    async def rows(path: str) -> list[dict[str, Any]]:
        answer = await (await page.request.get(f"{url}api/v1{path}")).json()
        listed: list[dict[str, Any]] = answer.get("rows", [])
        return listed

    runs = [row["id"] for row in await rows("/runs?sort=-top1")]
    names = dict(zip(("run", "other"), runs[::4], strict=False))  # four further on it is another model
    names |= dict(zip(("trace", "other_trace"), [row["id"] for row in await rows("/traces")], strict=False))
    for name, path in (("audit", "/audits"), ("diverge", "/divergences")):
        done = [row["id"] for row in await rows(path) if row["state"] == "done"]
        names |= {name: done[0]} if done else {}
    if sessions := await rows("/services"):
        whole = [row for row in sessions if row["state"] == "stopped"]
        names["session"] = (whole or sessions)[0]["session"]
    if studies := await rows("/studies"):
        names["study"] = max(studies, key=lambda row: row["trials"])["name"]
    return names


async def prepare(page: Any, name: str) -> None:
    """What a reader does before there is something to see."""
    if name == "run":
        await page.locator(".gallery img").first.wait_for(timeout=PATIENCE)
    if name in ("network", "networks"):
        await page.locator(".network, .aligned, .state button.primary").first.wait_for(timeout=PATIENCE)
        while await (unread := page.get_by_role("button", name="Read this network")).count():
            await unread.first.click()
            await page.locator(".job.done").first.wait_for(timeout=2 * PATIENCE)
            await page.wait_for_timeout(QUIET)
        await page.locator(".network, .differences").first.wait_for(timeout=PATIENCE)
    if name == "networks":
        await page.locator(".differences").evaluate("list => list.scrollIntoView()")
    if name == "network":
        await page.get_by_role("group", name="How the picture is shown").evaluate("bar => bar.scrollIntoView()")
    if name == "live":
        await page.get_by_role("button", name="Example 3").click()
    if name in ("live", "live-text"):
        for card in await page.get_by_role("article").all():
            await card.get_by_text(TOOK).wait_for(timeout=PATIENCE)


async def take(page: Any, url: str, name: str, names: dict[str, str]) -> None:
    picture = PICTURES[name]
    try:
        view = picture.view.format_map(names)
    except KeyError as missing:
        print(f"{name}: left out, because the store has no {missing.args[0]}.", file=sys.stderr)
        return
    await page.goto(url + view)
    await page.get_by_text(picture.text).first.wait_for(timeout=PATIENCE)
    await page.get_by_text("Zoos are being listed").wait_for(state="detached", timeout=2 * PATIENCE)
    await page.locator("main .loading").first.wait_for(state="detached", timeout=PATIENCE)
    await prepare(page, name)
    await page.wait_for_timeout(QUIET)
    await page.screenshot(path=TARGET / f"explorer-{name}.png")


async def main(wanted: list[str]) -> None:
    from playwright.async_api import async_playwright

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    async with running(Settings()) as url, async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        names: dict[str, str] = {}
        for name in wanted or list(PICTURES):
            page = await opened.new_page(viewport=SIZE, color_scheme="dark" if PICTURES[name].dark else "light")
            names = names or await names_of(page, url)
            await take(page, url, name, names)
            await page.close()
        await opened.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
