"""A synthetic store of many runs, and how long `zoolens query` and `zoolens runs` take over it.

    python benchmarks/large_store.py [--runs 100000] [--store FILE]

Eight real runs (two demo models in up to four runtimes) are measured once. Their manifests, locks, stages and
observations are then written again under other model names, data and machines with other figures, until the store has
as many runs as asked for. A part of the runs has predictions, so that the semantic index has something to search.
Each command is timed as a user waits for it: a whole process, from a cold interpreter.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from zoolens.base.store.checksums import checksum
from zoolens.base.store.figures import keep_figures
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.schema import runs as runs_table
from zoolens.base.store.store import RUNS_AT_ONCE, open_store

STACKS, DATASETS = 5, 4  # machines on which, and data on which, every model was measured
TABLES = ("stages", "observations", "parts")  # facts of a run
SIGNED = 2_000  # runs with predictions
QUERIES = {
    "budget": "CORR lenet-wide WITHIN 50% ON size <= 90% AND latency <= 200% LIMIT 5",
    "attribute": "CORR lenet-wide WITHIN 50% ON size <= 90% WHERE runtime = 'onnxruntime' LIMIT 5",
}


@dataclass(frozen=True)
class Shape:
    """What a synthetic store is made of."""

    stacks: int = STACKS
    datasets: int = DATASETS
    signed: int = SIGNED


@dataclass(frozen=True)
class Timed:
    seconds: float
    cpu: float  # seconds
    peak_mb: float
    output: str


def measured_seed(path: Path) -> None:
    """A store with real runs, whose rows are what the synthetic ones are made from."""
    models = ["demo:lenet-wide", "demo:lenet-int8"]
    command = ["eval", *models, "--data", "demo", "--limit", "200", "--latency-seconds", "0.2", "--store", str(path)]
    subprocess.run([sys.executable, "-m", "zoolens", *command], check=True, stdout=subprocess.DEVNULL)


def multiply(path: Path, wanted: int, shape: Shape = Shape()) -> None:  # noqa: B008 - frozen
    """Write the runs of the store again under other names until there are `wanted` of them."""
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    database.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
    seeds = [dict(row) for row in database.execute("SELECT * FROM runs ORDER BY seq")]
    facts = {table: {run["id"]: _of_run(database, table, run["id"]) for run in seeds} for table in TABLES}
    bulk = path.with_name(f"{path.stem}.bulk")
    draw = random.Random(0)
    with database:
        for number, (seed, run) in enumerate(_synthetic(database, seeds, wanted - len(seeds), shape)):
            _insert(database, "runs", [run])
            _insert(database, "changes", [{"run_id": run["id"]}])
            signed = number < shape.signed * shape.datasets and run["dataset"] == seeds[0]["dataset"]
            stages = [row for row in facts["stages"][seed] if signed or row["stage"] != "predictions"]
            _insert(database, "stages", [{**row, "run_id": run["id"]} for row in stages])
            jitter = [draw.uniform(0.5, 1.5) for _ in facts["observations"][seed]]
            changed = [
                {**row, "seq": None, "run_id": run["id"], **_scaled(row, factor)}
                for row, factor in zip(facts["observations"][seed], jitter, strict=True)
            ]
            _insert(database, "observations", changed)
            if signed:
                _insert(database, "parts", [_copied(bulk, row, run["id"]) for row in facts["parts"][seed]])
    database.close()
    write_figures(path)


def write_figures(path: Path) -> None:
    """The rows of the table `figures`, made of the observations as the store makes them."""
    with open_store(path) as store, store.engine.begin() as connection:
        ids = connection.execute(select(runs_table.c.id)).scalars().all()
        for some in in_chunks(ids, RUNS_AT_ONCE):
            keep_figures(connection, some)


def _of_run(database: sqlite3.Connection, table: str, run_id: str) -> list[dict[str, Any]]:
    return [dict(row) for row in database.execute(f"SELECT * FROM {table} WHERE run_id = ?", [run_id])]


def _synthetic(
    database: sqlite3.Connection, seeds: list[dict[str, Any]], missing: int, shape: Shape
) -> Iterator[tuple[str, dict[str, Any]]]:
    datasets = [
        seeds[0]["dataset"],
        *(_again(database, "datasets", seeds[0]["dataset"], str(n)) for n in range(1, shape.datasets)),
    ]
    stacks: dict[tuple[str, int], str] = {}
    made = model_number = 0
    while True:
        seed = seeds[model_number % len(seeds)]
        model = _again(database, "models", seed["model"], str(model_number))
        for machine in range(shape.stacks):
            place = (seed["stack"], machine)
            if place not in stacks:
                stacks[place] = _again(database, "stacks", seed["stack"], str(machine))
            for dataset in datasets:
                if made == missing:
                    return
                key = [model, dataset, stacks[place], 0]
                text = json.dumps(key, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                resolved = json.loads(seed["resolved"])
                resolved["origin"]["ref"] = f"demo:net-{model_number}@1.0.0"
                resolved["origin"]["manifest"]["name"] = f"net-{model_number}"
                run = {**seed, "seq": None, "id": hashlib.sha256(text.encode()).hexdigest()[:16], "model": model}
                run |= {"dataset": dataset, "stack": stacks[place], "resolved": json.dumps(resolved)}
                made += 1
                yield seed["id"], run
        model_number += 1


def _again(database: sqlite3.Connection, table: str, fingerprint: str, mark: str) -> str:
    """Another row of a table of subjects, with a fingerprint and a name of its own."""
    row = dict(database.execute(f"SELECT * FROM {table} WHERE fingerprint = ?", [fingerprint]).fetchone())
    row["fingerprint"] = hashlib.sha256(f"{fingerprint} {mark}".encode()).hexdigest()
    if table == "models":
        row["ref"] = f"demo:net-{mark}@1.0.0"
        row["manifest"] = json.dumps({**json.loads(row["manifest"]), "name": f"net-{mark}"})
    elif table == "datasets":
        row["name"] = f"{row['name']} {mark}"
    _insert(database, table, [row])
    kind = {"models": "model", "datasets": "dataset"}.get(table)
    if kind:
        alias = {"kind": kind, "name": row.get("ref") or row["name"], "fingerprint": row["fingerprint"], "checksum": 0}
        _insert(database, "aliases", [alias])
    return str(row["fingerprint"])


def _scaled(row: dict[str, Any], factor: float) -> dict[str, Any]:
    bounded = row["unit"] == "fraction"
    return {
        name: None if row[name] is None else min(row[name] * factor, 1.0) if bounded else row[name] * factor
        for name in ("value", "low", "high")
    }


def _copied(bulk: Path, row: dict[str, Any], run_id: str) -> dict[str, Any]:
    name = f"{run_id}/{Path(row['name']).name}"
    (bulk / run_id).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(bulk / row["name"], bulk / name)
    return {**row, "run_id": run_id, "name": name}


def _insert(database: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows and "checksum" in rows[0]:
        rows = [{**row, "checksum": checksum(table, {**row, **_times(row)})} for row in rows]
    if rows:
        marks = ", ".join(f":{name}" for name in rows[0])
        database.executemany(f"INSERT OR IGNORE INTO {table} ({', '.join(rows[0])}) VALUES ({marks})", rows)


def _times(row: dict[str, Any]) -> dict[str, datetime]:
    names = [name for name in ("created", "updated") if name in row]
    return {name: datetime.fromisoformat(row[name]).replace(tzinfo=UTC) for name in names}


def timed(*arguments: str) -> Timed:
    """One command as a user waits for it; its largest resident size is that of the command alone."""
    with tempfile.TemporaryFile() as out:
        started = time.perf_counter()
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "zoolens", *arguments],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, out.fileno(), 2)],
        )
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        out.seek(0)
        text = out.read().decode(errors="replace")
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"zoolens {' '.join(arguments)} failed:\n{text[-2000:]}")
    return Timed(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def one_more_run(store: Path) -> None:
    """A change: what follows must notice it."""
    command = ["eval", "demo:mlp-small", "--data", "demo", "--limit", "200", "--runtime", "onnxruntime", "--no-cold"]
    subprocess.run(
        [sys.executable, "-m", "zoolens", *command, "--latency-seconds", "0.2", "--fresh", "--store", str(store)],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--store", type=Path, help="keep the store here, and use it again where it exists")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or Path(folder) / "large.sqlite"
        if not store.exists():
            measured_seed(store)
            began = time.perf_counter()
            multiply(store, arguments.runs)
            seconds, size = time.perf_counter() - began, store.stat().st_size / 1e6
            print(f"{arguments.runs:,} runs written in {seconds:.0f} s, {size:,.0f} MB")
        os.environ.setdefault("ZOOLENS_HOME", str(Path(folder) / "home"))
        report(store)


def report(store: Path) -> None:
    print(f"{'command':<44} {'seconds':>8} {'MB':>6}")
    for name, text in QUERIES.items():
        _show(
            f"query ({name}), nothing cached" if name == "budget" else f"query ({name})",
            timed("query", text, "--store", str(store)),
        )
        _show(f"query ({name}), again", timed("query", text, "--store", str(store)))
    one_more_run(store)
    _show("query (budget), after one more run", timed("query", QUERIES["budget"], "--store", str(store)))
    _show("query (budget), again", timed("query", QUERIES["budget"], "--store", str(store)))
    _show("runs", timed("runs", "--store", str(store)))
    _show("runs --limit 100000", timed("runs", "--limit", "100000", "--store", str(store)))


def _show(name: str, found: Timed) -> None:
    print(f"{name:<44} {found.seconds:8.2f} {found.peak_mb:6.0f}", flush=True)


if __name__ == "__main__":
    main()
