"""Write `docs/images/explorer-*.png`: pictures of the explorer, as README.md, docs/look.md and docs/ui.md show them.

    python -m scripts.make_ui_pictures --fresh [NAME…]

measures in a home of its own what they show (minutes): the demo's classifiers and detectors, traces, a service under
load, a report, jobs that look for differences and for faults; with the reference models (`ZOOLENS_ASSETS`) also a
published study and models of texts. Without --fresh they are of your own store; pictures of what it does not have are
left out. It needs chromium and the packages playwright and pillow.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.write_text_zoo import write_zoo

from zoolens.faces.ui.server import running
from zoolens.faces.ui.settings import Settings

TARGET = Path(__file__).parent.parent / "docs" / "images"
SIZE = {"width": 1280, "height": 800}
QUIET = 700  # milliseconds without a request before a picture is taken
PATIENCE = 60_000  # milliseconds
REFERENCE = "demo:lenet-wide"
SENT = ("--data", "demo", "--like", REFERENCE)
QUIETLY, BURST = 0.05, 8  # of what this machine bears of the reference alone, and how many times that
SERVICE = """
services:
  fashion:
    reference: demo:lenet-wide
    within: 85%
    objectives:
      latency: {percentile: 99, bound: 60 ms}
    batch: {size: 8}
"""
TOOK = re.compile("(this call|these calls) took", re.IGNORECASE)


@dataclass(frozen=True)
class Picture:
    """A view, and a text that must be there. {names} in the view are found out by `names_of`."""

    view: str
    text: str
    dark: bool = False


OLDER = "onnxruntime==1.24.1"
COLOURS = 160  # of a picture, the commonest: PNG is a third as large then. Those of a legend are areas, and among them
PICTURES = {
    "home": Picture("#/home", "What changed"),
    "home-dark": Picture("#/home", "What changed", dark=True),
    "search": Picture("#/home", "What changed"),
    "report": Picture("#/reports/{report}", "As it was"),
    "glance": Picture("#/run/{run}", "What it confuses"),
    "timeline": Picture("#/traces/{trace}", "Zoom in"),
    "models": Picture("#/models?measured=yes&sort=-claimed_top1", "demo:resnet-tiny"),
    "model": Picture("#/model/demo:resnet-tiny", "Network"),
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
        "#/live?input=text&model={sentiment}&model=folder:bi-gru+in+onnxruntime&model=folder:minilm"
        "&text=A+wonderful+film:+warm,+funny+and+far+too+short.&text=I+loved+this+movie."
        "&text=The+train+to+Berlin+was+late+again.",
        "Add a text",
    ),
    "services": Picture("#/services/{session}", "Events"),
    "fleet": Picture("#/fleet?tab=grid&quantity=latency&sort=spread", "own environment"),
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
    if await rows("/models?q=word-average"):
        names["sentiment"] = "folder:word-average"
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
    if name in ("glance", "compare"):
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
    await page.locator(".chart:not(:has(svg.marks))").first.wait_for(state="detached", timeout=PATIENCE)
    await page.wait_for_timeout(QUIET)
    save(await page.screenshot(), TARGET / f"explorer-{name}.png")


def save(picture: bytes, path: Path) -> None:
    from PIL import Image

    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    counts = whole.getcolors(whole.width * whole.height) or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in sorted(counts, reverse=True)[:COLOURS] for part in colour])
    whole.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def fill(home: Path) -> None:
    """Measure what the pictures show, but for what jobs of the explorer find."""
    os.environ["ZOOLENS_HOME"] = str(home)
    for name in ("ZOOLENS_STORE", "ZOOLENS_ZOO_PATH"):
        os.environ.pop(name, None)
    if assets := os.environ.get("ZOOLENS_ASSETS"):
        write_zoo(Path(assets), home / "texts")
        os.environ["ZOOLENS_ZOO_PATH"] = str(home / "texts")
        run_command("crosstrain", "import", f"{assets}/crossedwires")
    # Another kind of machine: the same one with an older onnxruntime. It is installed, which needs the network once.
    kinds = ("eval", "demo:lenet-int8", "demo:mlp-small", "--data", "demo", "-r", "onnxruntime", "--env")
    subprocess.run([sys.executable, "-m", "zoolens", *kinds, OLDER], check=False, stdout=subprocess.DEVNULL)
    for command in (
        ("demo", "detection"),
        ("demo",),
        ("trace", "run", "demo:lenet-wide", "--runtime", "onnxruntime", "--runtime", "litert"),
        *(("cost", f"demo:{name}") for name in ("resnet-tiny", "lenet-torch", "lenet-deep")),
    ):
        run_command(*command)
    serve_under_load(home / "service.yaml")


def run_command(*command: str) -> None:
    subprocess.run([sys.executable, "-m", "zoolens", *command], check=True, stdout=subprocess.DEVNULL)


def serve_under_load(definition: Path) -> None:
    """A session of a service that gets more requests for a while than its first choice can answer in time."""
    definition.write_text(SERVICE)
    with serving(REFERENCE) as url:
        bears = load(url, "--clients", "8", "--duration", "5s")["answered_requests_per_second"]
    burst = ("--arrivals", "burst", "--rate", f"{QUIETLY * bears:.0f}", "--burst-factor", str(BURST))
    with serving(str(definition)) as url:
        load(f"{url}/v2/models/fashion", *burst, "--duration", "24s")


@contextmanager
def serving(what: str) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    command = ["serve", what, "--http", address.partition(":")[2], "--grpc", "off"]
    with subprocess.Popen([sys.executable, "-m", "zoolens", *command], stdout=subprocess.DEVNULL) as server:
        try:
            wait_for(f"http://{address}/v2/health/ready")
            yield f"http://{address}"
        finally:
            server.terminate()


def load(url: str, *how: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "zoolens", "load", url, *SENT, *how, "--json"]
    # It ends with 1 where it was itself late, which a busy machine makes of it.
    found: dict[str, Any] = json.loads(subprocess.run(command, check=False, capture_output=True, text=True).stdout)
    return found


def wait_for(url: str) -> None:
    until = time.monotonic() + 5 * PATIENCE / 1000
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        if time.monotonic() > until:
            raise SystemExit(f"{url} does not answer.")
        time.sleep(0.2)


async def find_differences(page: Any, url: str) -> None:
    """Run the jobs that pictures show."""
    jobs: tuple[tuple[str, dict[str, Any]], ...] = (
        ("diverge", {"a": "demo:lenet-int8@onnxruntime", "b": "demo:lenet-int8@litert", "data": "demo", "limit": 200}),
        ("audit", {"zoos": ["torchvision", "keras"], "architectures": ["resnet50"]}),
    )
    for kind, asked in jobs:
        job = await post(page, url, f"/jobs/{kind}", asked)
        while job["state"] in ("queued", "running"):
            await page.wait_for_timeout(QUIET)
            job = await (await page.request.get(f"{url}api/v1/jobs/{job['id']}")).json()
        if job["state"] != "done":
            raise SystemExit(f"The job {job['command']} failed: {job['error']}")


async def post(page: Any, url: str, path: str, data: dict[str, Any]) -> dict[str, Any]:
    headers = {"Origin": url.rstrip("/")}
    answer = await page.request.post(f"{url}api/v1{path}", data=data, headers=headers)
    if not answer.ok:
        raise SystemExit(f"{path}: {await answer.text()}")
    told: dict[str, Any] = await answer.json()
    return told


async def compose(page: Any, url: str, names: dict[str, str]) -> None:
    """A report with a note, a chart and a table, as a reader composes one."""
    report = await post(page, url, "/reports", {"title": "Which classifier do we ship?"})
    note = (
        "Twelve classifiers on 2,000 images. Where their intervals overlap, **the same images decide**: two of the "
        "most accurate stand below, figure by figure.\n\n"
        "- accuracy and latency of all twelve\n- two of them, on the same images"
    )
    place = f"/reports/{report['id']}"
    await post(page, url, place, {"version": 1, "title": report["title"], "parts": [{"note": note}]})
    taken: tuple[dict[str, Any], ...] = (
        {"path": "/choose", "parameters": {"task": "classification"}, "field": "chart", "page": "#/choose"},
        {
            "path": "/comparison", "parameters": {"a": names["run"], "b": names["other"]}, "field": "key_figures",
            "title": "The two", "page": f"#/compare?a={names['run']}&b={names['other']}",
        },
    )  # fmt: skip
    for piece in taken:
        await post(page, url, f"{place}/pieces", piece)
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
                shown = set(wanted or PICTURES)
                if fresh and shown & {"diverge", "audit", "jobs"}:
                    await find_differences(page, url)
                names = await names_of(page, url)
                if fresh and "report" in shown and "report" not in names:
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
