"""kill -9 of a running study at random moments, again and again, until it is done; then compare it with one that was
left alone. Started with a folder, this file is the study; its log tells which epochs were truly trained."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.plan_runner import Unwatched, run_plan
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan, Search
from zoolens.training.crosstrain.training.job import Epoch
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe

TRIALS = 6
PATIENCE = 300.0  # seconds for a study to begin its next trial
_RECIPE = Recipe(
    architecture="mlp", mode="library", train_limit=2000, test_limit=500, learning_rate=1e-3, batch_size=100, epochs=4
)
PLAN = Plan(
    name="killed",
    frameworks=("torch", "jax"),
    recipe=_RECIPE,
    space=(
        Dimension(name="learning_rate", low=1e-4, high=1e-1, log=True),
        Dimension(name="epochs", low=2, high=8, integer=True),
    ),
    search=Search(initial=3, trials=TRIALS),
)


@dataclass(frozen=True)
class Survived:
    """`repeated`: epochs trained of trials that were finished before. `lost`: finished trials that a kill took away or
    changed, or that are missing at the end. `left`: processes that outlived a killed study."""

    kills: int
    repeated: int
    lost: int
    left: int
    same: bool  # hyperparameters and accuracies of all trials, as in the study that was left alone

    @property
    def fine(self) -> bool:
        return self.same and not self.repeated and not self.lost and not self.left


class Place:
    """A folder with a store, its journal and the log of what was trained."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.log = folder / "trained.log"
        self.log.touch()

    def begun(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TMPDIR": str(self.folder)}  # what a killed process leaves behind goes with it
        return subprocess.Popen([sys.executable, __file__, str(self.folder)], env=environment)

    def finished(self) -> dict[str, Any]:
        """By trial, what the journal was told; one that was told twice is seen by what it was told last."""
        return {line["asked"]["trial"]: without_time(line) for line in self.lines("told")}

    def lines(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "store.bulk" / "journals" / f"{PLAN.name}.jsonl"
        whole = path.read_text().split("\n")[:-1] if path.exists() else []
        return [found for line in whole if (found := json.loads(line))["kind"] == kind]

    def trained(self) -> list[str]:
        return self.log.read_text().split()


def without_time(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["asked"]["hyperparameters"], line["told"]["accuracies"], line["told"]["delta"]


def survive(folder: Path, kills: int, seed: int) -> Survived:
    alone = Place(folder / "alone")
    began = time.monotonic()
    finish(alone)
    usual = (time.monotonic() - began) / TRIALS
    place, draw = Place(folder / "killed"), random.Random(seed)
    done = repeated = lost = left = 0
    for number in range(kills + 1):
        before, seen = place.finished(), len(place.trained())
        if number == kills:
            finish(place)
        else:
            ended, alive = killed(place, draw.uniform(0, usual))
            done, left = done + ended, left + alive
        after = place.finished()
        repeated += sum(trial in before for trial in place.trained()[seen:])
        lost += sum(after.get(trial) != told for trial, told in before.items())
    lost += TRIALS - len(place.finished()) + TRIALS - filed(place)
    repeated += len(place.lines("told")) - len(place.finished())
    return Survived(done, repeated, lost, left, place.finished() == alone.finished())


def finish(place: Place) -> None:
    if place.begun().wait() != 0:
        raise ChildProcessError(f"The study in {place.folder} broke off.")


def killed(place: Place, wait: float) -> tuple[bool, int]:
    """Let it train, then kill it; whether it was still running, and how many of its processes are left."""
    process, seen = place.begun(), len(place.trained())
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and len(place.trained()) == seen and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(wait)
    if process.poll() is not None:
        return False, 0
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    return True, len(alive)


def filed(place: Place) -> int:
    from zoolens.training.crosstrain.study.stored_studies import read_study

    with open_store(place.folder / "store.sqlite") as store:
        return len({trial.id for trial in read_study(store, PLAN.name).trials})


class Log(Unwatched):
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def epoch(self, trial: str, framework: str, epoch: Epoch, of: int) -> None:
        os.write(self._file, f"{trial}\n".encode())


def main() -> None:
    folder = Path(sys.argv[1])
    found = run_plan(
        PLAN, folder / "store.sqlite", manner=Manner(threads=1), watch=Log(folder / "trained.log"), backend="local"
    )
    assert found.search.complete


if __name__ == "__main__":
    main()
