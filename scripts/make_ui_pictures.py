"""Write `docs/images/explorer-*.png`: pictures of the explorer, as README.md, docs/look.md and docs/ui.md show them.

    python -m scripts.make_ui_pictures --fresh [NAME…]

measures in a home of its own what most of them show (minutes): the demo's classifiers and detectors, a trace, a report.
Without --fresh they are of your own store. The others need there what takes longer:

    zoolens crosstrain import $ZOOLENS_ASSETS/crossedwires
    zoolens serve service.yaml    # of docs/serve.md, with `zoolens load` against it

    python -m scripts.write_text_zoo zoo    # and ZOOLENS_ZOO_PATH=zoo for this script

and in the explorer (`zoolens ui`) an audit of two zoos, such as torchvision and keras with the architecture resnet50,
and a job of the page *Diverge*. Pictures of what the store does not have are left out. It needs chromium and the
packages playwright and pillow.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
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


COLOURS = 128  # of a picture: pages have few, and PNG is a third as large then
PICTURES = {
    "home": Picture("#/home", "What changed"),
    "home-dark": Picture("#/home", "What changed", dark=True),
    "search": Picture("#/home", "What changed"),
    "report": Picture("#/reports/{report}", "As it was"),
    "glance": Picture("#/run/{run}", "What it confuses"),
    "timeline": Picture("#/traces/{trace}", "Zoom in"),
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

    runs = [row["id"] for row in await rows("/runs?sort=-top1&runtime=onnxruntime")]
    names = dict(zip(("run", "other"), runs[::3], strict=False))  # three further on it is one that answers otherwise
    names |= dict(zip(("trace", "other_trace"), [row["id"] for row in await rows("/traces")], strict=False))
    for name, path in (("audit", "/audits"), ("diverge", "/divergences")):
        done = [row["id"] for row in await rows(path) if row["state"] == "done"]
        names |= {name: done[0]} if done else {}
    if reports := await rows("/reports"):
        names["report"] = reports[0]["id"]
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
            # A job that is done goes away with its button as soon as the network is there: to wait for it to be done
            # may come too late.
            await page.locator(".job").first.wait_for(timeout=PATIENCE)
            await page.locator(".job").first.wait_for(state="detached", timeout=5 * PATIENCE)
            await page.wait_for_timeout(QUIET)
        await page.locator(".network, .differences").first.wait_for(timeout=PATIENCE)
    if name == "networks":
        await page.locator(".differences").evaluate("list => list.scrollIntoView()")
    if name == "network":
        await page.get_by_role("group", name="How the picture is shown").evaluate("bar => bar.scrollIntoView()")
    if name == "search":
        await page.keyboard.press("/")
        await page.keyboard.type("lenet")
        await page.locator(".finder [role=option]").nth(3).wait_for()
    if name == "timeline":
        await page.locator(".spans").evaluate("figure => figure.scrollIntoView({ block: 'end' })")
    if name == "glance":
        await page.locator(".strip img").first.wait_for(timeout=PATIENCE)
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
    save(await page.screenshot(), TARGET / f"explorer-{name}.png")


def save(picture: bytes, path: Path) -> None:
    from PIL import Image

    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def fill(home: Path) -> None:
    """Measure what most pictures show."""
    os.environ["ZOOLENS_HOME"] = str(home)
    for name in ("ZOOLENS_STORE", "ZOOLENS_ZOO_PATH"):
        os.environ.pop(name, None)
    for command in (
        ("demo", "detection"),
        ("demo",),
        ("trace", "run", "demo:lenet-wide", "--runtime", "onnxruntime", "--runtime", "litert"),
        *(("cost", f"demo:{name}") for name in ("resnet-tiny", "lenet-torch", "lenet-deep")),
    ):
        subprocess.run([sys.executable, "-m", "zoolens", *command], check=True, stdout=subprocess.DEVNULL)


async def compose(page: Any, url: str, names: dict[str, str]) -> None:
    """A report with a note, a chart and a table, as a reader composes one."""

    async def post(path: str, data: dict[str, Any]) -> dict[str, Any]:
        headers = {"Origin": url.rstrip("/")}
        answer: dict[str, Any] = await (
            await page.request.post(f"{url}api/v1{path}", data=data, headers=headers)
        ).json()
        return answer

    report = await post("/reports", {"title": "Which classifier do we ship?"})
    note = (
        "The most accurate two do not differ clearly. **The smaller one is quicker**, so it goes to the phones.\n\n"
        "- accuracy and latency of all twelve, on 2,000 images\n- the two, on the same images"
    )
    place = f"/reports/{report['id']}"
    await post(place, {"version": 1, "title": report["title"], "parts": [{"note": note}]})
    taken: tuple[dict[str, Any], ...] = (
        {"path": "/choose", "parameters": {"task": "classification"}, "field": "chart", "page": "#/choose"},
        {
            "path": "/comparison", "parameters": {"a": names["run"], "b": names["other"]}, "field": "key_figures",
            "title": "The two", "page": f"#/compare?a={names['run']}&b={names['other']}",
        },
    )  # fmt: skip
    for piece in taken:
        await post(f"{place}/pieces", piece)
    names["report"] = report["id"]


async def main(wanted: list[str], *, fresh: bool) -> None:
    from playwright.async_api import async_playwright

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    async with running(Settings()) as url, async_playwright() as driver:
        opened = await driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        names: dict[str, str] = {}
        for name in wanted or list(PICTURES):
            page = await opened.new_page(viewport=SIZE, color_scheme="dark" if PICTURES[name].dark else "light")
            if not names:
                names = await names_of(page, url)
                if fresh and "report" not in names:
                    await compose(page, url, names)
            await take(page, url, name, names)
            await page.close()
        await opened.close()


if __name__ == "__main__":
    words = sys.argv[1:]
    if "--fresh" in words:
        words.remove("--fresh")
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder))
            asyncio.run(main(words, fresh=True))
    else:
        asyncio.run(main(words, fresh=False))
