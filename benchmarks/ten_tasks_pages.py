"""The clicks of `ten_tasks.py`: three questions that a new user asks in a browser.

    python benchmarks/ten_tasks_pages.py [--before FOLDER] [--mlflow COMMAND]

Each begins on the first page and ends when the answer can be read; how often the mouse was clicked is counted, and the
seconds from the first page to the answer are those of the clock. A page that has the answer at once needs no click.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ui_mlflow
from ten_tasks import HERE, Place, prepared
from ui import _browser, _free_port

_PATIENCE: Final = 20_000  # milliseconds
_REASON: Final = "120 requests wait"
_SESSION: Final = f"""
import time
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import AnswerCounts, EventKind, EventLog, ServiceEvent
now, second = time.time_ns(), 10**9
log = EventLog(None, {{"shop": Service.model_construct(reference="demo:lenet-wide")}})
log.record("shop", ServiceEvent(EventKind.START, "started", model="demo:lenet-wide", time=now - 60 * second))
log.record("shop", AnswerCounts("demo:lenet-wide", "onnxruntime", 900, 900, time=now - 30 * second))
wide, narrow = "demo:lenet-wide", "demo:lenet-narrow"
log.record("shop", ServiceEvent(EventKind.SWITCH, "{_REASON}", narrow, wide, 120, now - 20 * second))
log.record("shop", ServiceEvent(EventKind.STOP, "stopped", time=now))
log.close()
"""  # fmt: skip


class Hand:
    """Clicks, and counts it. `newest`: the beginning of the id of the newest run."""

    def __init__(self, page: Any, newest: str) -> None:
        self.page, self.newest, self.clicks = page, newest, 0

    def click(self, locator: Any) -> None:
        locator.first.click()
        self.clicks += 1

    def link(self, name: str) -> None:
        self.click(self.page.get_by_role("link", name=name, exact=True))

    def reads(self, text: str) -> None:
        self.page.get_by_text(text).filter(visible=True).first.wait_for()


def newest_run(hand: Hand) -> None:
    """The first page lists the newest runs with their figures; before it did, one went to the list of runs."""
    hand.reads("lenet-wide")
    listed = hand.page.get_by_role("region", name="Newest runs").locator(f"a[href*='run/{hand.newest}']")
    if not listed.count():
        hand.link("Runs")
        hand.reads(hand.newest)


def two_runs(hand: Hand) -> None:
    hand.link("Runs")
    boxes = hand.page.locator("main tbody input[type=checkbox], main .card input[type=checkbox]")
    boxes.nth(1).wait_for()
    hand.click(boxes.nth(0))
    hand.click(boxes.nth(1))
    hand.link("Compare these two")
    hand.reads("McNemar")


def switch(hand: Hand) -> None:
    """The first page names services; before, one went to their list."""
    hand.reads("lenet-wide")
    session = hand.page.locator("main").locator("a[href*='services/']")
    if not session.count():
        hand.link("Services")
    hand.click(session)
    hand.reads(_REASON)


def mlflow_newest(hand: Hand) -> None:
    hand.page.get_by_text("lenet-wide").first.wait_for()


def mlflow_two_runs(hand: Hand) -> None:
    """Its page of two runs has their parameters and figures side by side, and no inputs."""
    boxes = hand.page.locator(".ag-row .ag-checkbox-input-wrapper")
    boxes.nth(1).wait_for()
    hand.click(boxes.nth(0))
    hand.click(boxes.nth(1))
    hand.click(hand.page.get_by_test_id("runs-compare-button"))
    hand.reads("Comparing 2 Runs")


@dataclass(frozen=True)
class Question:
    text: str
    ours: Callable[[Hand], None]
    mlflow: Callable[[Hand], None] | None = None


QUESTIONS: Final = (
    Question("What was measured last?", newest_run, mlflow_newest),
    Question("What do two runs answer differently?", two_runs, mlflow_two_runs),
    Question("Why did my service switch?", switch),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--mlflow", type=Path, help="the command mlflow of an environment that has it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        places = {"after": prepared(Path(folder) / "after", HERE)}
        if arguments.before is not None:
            places["before"] = prepared(Path(folder) / "before", arguments.before.resolve())
        for name, place in places.items():
            _write_session(place)
            with _explorer(place) as url:
                _ask(browser, name, url, _newest(place), [(question.text, question.ours) for question in QUESTIONS])
        if arguments.mlflow is not None:
            target = Path(folder) / "mlflow.db"
            home = Path(places["after"].environment["ZOOLENS_HOME"])
            ui_mlflow.fill(arguments.mlflow, target, home / "data" / "store.sqlite")
            with ui_mlflow.served(arguments.mlflow, target, _free_port()) as (url, _):
                known = [(question.text, question.mlflow) for question in QUESTIONS if question.mlflow]
                _ask(browser, "MLflow", f"{url}/#/experiments/{ui_mlflow.EXPERIMENT}/runs", "", known)


def _newest(place: Place) -> str:
    done = subprocess.run(["zoolens", "runs"], env=place.environment, capture_output=True, text=True, check=True)
    return next(line.split()[0] for line in done.stdout.splitlines() if re.match(r"[0-9a-f]{8} ", line))


def _ask(
    browser: Any, name: str, url: str, newest: str, questions: Sequence[tuple[str, Callable[[Hand], None]]]
) -> None:
    for text, ways in questions:
        window = browser.new_context(viewport={"width": 1280, "height": 900})
        page = window.new_page()
        page.set_default_timeout(_PATIENCE)
        began = time.monotonic()
        try:
            page.goto(url)
            hand = Hand(page, newest)
            ways(hand)
            said = f"{hand.clicks} clicks, {time.monotonic() - began:.1f} s"
        except Exception as error:
            said = f"not reached: {str(error).splitlines()[0]}"
        print(f"{text:40} {name:7} {said}", flush=True)
        window.close()


def _write_session(place: Place) -> None:
    script = place.folder / "session.py"
    script.write_text(_SESSION)
    zoolens = place.folder / "bin" / "zoolens"
    python = zoolens.read_text().split('"')[1]
    subprocess.run([python, script], env=place.environment, cwd=place.folder, check=True, capture_output=True)


@contextmanager
def _explorer(place: Place) -> Iterator[str]:
    command = ["zoolens", "ui", "--no-browser", "--port", "0", "--zoo", "demo"]
    # The shell that starts Python ends with it: exec.
    process = subprocess.Popen(command, env=place.environment, cwd=place.folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
