"""Evaluate every reference model in every installed runtime that can run it, and write docs/reference-models.md.

    ZOOLENS_ASSETS=../shared/assets python scripts/measure_reference.py [--store FILE] [--write]

Resumes: a second run measures only what is missing. MXNet runs in an environment of its own, which is built first.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolens.base.present.bars import Bars
from zoolens.base.present.figures import figure, with_interval
from zoolens.base.store.store import Store, open_store
from zoolens.findings.measure.evaluate import carry_out
from zoolens.findings.measure.jobs import RunOptions
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.catalog.lookup import find

REPO = Path(__file__).parent.parent
ZOO = REPO / "tests" / "reference_zoo"
PAGE = REPO / "docs" / "reference-models.md"
TOLERANCE = 0.005
MXNET = "mxnet==1.9.1,numpy<1.24"


@dataclass(frozen=True)
class Task:
    """A folder of reference models, the data they are judged on, and the claim that was measured on the same data."""

    folder: str
    data: str
    claim: tuple[str, ...]


TASKS = (
    Task("imagenet", "imagefolder:{assets}/data/imagenet_val", ("imagenet_val725",)),
    Task("cifar10", "cifar10:{assets}/data/cifar10/test_batch_first2000.bin.gz", ("cifar10_test_first2000",)),
    Task("mnist", "idx:{assets}/data/mnist", ("mnist_test10000", "mnist_test_first2000")),
)


def reference(path: Path, task: Task) -> tuple[float, int | None]:
    """The independently measured top-1, and how many inputs it was measured on where that is not all."""
    claims = find(str(path)).manifest.claims
    for name in task.claim:
        for claim in claims:
            if claim.metric == "top1" and claim.dataset == name:
                return claim.value, 2000 if name == "mnist_test_first2000" else None
    raise SystemExit(f"{path} has no reference accuracy for {task.claim}")


def plan(path: Path, task: Task, assets: Path) -> EvaluationPlan:
    mxnet = "mxnet" in path.stem
    return EvaluationPlan(
        models=[str(path)],
        data=task.data.format(assets=assets),
        limit=reference(path, task)[1],
        wanted=RunOptions(
            runtimes=("mxnet",) if mxnet else (), environments=(MXNET,) if mxnet else (), allow_code=True
        ),
        latency=LatencySettings(max_seconds=1.0),
        cold_repeats=1,
    )


def rows(store: Store, path: Path, task: Task, outcomes: Sequence[Outcome]) -> list[str]:
    expected, _ = reference(path, task)
    lines = []
    for outcome in outcomes:
        if outcome.run is None or outcome.errors:
            runtime, reason = outcome.title.rpartition(" in ")[2], (*outcome.errors, outcome.skipped)[0]
            lines.append(f"| {task.folder}/{path.stem} | {runtime} | – | – | {100 * expected:.1f} | – | – | {reason} |")
            continue
        run = outcome.run
        found = {(one.metric, one.scope): one for one in store.observations(run.id)}
        top1 = found[("top1", "")]
        assert top1.value is not None
        gap = 100 * (top1.value - expected)
        note = "" if abs(gap) <= 100 * TOLERANCE + 0.051 else "**differs**"
        latency = found.get(("latency_p50", "batch=1"))
        lines.append(
            f"| {task.folder}/{path.stem} | {run.stack.runtime} {run.stack.version} | {run.precision or 'unknown'} "
            f"| {_whole(with_interval(top1))} | {100 * expected:.1f} | {gap:+.1f} "
            f"| {_whole(figure(latency.value, 's')) if latency else '–'} | {note} |"
        )
    return lines


def _whole(text: str) -> str:
    """A figure that no page breaks over two lines."""
    return text.replace(" ", "\u00a0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default=None)
    parser.add_argument("--write", action="store_true", help="Put the table into the documentation.")
    parser.add_argument("--only", default="", help="Models whose name holds this.")
    chosen = parser.parse_args()
    assets = Path(os.environ.get("ZOOLENS_ASSETS") or REPO.parent / "shared" / "assets").resolve()
    os.environ["ZOOLENS_ASSETS"] = str(assets)
    store = open_store(chosen.store)
    lines: list[str] = []
    with Bars() as bars:
        for task in TASKS:
            for path in sorted((ZOO / task.folder).glob("*.yaml")):
                if chosen.only not in path.stem:
                    continue
                outcomes = list(carry_out(plan(path, task, assets), store, bars))
                found = rows(store, path, task, outcomes)
                lines += found
                bars.say("\n".join(found))
    if chosen.write:
        begin, end = "<!-- measured -->", "<!-- end -->"
        text = PAGE.read_text(encoding="utf-8")
        head = "| model | runtime | precision | top-1 [95 %] | reference | difference | p50, batch 1 | note |"
        table = "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- | --- |", *lines])
        before, _, rest = text.partition(begin)
        PAGE.write_text(f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}", encoding="utf-8")
    differing = [line for line in lines if "differs" in line]
    print(f"{len(lines)} evaluations, {len(differing)} differ by more than {100 * TOLERANCE} points", file=sys.stderr)


if __name__ == "__main__":
    main()
