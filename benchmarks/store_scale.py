"""How `runs`, `query` and `compare` grow with the store: one of 100,000 observations beside one of ten million.

    python benchmarks/store_scale.py [--small 2800] [--large 278000] [--folder DIR] [--postgres]

Both stores are written as `large_store.py` writes its own (36 observations a run). Each command is a whole process
from a cold interpreter. The commands of the two stores take turns, and medians of their processor time and of their
wall time are compared: processor time also means something where others use the machine. Before that, the first query
over a store that was never opened here, with its largest resident size. `--postgres`: also the same rows in PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from large_store import QUERIES, Timed, measured_seed, multiply, timed

COMMANDS = {
    "runs": ("runs",),
    "query, again": ("query", QUERIES["budget"]),
    "compare": ("compare", "demo:lenet-wide", "demo:lenet-int8", "--runtime", "onnxruntime"),
}
ROUNDS = 5
GOAL = 2.0  # times as long
FIRST_GOAL = 20.0  # seconds for 100,000 runs
# In an order in which no row refers to one that is not there yet.
TABLES = (
    "models", "datasets", "stacks", "locks", "aliases", "runs", "stages", "observations", "figures", "parts", "changes",
)  # fmt: skip


def written(folder: Path, runs: int) -> Path:
    """The store with so many runs, which is made where it is not there."""
    path = folder / f"runs-{runs}.sqlite"
    if not path.exists():
        began = time.process_time()
        measured_seed(path)
        multiply(path, runs)
        print(f"{path.name}: written in {time.process_time() - began:.0f} s of processor time", flush=True)
    with closing(sqlite3.connect(path)) as database:
        count = database.execute("SELECT count(*) FROM observations").fetchone()[0]
    size = path.stat().st_size
    print(f"{path.name}: {runs:,} runs, {count:,} observations, {size / 1e9:.2f} GB, {size / count:.0f} bytes each")
    return path


def first_query(store: str, runs: int, home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    os.environ["ZOOLENS_HOME"] = str(home)
    found = timed("query", QUERIES["budget"], "--store", store)
    scaled = found.cpu * 100_000 / runs
    print(
        f"  first query, {runs:,} runs: {found.cpu:.1f} s of processor time ({found.seconds:.1f} s in all), "
        f"{found.peak_mb:.0f} MB; for 100,000 runs {scaled:.1f} s, goal {FIRST_GOAL:.0f} s",
        flush=True,
    )


def in_turns(small: str, large: str, rounds: int) -> None:
    """Medians of every command on both stores, one after the other, so that the machine is the same for both."""
    taken: dict[tuple[str, str], list[Timed]] = {}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            for store in (small, large):
                taken.setdefault((name, store), []).append(timed(*arguments, "--store", store))
    for name in COMMANDS:
        cpu = [statistics.median(one.cpu for one in taken[name, store]) for store in (small, large)]
        wall = [statistics.median(one.seconds for one in taken[name, store]) for store in (small, large)]
        peak = max(one.peak_mb for one in taken[name, large])
        verdict = "met" if cpu[1] <= GOAL * cpu[0] else "missed"
        print(
            f"  {name:<14} processor {cpu[0]:6.2f} and {cpu[1]:6.2f} s, ratio {cpu[1] / cpu[0]:.2f} (goal {GOAL:.0f}: "
            f"{verdict}); wall {wall[0]:6.2f} and {wall[1]:6.2f} s; {peak:.0f} MB",
            flush=True,
        )


# --- PostgreSQL


@contextmanager
def copied(paths: list[Path], folder: Path) -> Iterator[list[str]]:
    """The same rows in databases of a PostgreSQL server that is started for it."""
    from zoolens.testing.postgres import postgres_server

    with postgres_server() as server:
        urls = [server.database() for _ in paths]
        for path, url in zip(paths, urls, strict=True):
            began = time.process_time()
            copy_rows(path, url, folder)
            print(
                f"{path.name}: copied to PostgreSQL in {time.process_time() - began:.0f} s of processor time",
                flush=True,
            )
        yield urls


def copy_rows(path: Path, url: str, folder: Path) -> None:
    """By COPY, which is a hundred times as quick as `zoolens store copy` and checks nothing."""
    from zoolens.base.store.store import open_store

    os.environ["ZOOLENS_BULK"] = str(folder / "bulk")
    with open_store(url) as store, closing(sqlite3.connect(path)) as database:
        raw: Any = store.engine.raw_connection()
        with closing(raw):
            raw.cursor().execute("SET TIME ZONE 'UTC'")
            for table in TABLES:
                rows = database.execute(f"SELECT * FROM {table}")
                names = ", ".join(f'"{column[0]}"' for column in rows.description)
                with raw.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as target:
                    for row in rows:
                        target.write_row(row)
                if "seq" in names:
                    raw.cursor().execute(
                        f"SELECT setval(pg_get_serial_sequence('{table}', 'seq'), (SELECT max(seq) FROM {table}))"
                    )
            raw.commit()
            raw.autocommit = True
            raw.cursor().execute("ANALYZE")
        place = folder / "bulk" / store.id
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(path.with_name(f"{path.stem}.bulk"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=2_800, help="runs of the small store")
    parser.add_argument("--large", type=int, default=278_000, help="runs of the large store")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", type=Path, help="keep the stores here, and use them again where they exist")
    parser.add_argument("--postgres", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = [arguments.small, arguments.large]
        paths = [written(folder, runs) for runs in sizes]
        measure("SQLite", [str(path) for path in paths], sizes, arguments.rounds, Path(temporary))
        if arguments.postgres:
            with copied(paths, Path(temporary)) as urls:
                measure("PostgreSQL", urls, sizes, arguments.rounds, Path(temporary))


def measure(name: str, stores: list[str], sizes: list[int], rounds: int, folder: Path) -> None:
    print(name)
    for store, runs in zip(stores, sizes, strict=True):
        first_query(store, runs, folder / "home")
    # Both know their store from here on.
    for store in stores:
        timed("query", QUERIES["budget"], "--store", store)
    in_turns(stores[0], stores[1], rounds)


if __name__ == "__main__":
    main()
