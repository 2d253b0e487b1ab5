"""The explorer over a large store, measured by a real browser, beside MLflow's user interface on the same runs.

    python benchmarks/ui.py [--store FILE] [--mlflow COMMAND --mlflow-store FILE] [--repeats 5]

A store of 100,000 runs, 10,000 models and 2,000,000 observations is made first (three minutes; `--store` keeps it and
takes it again). Times are the browser's own: from the start of a navigation, or from the moment at which a reader
types, clicks or chooses, until the rows that follow are on the screen. They include the short pause in which the search
waits for further letters. `first page` is a new browser without a cache; "right after the start" is that of a server
which has only just said where it is, and reads the store meanwhile. Memory is the largest resident size of the server.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ui_mlflow
from ui_store import make_store

FIRST_PAGE: Final = 1.0  # seconds: the goals
FILTER: Final = 0.2
MEMORY: Final = 500.0  # MB
LOAD: Final = 400.0  # kB
LONGEST: Final = 60_000  # milliseconds: who has not answered by then is not waited for
_FIRST_ROWS: Final = """() => new Promise((shown) => {
  const look = () => document.querySelector("main tbody tr, .ag-row")
    ? requestAnimationFrame(() => shown(performance.now())) : requestAnimationFrame(look);
  look();
})"""
# Texts, not what is rendered: to ask for that makes the browser lay out the page once more.
_SEEN: Final = """() => {
  const places = ["main tbody tr", ".found", ".ag-center-cols-container .ag-row", ".ag-pinned-left-cols-container"];
  const texts = places.map((place) => document.querySelector(place)?.textContent);
  return texts.join("|") + document.querySelectorAll(".ag-row, tbody tr").length;
}"""
_CHANGED: Final = f"""([before, began]) => new Promise((shown) => {{
  const seen = {_SEEN};
  const done = () => (!document.querySelector(".table[aria-busy=true]") && seen() !== before)
    || performance.now() - began > {LONGEST};
  const look = () => done()
    ? requestAnimationFrame(() => shown(performance.now() - began)) : requestAnimationFrame(look);
  look();
}})"""
_TYPE: Final = """([label, text]) => {
  const box = document.querySelector("input[type=search]");
  const began = performance.now();
  box.value = text;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  return began;
}"""
_CLICK: Final = """([selector, text]) => {
  const all = [...document.querySelectorAll(selector)];
  const one = all.find((element) => element.innerText.trim().startsWith(text));
  if (!one) throw new Error(`no ${selector} with ${text}: ` + all.map((element) => element.innerText).join("; "));
  const began = performance.now();
  (one.querySelector("input") ?? one).click();
  return began;
}"""
_CHOOSE: Final = """([selector, value]) => {
  const box = document.querySelector(selector);
  const began = performance.now();
  box.value = value;
  box.dispatchEvent(new Event("change", { bubbles: true }));
  return began;
}"""
_TRANSFER: Final = """() => performance.getEntries()
  .filter((entry) => ["navigation", "resource"].includes(entry.entryType))
  .map((entry) => [entry.name, entry.startTime, entry.encodedBodySize])"""
_QUIET: Final = 1_000  # milliseconds after which nothing more is loaded
_FETCH: Final = """async (path) => {
  const began = performance.now();
  const answer = await fetch(path);
  await answer.json();
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return performance.now() - began;
}"""


@dataclass(frozen=True)
class Action:
    """Something that a reader does on a page: a name, the script that does it, and what the script is told."""

    name: str
    script: str
    told: tuple[str, str]


def typed(text: str) -> Action:
    return Action(f"search {text!r}", _TYPE, ("", text))


def ticked(label: str) -> Action:
    return Action(f"tick {label!r}", _CLICK, (".facets label", label))


def clicked(label: str) -> Action:
    return Action(f"sort by {label!r}", _CLICK, ("th button", label))


def chosen(selector: str, value: str) -> Action:
    return Action(f"choose {value!r}", _CHOOSE, (selector, value))


NEXT: Final = Action("next page", _CLICK, (".pager button", "Next"))
PAGES: Final = {
    "models": (
        typed("resnet"), typed("vit base"), typed("-9999"), typed("onnxruntime imagenet"), ticked("timm"),
        ticked("Yes"), clicked("Runs"), clicked("Newest run"), NEXT,
    ),
    "runs": (
        typed("resnet"), typed("swin torch"), typed("-9999"), typed("ab1"), ticked("torch"), ticked("objectnet"),
        ticked("A stage failed"), ticked("Nothing finished"), ticked("claim"), clicked("Top-1"),
        clicked("Median latency"), chosen("input[type=date]", "2026-06-01"), NEXT,
    ),
}  # fmt: skip
ANSWERS: Final = ("order=loss", "order=surest&shown=wrong", "order=disagreement&other=OTHER&shown=disagreeing")
SEARCHES: Final = ('params.model LIKE "%resnet%"', "metrics.top1 > 0.9", 'attributes.status = "FAILED"',
                   'params.runtime = "torch"', 'params.model LIKE "%-9999@%"')  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="keep the store here, and take it again where it exists")
    parser.add_argument("--mlflow", type=Path, help="the command mlflow of an environment that has it")
    parser.add_argument("--mlflow-store", type=Path, help="keep MLflow's store here, and take it again")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write every time to this file as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or Path(folder) / "large.sqlite"
        if not store.exists():
            make_store(store)
        with _browser() as browser:
            times = _measure_explorer(browser, store.resolve(), arguments.repeats)
            if arguments.mlflow is not None:
                theirs = arguments.mlflow_store or Path(folder) / "mlflow.db"
                if not theirs.exists():
                    ui_mlflow.fill(arguments.mlflow, theirs.resolve(), store.resolve())
                times |= _measure_mlflow(browser, arguments.mlflow, theirs.resolve(), min(arguments.repeats, 3))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(times, indent=1))


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    command = shutil.which("chromium") or shutil.which("google-chrome")
    if command is None:
        raise SystemExit("There is no browser: install Debian's chromium.")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=command, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


# --- the explorer


def _measure_explorer(browser: Any, store: Path, repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with _explorer(store) as (url, pid):
        times["explorer: first page right after the start, runs"] = [_first_page(browser, f"{url}#/runs")]
        _complete(browser, url)
        times["explorer: first page, home"] = [_first_page(browser, f"{url}#/home") for _ in range(repeats)]
        for name, actions in PAGES.items():
            first = [_first_page(browser, f"{url}#/{name}") for _ in range(repeats)]
            times[f"explorer: first page, {name}"] = first
            for action in actions:
                label = f"explorer: {name}, {action.name}"
                times[label] = [_acted(browser, f"{url}#/{name}", action) for _ in range(repeats)]
        ours, other = _answered_runs(store)
        for asked in ANSWERS:
            path = f"api/v1/runs/{ours}/predictions?{asked.replace('OTHER', other)}"
            times[f"explorer: 50,000 answers, {asked}"] = _fetched(browser, url, path, repeats)
        (load, later), memory = _transferred(browser, url), _largest(pid)
    _report(times)
    filters = {label: values for label, values in times.items() if "first page" not in label}
    firsts = [value for label, values in times.items() if ": first page, " in label for value in values]
    worst = max(filters, key=lambda label: statistics.median(filters[label]))
    _goal("first page, slowest of all", max(firsts), FIRST_PAGE, "s")
    _goal(f"any filter, median of the slowest ({worst})", statistics.median(filters[worst]), FILTER, "s")
    _goal("any filter, slowest of all", max(value for values in filters.values() for value in values), FILTER, "s")
    _goal("memory of the server", memory, MEMORY, "MB")
    _goal("initial load without charts and data, compressed", load, LOAD, "kB")
    print(f"loaded after the first page is there, for the other pages: {later:.3g} kB", flush=True)
    return times


@contextmanager
def _explorer(store: Path) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "zoolens", "ui", "--no-browser", "--port", "0", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            yield url, process.pid
        finally:
            process.terminate()


def _complete(browser: Any, url: str) -> None:
    """Wait until every zoo is listed: that is done once, in the background."""
    window = browser.new_context()
    page = window.new_page()
    page.goto(url)
    while not page.evaluate("async () => (await (await fetch('api/v1/models?limit=1')).json()).complete"):
        page.wait_for_timeout(1000)
    window.close()


def _first_page(browser: Any, url: str) -> float:
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    page = window.new_page()
    page.goto(url, wait_until="commit")
    seconds = float(page.evaluate(_FIRST_ROWS)) / 1000
    window.close()
    return seconds


def _acted(browser: Any, url: str, action: Action) -> float:
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    page = window.new_page()
    page.goto(url)
    page.wait_for_selector("main tbody tr")
    page.wait_for_timeout(300)  # what else the page asks for at its start
    for more in page.query_selector_all("fieldset button.more"):  # of facets: another one lists the zoos again
        more.click()
    before = page.evaluate(_SEEN)
    began = page.evaluate(action.script, list(action.told))
    seconds = float(page.evaluate(_CHANGED, [before, began])) / 1000
    window.close()
    return seconds


def _answered_runs(store: Path) -> tuple[str, str]:
    from zoolens.base.store.schema import parts
    from zoolens.base.store.store import open_store
    from zoolens.findings.measure.predictions import KIND

    with open_store(store, must_exist=True) as opened:
        query = parts.select().with_only_columns(parts.c.run_id).where(parts.c.kind == KIND).distinct().limit(2)
        first, second = (str(row.run_id) for row in opened.read(lambda connection: connection.execute(query).all()))
    return first, second


def _fetched(browser: Any, url: str, path: str, repeats: int) -> list[float]:
    window = browser.new_context()
    page = window.new_page()
    page.goto(url)
    times = [float(page.evaluate(_FETCH, f"{path}&offset={50 * number}")) / 1000 for number in range(repeats)]
    window.close()
    return times


def _transferred(browser: Any, url: str) -> tuple[float, float]:
    """Kilobytes that a browser without a cache gets before any chart, without the answers of the API: those that it
    asked for before the first rows were there, and those after."""
    window = browser.new_context()
    page = window.new_page()
    page.goto(url, wait_until="commit")
    shown = float(page.evaluate(_FIRST_ROWS))
    page.wait_for_timeout(_QUIET)
    entries = [(start, size) for name, start, size in page.evaluate(_TRANSFER) if "/api/" not in name]
    window.close()
    first = sum(size for start, size in entries if start < shown)
    return first / 1000, (sum(size for _, size in entries) - first) / 1000


# --- MLflow


def _measure_mlflow(browser: Any, mlflow: Path, store: Path, repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    with ui_mlflow.served(mlflow, store, _free_port()) as (url, pid):
        view = f"{url}/#/experiments/{ui_mlflow.EXPERIMENT}/runs"
        times["MLflow: first page, runs"] = [_first_page(browser, view) for _ in range(repeats)]
        _report(times)
        for search in SEARCHES:
            label = f"MLflow: runs, search {search}"
            times[label] = [_searched(browser, view, search) for _ in range(repeats)]
            _say(label, times[label])
        memory = _largest(pid, children=True)
    print(f"MLflow: memory of the server and its workers {memory:,.0f} MB")
    return times


def _searched(browser: Any, url: str, search: str) -> float:
    window = browser.new_context(viewport={"width": 1280, "height": 900})
    page = window.new_page()
    page.set_default_timeout(120_000)
    page.goto(url)
    page.wait_for_selector(".ag-row")
    page.wait_for_timeout(1000)
    page.fill("[data-testid=search-box]", search)
    before = page.evaluate(_SEEN)
    began = page.evaluate("() => performance.now()")
    page.keyboard.press("Enter")
    seconds = float(page.evaluate(_CHANGED, [before, began])) / 1000
    window.close()
    return seconds


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


# --- what was found


def _largest(pid: int, *, children: bool = False) -> float:
    """The largest resident size of a process in MB; of all processes below it as well."""
    pids = [pid]
    if children:
        for parent in pids:
            for task in Path(f"/proc/{parent}/task").iterdir():
                pids += map(int, (task / "children").read_text().split())
    return sum(_status(one, "VmHWM") for one in pids) / 1024


def _status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def _report(times: dict[str, list[float]]) -> None:
    print(f"{'':<72} {'median':>8} {'slowest':>8}")
    for label, values in times.items():
        _say(label, values)


def _say(label: str, values: list[float]) -> None:
    print(f"{label:<72} {statistics.median(values):8.3f} {max(values):8.3f} s", flush=True)


def _goal(what: str, found: float, most: float, unit: str) -> None:
    print(f"goal {what}: {found:,.3g} of {most:g} {unit}: {'met' if found < most else 'MISSED'}", flush=True)


if __name__ == "__main__":
    main()
