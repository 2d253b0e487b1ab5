"""A large synthetic store for the explorer: many runs of many models over nine months.

    python benchmarks/ui_store.py FILE [--runs 100000] [--models 10000]

The rows are written in bulk into the tables that `open_store` made, each with its right checksum, so that
`zoolens store check FILE` finds nothing wrong. Nothing was run: the figures are drawn at random from a fixed seed,
around the quality and speed that each model and each stack was given. A few runs have answers to 50,000 inputs.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np

from large_store import write_figures
from zoolens.base.store.checksums import checksum
from zoolens.base.store.records import DONE, EVALUATED, FAILED, RunKey, RunKind, fingerprint
from zoolens.base.store.store import open_store
from zoolens.base.store.values import to_json
from zoolens.findings.measure.class_order import AS_NAMED
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND

BEGAN: Final = datetime(2026, 2, 1, tzinfo=UTC)
DAYS: Final = 270
CLASSES: Final = tuple(f"class {number}" for number in range(100))
INPUTS: Final = 50_000  # of the largest dataset, and of the runs that have answers
ANSWERED: Final = 12  # runs with answers
ROWS_A_PART: Final = 5_000
RUNS_AT_ONCE: Final = 2_000
ZOOS: Final = ("timm", "torchvision", "keras", "onnx", "transformers", "huggingface")
FAMILIES: Final = (
    "resnet", "densenet", "vgg", "mobilenetv2", "mobilenetv3", "efficientnet", "convnext", "vit", "deit", "swin",
    "regnet", "inception", "squeezenet", "mixer", "beit", "nfnet", "ghostnet", "mnasnet", "resnext", "xception",
)  # fmt: skip
SIZES: Final = ("tiny", "small", "base", "large", "18", "34", "50", "101", "152")
VARIANTS: Final = ("a1", "a2", "b16", "d", "in1k", "in21k", "int8", "distilled", "v2")
LICENCES: Final = ("Apache-2.0", "MIT", "BSD-3-Clause", "CC-BY-NC-4.0", None)
FORMATS: Final = ("onnx", "tflite", "torchscript", "keras", "openvino-ir")
RUNTIMES: Final = {
    "onnxruntime": ("1.30.0", "1.31.1"), "openvino": ("2026.3.0", "2026.4.1"), "torch": ("2.12.1", "2.13.0"),
    "litert": ("2.2.0", "2.3.0"), "opencv": ("4.13.0.90", "4.14.0.94"), "tensorflow": ("2.21.0", "2.22.0"),
}  # fmt: skip
MACHINES: Final = ("laptop", "server", "board", "desktop")
DATASETS: Final = ("imagenet/val", "imagenet-v2", "imagenet-sketch", "objectnet", "cifar100", "food101", "places365",
                   "flowers102", "pets37", "birds", "cars196", "our products")  # fmt: skip
ERRORS: Final = (
    "The model answered NaN or infinity for 3 of 64 inputs, first for input val/0001.",
    "The worker ended: it needed more than the 4 GB it was given.",
    "The runtime cannot run the operator GridSample.",
)
KINDS: Final = (RunKind.EVALUATION, RunKind.TRIAL, RunKind.CLAIM, RunKind.STRUCTURE)
KIND_SHARES: Final = (0.97, 0.01, 0.01, 0.01)


@dataclass(frozen=True)
class Model:
    fingerprint: str
    ref: str
    manifest: str  # as JSON
    quality: float
    cost: float  # seconds of one call on a machine of speed 1


@dataclass(frozen=True)
class Stack:
    fingerprint: str
    runtime: str
    lock: str  # fingerprint
    speed: float


@dataclass(frozen=True)
class Dataset:
    fingerprint: str
    name: str
    size: int
    hardness: float


@dataclass(frozen=True)
class PlannedRun:
    model: Model
    dataset: Dataset
    stack: Stack
    created: datetime
    kind: RunKind
    attempt: int

    @property
    def id(self) -> str:
        return RunKey(self.model.fingerprint, self.dataset.fingerprint, self.stack.fingerprint, self.attempt).id


def make_store(path: Path, runs: int = 100_000, models: int = 10_000, inputs: int = INPUTS) -> None:
    """Write a store with so many runs of so many models; the largest dataset has so many inputs."""
    random = np.random.default_rng(15)
    with open_store(path):
        pass
    with closing(sqlite3.connect(path)) as database:
        database.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -300000; PRAGMA foreign_keys = OFF;")
        with database:
            later = _postponed(database)
            planned = _plan(database, random, runs, models, inputs)
            for start in range(0, len(planned), RUNS_AT_ONCE):
                _write_runs(database, random, planned[start : start + RUNS_AT_ONCE])
            for statement in later:
                database.execute(statement)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    write_figures(path)
    _add_answers(path, planned, random)


def _postponed(database: sqlite3.Connection) -> list[str]:
    """Takes the triggers and indexes of observations away while very many are written; what makes them again."""
    query = (
        "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'observations' AND type IN ('trigger', 'index') "
        "AND sql IS NOT NULL ORDER BY rowid"
    )
    found = database.execute(query).fetchall()
    for kind, name, _ in found:
        database.execute(f"DROP {kind} {name}")
    return [str(sql) for _, _, sql in found]


# --- what runs are about


def _plan(
    database: sqlite3.Connection, random: np.random.Generator, runs: int, models: int, inputs: int
) -> list[PlannedRun]:
    """The runs in the order in which they were stored. One in a hundred was merged from elsewhere, later than made."""
    subjects = _models(database, random, models), _datasets(database, inputs), _stacks(database)
    minutes = np.sort(random.uniform(0, DAYS * 24 * 60, runs))
    late = random.random(runs) < 0.01
    minutes = np.where(late, minutes * random.random(runs), minutes)
    attempts: dict[tuple[str, str, str], int] = {}
    planned = []
    for number in range(runs):
        model = subjects[0][number if number < models else int(random.integers(models))]
        dataset = subjects[1][int(random.integers(len(subjects[1])) * random.random())]  # the first ones most often
        stack = subjects[2][int(random.integers(len(subjects[2])))]
        key = model.fingerprint, dataset.fingerprint, stack.fingerprint
        attempts[key] = attempts.get(key, -1) + 1
        created = BEGAN + timedelta(minutes=float(minutes[number]))
        kind = KINDS[int(random.choice(len(KINDS), p=KIND_SHARES))]
        planned.append(PlannedRun(model, dataset, stack, created, kind, attempts[key]))
    return planned


def _models(database: sqlite3.Connection, random: np.random.Generator, count: int) -> list[Model]:
    made, rows = [], []
    for number in range(count):
        family, size = FAMILIES[number % len(FAMILIES)], SIZES[number // len(FAMILIES) % len(SIZES)]
        variant = VARIANTS[number // (len(FAMILIES) * len(SIZES)) % len(VARIANTS)]
        name = f"{family}-{size}-{variant}-{number}"
        zoo, form = ZOOS[int(random.integers(len(ZOOS)))], FORMATS[int(random.integers(len(FORMATS)))]
        cost = float(np.exp(random.normal(-4.5, 1.2)))
        parameters = int(cost * 2e9)
        manifest = {
            "zoolens": 1, "name": name, "version": "1.0.0",
            "description": f"{family} of size {size}, variant {variant}, trained on images of a hundred classes.",
            "license": LICENCES[number % len(LICENCES)],
            "references": ["https://example.org/papers/" + family],
            "inputs": [{"shape": [None, 3, 224, 224], "layout": "NCHW", "preprocess": [
                {"op": "resize", "size": 256, "semantics": "pil", "interpolation": "bilinear"},
                {"op": "crop", "size": 224},
                {"op": "normalize", "scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            ]}],
            "outputs": [{"task": "classification"}],
            "assets": [{"format": form, "files": [
                {"location": f"{name}.{form}", "sha256": fingerprint(["file", number]), "bytes": 4 * parameters}
            ]}],
            "attributes": {"architecture": family, "parameters": parameters},
            "claims": [{"metric": "top1", "value": 0.8, "dataset": "imagenet/val", "source": "https://example.org"}],
        }  # fmt: skip
        model = Model(fingerprint(["model", number]), f"{zoo}:{name}@1.0.0", to_json(manifest), 0.0, cost)
        quality = float(np.clip(0.62 + 0.05 * np.log(parameters / 1e6) + random.normal(0, 0.05), 0.05, 0.97))
        made.append(Model(model.fingerprint, model.ref, model.manifest, quality, cost))
        rows.append({"fingerprint": model.fingerprint, "ref": model.ref, "format": form, "manifest": model.manifest})
    _insert(database, "models", [{**row, "created": BEGAN} for row in rows])
    _insert_names(database, "model", {model.fingerprint: model.ref for model in made})
    return made


def _datasets(database: sqlite3.Connection, inputs: int) -> list[Dataset]:
    made = [
        Dataset(fingerprint(["data", name]), name, max(1, inputs // (number + 1)), 1 - 0.04 * number)
        for number, name in enumerate(DATASETS)
    ]
    details = to_json({"classes": CLASSES})
    rows = [
        {"fingerprint": data.fingerprint, "name": data.name, "size": data.size, "details": details} for data in made
    ]
    _insert(database, "datasets", [{**row, "created": BEGAN} for row in rows])
    _insert_names(database, "dataset", {data.fingerprint: data.name for data in made})
    return made


def _stacks(database: sqlite3.Connection) -> list[Stack]:
    made, rows, locks = [], [], []
    for runtime, versions in RUNTIMES.items():
        for version in versions:
            for place, machine in enumerate(MACHINES):
                identity = {
                    "protocol": 1, "runtime": runtime, "version": version, "python": "3.11.7",
                    "packages": {runtime: version, "numpy": "2.4.6", "Pillow": "13.0.0"},
                    "machine": {"cpu": machine, "cores": 2 ** (place + 1), "architecture": "aarch64"},
                    "options": {"threads": None, "device": "cpu", "mode": "default"},
                }  # fmt: skip
                installed = {f"package-{number}": f"{number}.0.1" for number in range(200)}
                lock = {**identity, "installed": installed}
                stack = Stack(fingerprint(identity), runtime, fingerprint(lock), 0.5 + place)
                made.append(stack)
                rows.append({"fingerprint": stack.fingerprint, "runtime": runtime, "identity": to_json(identity)})
                locks.append({"fingerprint": stack.lock, "content": to_json(lock), "created": BEGAN})
    _insert(database, "stacks", [{**row, "created": BEGAN} for row in rows])
    _insert(database, "locks", locks)
    return made


def _insert_names(database: sqlite3.Connection, kind: str, names: Mapping[str, str]) -> None:
    _insert(database, "aliases", [{"kind": kind, "name": name, "fingerprint": key} for key, name in names.items()])


# --- runs and what they found


def _write_runs(database: sqlite3.Connection, random: np.random.Generator, planned: list[PlannedRun]) -> None:
    states = random.random(len(planned))
    noise = random.normal(size=(len(planned), 8))
    observations: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    for run, state, draws in zip(planned, states, noise.tolist(), strict=True):
        if state < 0.005:
            continue  # it was begun, and nothing is known of it yet
        found, failed = _found(run, draws, failing=state < 0.03)
        for stage in dict.fromkeys([row["stage"] for row in found] + list(failed)):
            facts = [row for row in found if row["stage"] == stage]
            word = FAILED if stage in failed else DONE
            stages.append(
                {"run_id": run.id, "stage": stage, "state": word, "error": failed.get(stage), "details": "{}",
                 "updated": run.created, "facts": len(facts)}
            )  # fmt: skip
        observations += found
    _insert(database, "runs", [_run_row(run) for run in planned])
    _insert(database, "changes", [{"run_id": run.id} for run in planned], signed=False)
    _insert(database, "stages", stages)
    _insert(database, "observations", observations)


def _run_row(run: PlannedRun) -> dict[str, Any]:
    origin = f'{{"ref":{json.dumps(run.model.ref)},"manifest":{run.model.manifest},"folder":null,"data":null}}'
    resolved = f'{{"origin":{origin},"precision":"float32","provider":"CPU","{AS_NAMED}":true'
    resolved += f',"{EVALUATED}":"{run.created.isoformat()}"}}' if run.kind is RunKind.EVALUATION else "}"
    return {
        "id": run.id, "model": run.model.fingerprint, "dataset": run.dataset.fingerprint,
        "stack": run.stack.fingerprint, "attempt": run.attempt, "lock": run.stack.lock, "resolved": resolved,
        "created": run.created, "kind": run.kind.value,
    }  # fmt: skip


def _found(run: PlannedRun, draws: list[float], *, failing: bool) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The observations of one run, and why a stage of it failed."""
    facts: list[tuple[Any, ...]] = []
    failed: dict[str, str] = {}
    if run.kind in (RunKind.CLAIM, RunKind.STRUCTURE):
        parameters = round(run.model.cost * 2e9)
        stage = "claims" if run.kind is RunKind.CLAIM else "structure"
        provenance = "claimed" if run.kind is RunKind.CLAIM else "measured"
        facts += [(stage, "parameters", "", float(parameters), None, None, "", None, provenance, "{}")]
        facts += [(stage, "top1", "", 0.8, None, None, "fraction", None, provenance, "{}")] * (stage == "claims")
    else:
        facts += _quality(run, draws)
        if failing:
            failed["latency:batch=1"] = ERRORS[int(abs(draws[0]) * 10) % len(ERRORS)]
        else:
            facts += _timings(run, draws)
    names = ("stage", "metric", "scope", "value", "low", "high", "unit", "n", "provenance", "details")
    about = {"run_id": run.id, "created": run.created}
    return [{**about, **dict(zip(names, fact, strict=True))} for fact in facts], failed


def _quality(run: PlannedRun, draws: list[float]) -> Iterator[tuple[Any, ...]]:
    n = run.dataset.size
    top1 = min(max(run.model.quality * run.dataset.hardness + 0.002 * draws[0], 0.01), 0.99)
    half = 1.96 * (top1 * (1 - top1) / n) ** 0.5
    wilson, drawn = '{"interval":"wilson","confidence":0.95}', '{"interval":"bootstrap","confidence":0.95}'
    for metric, value in (("top1", top1), ("top5", top1**0.3)):
        low, high = max(value - half, 0.0), min(value + half, 1.0)
        yield "metric:topk", metric, "", value, low, high, "fraction", n, "measured", wilson
    for metric, value, unit in (("ece", 0.05, "fraction"), ("brier", 1 - top1, ""), ("nll", 2 * (1 - top1), "")):
        value *= 1 + 0.02 * draws[1]
        yield "metric:calibration", metric, "", value, 0.97 * value, 1.03 * value, unit, n, "measured", drawn
    for number in range(4):
        value = min(max(top1 + 0.05 * draws[2 + number], 0.0), 1.0)
        yield "metric:per_class", "recall", f"class={number}", value, value, value, "fraction", 500, "measured", wilson
    yield "size", "file_size", "", run.model.cost * 8e9, None, None, "B", None, "measured", '{"format":"onnx"}'
    yield "size", "parameters", "", float(round(run.model.cost * 2e9)), None, None, "", None, "measured", "{}"


def _timings(run: PlannedRun, draws: list[float]) -> Iterator[tuple[Any, ...]]:
    stage, scope = "latency:batch=1", "batch=1"
    seconds = run.model.cost / run.stack.speed * (1 + 0.1 * draws[6])
    details = '{"confidence":0.95,"interval":"order statistics","stopped_by":"precision","run_queue_watched":true}'
    for ending, slower in (("", 1.0), (",raw", 1.05)):
        for metric, factor in (("latency_p50", 1.0), ("latency_p90", 1.2), ("latency_p99", 1.7)):
            value = seconds * factor * slower
            yield stage, metric, scope + ending, value, 0.98 * value, 1.03 * value, "s", 600, "measured", details
        yield stage, "throughput", scope + ending, 1 / (seconds * slower), None, None, "inputs/s", 600, "measured", "{}"
    yield stage, "clean_share", scope, 0.97, None, None, "fraction", 620, "measured", "{}"
    reason = '{"reason":"this machine shows no energy counters under /sys/class/powercap"}'
    yield stage, "energy", scope, None, None, None, "J", None, "unavailable", reason


def _insert(database: sqlite3.Connection, table: str, rows: Iterable[dict[str, Any]], *, signed: bool = True) -> None:
    """Insert rows, JSON given as text, each with its checksum; times as SQLAlchemy writes them for SQLite."""
    listed = list(rows)
    if not listed:
        return
    names = [*listed[0], *(["checksum"] if signed else [])]
    texts: dict[datetime, str] = {}

    def values(row: dict[str, Any]) -> list[Any]:
        stored = [
            texts.setdefault(value, value.strftime("%Y-%m-%d %H:%M:%S.%f")) if isinstance(value, datetime) else value
            for value in row.values()
        ]
        return [*stored, checksum(table, row)] if signed else stored

    marks = ", ".join("?" * len(names))
    database.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", map(values, listed))


# --- answers


def _add_answers(path: Path, planned: list[PlannedRun], random: np.random.Generator) -> None:
    """Answers to every input for some evaluations on the first dataset, which agree on most inputs."""
    size = max(run.dataset.size for run in planned)
    chosen = [run for run in planned if run.dataset.size == size and run.kind is RunKind.EVALUATION][-ANSWERED:]
    labels = random.integers(len(CLASSES), size=size)
    easy = random.normal(4, 3, size=size)  # how clearly an input is of its class: the same for every model
    ids = [f"val/{number:06d}.jpg" for number in range(size)]
    with open_store(path) as store:
        for run in chosen:
            for part, start in enumerate(range(0, size, ROWS_A_PART)):
                end = min(start + ROWS_A_PART, size)
                logits = random.normal(size=(end - start, len(CLASSES))).astype(np.float32)
                logits[np.arange(end - start), labels[start:end]] += easy[start:end]
                exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
                probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
                buffer = PredictionBuffer(start)
                buffer.add(ids[start:end], labels[start:end], [AnswerBatch(probabilities, logits)])
                store.add_part(run.id, KIND, part, buffer.take())
            store.finish_stage(run.id, KIND)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path, help="the file to write; it must not exist")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    arguments = parser.parse_args()
    if arguments.store.exists():
        raise SystemExit(f"{arguments.store} exists already: name a new file.")
    began = time.perf_counter()
    make_store(arguments.store, arguments.runs, arguments.models, arguments.inputs)
    with closing(sqlite3.connect(arguments.store)) as database:
        counts = {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ("runs", "models", "observations")
        }
    size = arguments.store.stat().st_size / 1e6
    numbers = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    print(f"{numbers}: {size:,.0f} MB in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
