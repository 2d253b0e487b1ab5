"""The runs of a zoolens store in a store of MLflow, so that both user interfaces show the same number of runs.

`fill` writes MLflow's own tables (SQLite), which MLflow's command has made: one experiment with every evaluation, its
figures as metrics, and what it is about as parameters and tags. `served` starts MLflow's server over it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

EXPERIMENT: Final = 1
_RUNS: Final = """
    SELECT runs.id, models.ref, datasets.name, stacks.runtime,
           CAST((julianday(runs.created) - 2440587.5) * 86400000 AS INTEGER),
           EXISTS (SELECT 1 FROM stages WHERE stages.run_id = runs.id AND state = 'failed')
    FROM runs JOIN models ON models.fingerprint = runs.model JOIN datasets ON datasets.fingerprint = runs.dataset
    JOIN stacks ON stacks.fingerprint = runs.stack
"""
_FIGURES: Final = """
    SELECT run_id, CASE scope WHEN '' THEN metric ELSE metric || '/' || replace(replace(scope, '=', '_'), ',', '_') END,
           value FROM observations WHERE value IS NOT NULL
"""
_AT_ONCE: Final = 50_000


def fill(mlflow: Path, target: Path, store: Path) -> int:
    """Write the runs of `store` into a new MLflow store; how many there are. `mlflow`: the command of that name."""
    subprocess.run([mlflow, "db", "upgrade", f"sqlite:///{target}"], check=True, capture_output=True)
    with (
        closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(target)) as made,
    ):
        made.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA cache_size = -300000;")
        runs = source.execute(_RUNS).fetchall()
        times = {row[0]: row[4] for row in runs}
        with made:
            now = int(time.time() * 1000)
            made.execute(
                "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage, creation_time, "
                "last_update_time) VALUES (?, 'zoo', '/nowhere', 'active', ?, ?)", [EXPERIMENT, now, now],
            )  # fmt: skip
            made.executemany(
                "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, "
                "start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id) "
                "VALUES (?, ?, 'LOCAL', '', '', 'somebody', ?, ?, ?, '', 'active', '/nowhere', 1)",
                (
                    (_id(run), ref, "FAILED" if failed else "FINISHED", at, at + 60_000)
                    for run, ref, _, _, at, failed in runs
                ),
            )  # fmt: skip
            made.executemany("INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)", _params(runs))
            made.executemany(
                "INSERT INTO tags (key, value, run_uuid) VALUES (?, ?, ?)",
                (("mlflow.runName", ref, _id(run)) for run, ref, *_ in runs),
            )
            figures = source.execute(_FIGURES)
            while some := figures.fetchmany(_AT_ONCE):
                rows = [(key, value, times[run], _id(run)) for run, key, value in some]
                columns = "(key, value, timestamp, step, is_nan, run_uuid)"
                for table in ("metrics", "latest_metrics"):
                    made.executemany(f"INSERT INTO {table} {columns} VALUES (?, ?, ?, 0, 0, ?)", rows)
    return len(runs)


def _id(run: str) -> str:
    """MLflow's ids have 32 digits."""
    return run + run


def _params(runs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, str, str]]:
    for run, ref, dataset, runtime, *_ in runs:
        yield from (("model", ref, _id(run)), ("dataset", dataset, _id(run)), ("runtime", runtime, _id(run)))


@contextmanager
def served(mlflow: Path, target: Path, port: int) -> Iterator[tuple[str, int]]:
    """MLflow's server over a store: its address and process."""
    command = [mlflow, "server", "--backend-store-uri", f"sqlite:///{target}", "--port", str(port), "--workers", "1"]
    # Without its executor of jobs, which is seven further processes that have nothing to do with the page of runs.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment, start_new_session=True) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url)
            yield url, process.pid
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def _wait(url: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
