"""Ten things that a new user wants, as commands and clicks: how many, how many keys, and what they take.

    python benchmarks/ten_tasks.py [--before FOLDER] [--mlflow COMMAND] [--tasks 1,2,9]

`--before` names a checkout of an earlier commit, whose `src` is used for the same tasks in the way that was possible
then. Each command is one line in a shell; what it must print is checked, so that a task is counted only where its
question is answered. Seconds are processor time of the commands and all that they start, since a busy machine makes any
other time meaningless; what a person thinks and reads is in none of them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import ui_mlflow

HERE: Final = Path(__file__).resolve().parents[1]
_TAB: Final = "⇥"
_QUICK: Final = "-r onnxruntime --latency-seconds 0.2"


@dataclass(frozen=True)
class Task:
    """A question, the lines that answer it today and before (none: the same), and a text that the answer must have.

    `keys`: what is pressed where completion does some of the typing. `mlflow`: lines of MLflow that answer it over the
    runs of the same store; `why_not`: why it has none.
    """

    question: str
    lines: Sequence[str]
    answer: str
    before: Sequence[str] = ()
    mlflow: Sequence[str] = ()
    why_not: str = ""
    keys: str = ""
    folder: str = "."
    fresh: Sequence[str] = field(default=())  # files that are removed first


TASKS: Final = (
    Task(
        "Which of my five ONNX files do I ship for my 1,000 labelled pictures?",
        [f"zoolens init {_QUICK} --doctor"],
        "lenet-wide",
        before=[
            "for f in *.onnx; do zoolens manifest init $f; done",
            "for f in *.onnx; do zoolens doctor ${f%.onnx}.yaml --data photos -r onnxruntime"
            " --write ${f%.onnx}.yaml --force; done",
            f"zoolens eval *.yaml --data photos {_QUICK}",
            'zoolens query "TASK image-classification ON accuracy_drop <= 1% ORDER BY latency_p50" --data photos',
        ],
        why_not="it does not run the files: a program of one's own does, and logs what it finds",
        folder="shoes",
        fresh=("*.yaml",),
    ),
    Task(
        "Where am I, and what comes next?",
        ["zoolens"],
        "lenet-wide",
        before=["zoolens runs", "zoolens --help"],
        mlflow=["mlflow experiments search"],
    ),
    Task(
        "What was measured last, and what did it find?",
        ["zoolens runs show last"],
        "top1",
        mlflow=["mlflow runs list --experiment-id 1"],
    ),
    Task(
        "Is the smaller model worse, and on which pictures?",
        ["zoolens compare demo:lenet-wide demo:lenet-narrow"],
        "exact McNemar",
        why_not="its pages show figures of two runs side by side, and not which inputs, nor whether it is noise",
    ),
    Task(
        "What could replace it at a third of its size?",
        ['zoolens query "CORR lenet-wide WITHIN 80% ON size <= 30%"'],
        "lenet-narrow",
        why_not="it does not know which answers are equal",
    ),
    Task(
        "What is in this file?",
        ["zoolens show shoes/lenet-wide.onnx"],
        "28×28",
        why_not="it knows files that were logged with it",
    ),
    Task(
        "Which name was that? (a model's name on the command line)",
        ["zoolens show demo:lenet-narrow"],
        "3,112",
        keys="zoolens sh⇥demo:lenet-n⇥⏎",
        why_not="it completes commands, not names of runs",
    ),
    Task(
        "Send this to a colleague who has nothing installed.",
        ["zoolens ui export for-anna --runs 'demo:*'"],
        "for-anna",
        why_not="its pages need its server; a table of figures is the next task",
        fresh=("for-anna",),
    ),
    Task(
        "Figures for a spreadsheet.",
        ["zoolens export --format csv -o figures.csv"],
        "",
        mlflow=["mlflow experiments csv -x 1 -o figures.csv"],
        fresh=("figures.csv",),
    ),
    Task(
        "What can run here?",
        ["zoolens runtimes"],
        "onnxruntime",
        why_not="it runs nothing",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Taken:
    """What a way to an answer took. `problem`: why it gave none."""

    commands: int = 0
    keys: int = 0
    seconds: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        return f"{self.commands} command{'' if self.commands == 1 else 's'}, {self.keys} keys, {self.seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--mlflow", type=Path, help="the command mlflow of an environment that has it")
    parser.add_argument("--tasks", default="", help="numbers of tasks, with commas; default: all")
    arguments = parser.parse_args()
    chosen = [int(number) for number in arguments.tasks.split(",") if number] or range(1, len(TASKS) + 1)
    with tempfile.TemporaryDirectory() as folder:
        contestants = {"after": prepared(Path(folder) / "after", HERE)}
        if arguments.before is not None:
            contestants["before"] = prepared(Path(folder) / "before", arguments.before.resolve())
        environment = _mlflow(Path(folder), arguments.mlflow, contestants["after"])
        for number in chosen:
            task = TASKS[number - 1]
            print(f"{number:2} {task.question}", flush=True)
            for name, place in contestants.items():
                lines = task.before if name == "before" and task.before else task.lines
                print(f"     {name:7} {_taken(task, lines, place, name)}", flush=True)
            if task.why_not:
                print(f"     MLflow  –: {task.why_not}", flush=True)
            elif environment is not None:
                print(
                    f"     MLflow  {_run(task.mlflow, contestants['after'].folder, environment, '', task)}", flush=True
                )


# --- places


@dataclass(frozen=True)
class Place:
    """A folder to work in, and the environment in which `zoolens` is that of one checkout."""

    folder: Path
    environment: Mapping[str, str]


def prepared(folder: Path, checkout: Path) -> Place:
    """A home with a few runs of the demo, and the example folder of `zoolens init`, which both checkouts get."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    script = commands / "zoolens"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(checkout / "src"),
        "ZOOLENS_HOME": str(folder / "home"),
    }
    place = Place(folder, environment)
    ours = {**environment, "PYTHONPATH": str(HERE / "src")}
    subprocess.run(["zoolens", "init", "--example", "shoes"], cwd=folder, env=ours, check=True, capture_output=True)
    measured = f"zoolens eval demo:lenet-narrow demo:lenet-wide --data demo --limit 500 {_QUICK} --no-cold"
    subprocess.run(measured.split(), cwd=folder, env=environment, check=True, capture_output=True)
    return place


def _mlflow(folder: Path, command: Path | None, place: Place) -> Mapping[str, str] | None:
    """The environment in which `mlflow` reads the runs of our store."""
    if command is None:
        return None
    target = folder / "mlflow.db"
    ui_mlflow.fill(command, target, Path(place.environment["ZOOLENS_HOME"]) / "data" / "store.sqlite")
    path = f"{command.resolve().parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "MLFLOW_TRACKING_URI": f"sqlite:///{target}"}


# --- ways


def _taken(task: Task, lines: Sequence[str], place: Place, name: str) -> Taken:
    taken = _run(lines, place.folder / task.folder, place.environment, task.answer, task)
    if name == "before" or not task.keys or taken.problem:
        return taken
    before = _processor_seconds()
    completed = _completed(task.keys, place)
    if completed != lines[0]:
        return Taken(problem=f"completes {task.keys} as {completed}")
    return Taken(taken.commands, len(task.keys), taken.seconds + _processor_seconds() - before)


def _completed(keys: str, place: Place) -> str:
    """The line that keys make of which ⇥ asks bash to complete a word, if there is one way to complete each."""
    *parts, rest = keys.removesuffix("⏎").split(_TAB)
    line = ""
    for part in parts:
        line += part
        asked = {**place.environment, "_ZOOLENS_COMPLETE": "bash_complete", "COMP_WORDS": line}
        done = subprocess.run(["zoolens"], env=asked, capture_output=True, text=True, check=False)
        found = [answer.partition(",")[2] for answer in done.stdout.splitlines()]
        begun = line.rpartition(" ")[0]
        if len(found) != 1:
            return f"{line} and one of {', '.join(found)}"
        line = f"{begun} {found[0]} "
    return (line + rest).rstrip()


def _run(lines: Sequence[str], folder: Path, environment: Mapping[str, str], answer: str, task: Task) -> Taken:
    for path in (path for pattern in task.fresh for path in folder.glob(pattern)):
        subprocess.run(["rm", "-r", path], check=True)
    before, said = _processor_seconds(), ""
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        said += done.stdout + done.stderr
        if done.returncode:
            return Taken(problem=f"failed: {line}: {said.strip().splitlines()[-1:]}")
    if answer not in said:
        return Taken(problem=f"gave no answer: {lines[-1]}")
    return Taken(len(lines), sum(map(_keys, lines)), _processor_seconds() - before)


def _keys(line: str) -> int:
    """What is typed, with the key that ends the line."""
    return len(line) + 1


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
