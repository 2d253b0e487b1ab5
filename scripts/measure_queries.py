"""Ask the reference models for each other, and judge every answer on images that the index has never seen.

    ZOOLENS_ASSETS=../shared/assets python scripts/measure_queries.py [--store FILE] [--write]

The labelled images of each task are split in two by a fixed seed. All models answer the probes, from which the index
is built, and the held-out images, from which the ideal answer of every query is computed by brute force, with no code
of the index. `--write` puts the tables and pictures into docs/. Resumes: a second run measures only what is missing.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import zoolens
from zoolens.base.present.bars import Bars
from zoolens.base.statistics.multiplicity import holm
from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.base.store.store import Store, open_store
from zoolens.findings.comparisons.matrix_chart import svg
from zoolens.findings.index.index import Index
from zoolens.findings.index.opener import build_index
from zoolens.findings.measure.evaluate import carry_out
from zoolens.findings.measure.jobs import RunOptions
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.findings.measure.predictions import KIND

REPO = Path(__file__).parent.parent
ZOO = REPO / "tests" / "reference_zoo"
DOCS = REPO / "docs"
PAGE = DOCS / "query-study.md"
MARK = "<!-- measured -->"
SEED = 4
RUNTIMES = ("onnxruntime", "litert", "opencv", "torch", "tensorflow", "openvino")  # the first that runs a model
LEFT_OUT = {"squeezenet_v1.1_ncnn", "samplenet_mxnet"}  # need a plug-in, an environment of their own
CIFAR_ROW = 3073
BUDGETS = {
    "": None,
    "file_size <= 60%": ("file_size", 0.6),
    "memory <= 70%": ("peak_memory@process", 0.7),
    "latency_p50 <= 50%": ("latency_p50@batch=1", 0.5),
    "flops <= 50%": ("flops", 0.5),
}


@dataclass(frozen=True)
class Split:
    task: str
    probes: str
    held_out: str


@dataclass(frozen=True)
class Asked:
    """One query, its answer, and the best answer there was on the held-out images."""

    text: str
    choices: int
    answer: str
    probes: float
    held_out: float
    ideal: str
    ideal_held_out: float
    p_value: float  # exact McNemar: how easily chance alone puts the ideal so far before the answer

    @property
    def right(self) -> bool:
        return self.held_out >= self.ideal_held_out


def split_imagenet(assets: Path, work: Path) -> Split:
    """Two folders of images, each with its own labels.csv."""
    source = assets / "data" / "imagenet_val"
    with (source / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    halves = _halves(len(rows), 400)
    for name, chosen in halves.items():
        folder = work / f"imagenet-{name}"
        (folder / "images").mkdir(parents=True, exist_ok=True)
        with (folder / "labels.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["file", "class_index"])
            writer.writeheader()
            for row in (rows[place] for place in chosen):
                writer.writerow(row)
                if not (folder / row["file"]).exists():
                    shutil.copy(source / row["file"], folder / row["file"])
    return Split("imagenet", *(f"imagefolder:{work / f'imagenet-{name}'}" for name in halves))


def split_cifar(assets: Path, work: Path) -> Split:
    with gzip.open(assets / "data" / "cifar10" / "test_batch_first2000.bin.gz") as file:
        records = np.frombuffer(file.read(), np.uint8).reshape(-1, CIFAR_ROW)
    halves = _halves(len(records), 1000)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    for name, chosen in halves.items():
        np.savez(work / f"cifar-{name}.npz", images=images[chosen], labels=records[chosen, 0])
    return Split("cifar10", *(f"npz:{work / f'cifar-{name}.npz'}" for name in halves))


def _halves(n: int, probes: int) -> dict[str, NDArray[np.int64]]:
    order = np.random.default_rng(SEED).permutation(n)
    return {"probes": np.sort(order[:probes]), "held-out": np.sort(order[probes:])}


def measure(split: Split, store: Store) -> None:
    """Answers to both halves; size, memory and latency once."""
    models = [str(path) for path in sorted((ZOO / split.task).glob("*.yaml")) if path.stem not in LEFT_OUT]
    with Bars() as bars:
        for model in models:
            for data, all_figures in ((split.probes, True), (split.held_out, False)):
                for runtime in RUNTIMES:
                    plan = EvaluationPlan(
                        models=[model], data=data, wanted=RunOptions(runtimes=(runtime,), allow_code=True),
                        batches=(1,) if all_figures else (), cold=all_figures, cold_repeats=3,
                        latency=LatencySettings(max_seconds=2.0),
                    )  # fmt: skip
                    outcomes = list(carry_out(plan, store, bars))
                    if any(outcome.run is not None and not outcome.errors for outcome in outcomes):
                        break


def ask_all(split: Split, store: Store) -> tuple[Index, list[Asked]]:
    index = build_index(store, data=_name(split.probes), refresh=True)
    answers = _answers(store, split.held_out)
    return index, list(_asked(index, answers))


def _name(spec: str) -> str:
    with closing(zoolens.open_dataset(spec)) as dataset:
        return str(dataset.name)


def _answers(store: Store, spec: str) -> dict[str, NDArray[np.int32]]:
    """Top-1 answers to the held-out images by model, straight from the store."""
    name = _name(spec)
    found = {}
    for run in store.runs():
        if run.dataset.name == name and run.stages.get("predictions") == "done":
            top = store.table(run.id, KIND)["top"].to_pylist()
            found[run.model.fingerprint] = np.array([row[0] for row in top], np.int32)
    return found


def _asked(index: Index, held_out: Mapping[str, NDArray[np.int32]]) -> Iterator[Asked]:
    candidates = [row for row in index.rows if row.signature]
    models = {row.ref: row.model for row in candidates}
    for reference in candidates:
        for budget, limit in BUDGETS.items():
            fitting = [
                row
                for row in candidates
                if row.model != reference.model and _fits(row.figures, reference.figures, limit)
            ]
            if len({row.model for row in fitting}) < 2:  # nothing to choose
                continue
            text = f"CORR '{reference.ref}'" + (f" ON {budget}" if budget else "")
            best = zoolens.query(text, store=index).best
            own = held_out[reference.model]
            agreement = {row.ref: float(np.mean(held_out[row.model] == own)) for row in fitting}
            ideal = max(agreement, key=agreement.__getitem__)
            with_answer, with_ideal = (held_out[models[ref]] == own for ref in (best.ref, ideal))
            p_value = exact_mcnemar(int((with_answer & ~with_ideal).sum()), int((with_ideal & ~with_answer).sum()))
            yield Asked(
                text,
                len(fitting),
                best.ref,
                best.equivalence or 0.0,
                agreement[best.ref],
                ideal,
                agreement[ideal],
                p_value,
            )


def _fits(figures: Mapping[str, object], reference: Mapping[str, object], limit: tuple[str, float] | None) -> bool:
    if limit is None:
        return True
    metric, share = limit
    own, theirs = figures.get(metric), reference.get(metric)
    return own is not None and theirs is not None and own.value <= share * theirs.value  # type: ignore[attr-defined]


def page(name: str, asked: Sequence[Asked]) -> Iterator[str]:
    right = sum(one.right for one in asked)
    regrets = [one.ideal_held_out - one.held_out for one in asked if not one.right]
    yield f"\n### {name}: {right} of {len(asked)} answers are the ideal one\n"
    if regrets:
        yield (
            f"In the other {len(regrets)} the ideal model agrees with the reference on {100 * np.mean(regrets):.1f} "
            f"points more of the held-out images on average, at most {100 * max(regrets):.1f}; "
            f"{sum(p < 0.05 for p in holm([one.p_value for one in asked if not one.right]))} of these differences are "
            "more than chance (exact McNemar, Holm, 5 %).\n"
        )
    yield "| query | candidates | answer | on probes | held out | ideal on held-out images |"
    yield "| --- | --: | --- | --: | --: | --- |"
    for one in asked:
        ideal = "the same" if one.right else f"{_short(one.ideal)}, {100 * one.ideal_held_out:.1f} %"
        yield (
            f"| `{_short(one.text)}` | {one.choices} | {_short(one.answer)} | {100 * one.probes:.1f} % | "
            f"{100 * one.held_out:.1f} % | {ideal} |"
        )


def _short(text: str) -> str:
    for part in ("file:imagenet/", "file:cifar10/", "@1.0.0", "'"):
        text = text.replace(part, "")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="query-study.sqlite")
    parser.add_argument("--work", type=Path, default=Path("query-study"))
    parser.add_argument("--write", action="store_true", help="write docs/query-study.md and its pictures")
    given = parser.parse_args()
    assets = Path(os.environ.get("ZOOLENS_ASSETS", REPO.parent / "shared" / "assets"))
    given.work.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with open_store(given.store) as store:
        for split in (split_imagenet(assets, given.work), split_cifar(assets, given.work)):
            measure(split, store)
            _, asked = ask_all(split, store)
            lines += page(split.task, asked)
            matrix = zoolens.agreement_matrix(["*"], data=_name(split.probes), store=store)
            if given.write:
                (DOCS / "images").mkdir(exist_ok=True)
                (DOCS / "images" / f"agreement-{split.task}.svg").write_text(svg(matrix))
    print("\n".join(lines))
    if given.write:
        before = PAGE.read_text().partition(MARK)[0]
        PAGE.write_text(f"{before}{MARK}\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
