"""A comparison of two environments as one job, which another machine may do: names go there, the finding comes back.

Stored runs travel as what they are runs of; what they answered stays in the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor, check_reachable, run_jobs
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.store import Store, borrowed_store, open_store
from zoolens.base.store.transfer import merge_run, pack_identity
from zoolens.findings.divergence.result import Divergence
from zoolens.findings.divergence.side_names import parse_side
from zoolens.findings.measure.fanout import paths_of_data
from zoolens.inventory.catalog.names import is_run
from zoolens.inventory.datasets.opening import NamedData, absolute_spec
from zoolens.inventory.runtimes.devices import device_kind

_FUNCTION: Final = "zoolens.findings.divergence.diverging:diverge_here"


@dataclass(frozen=True)
class Comparison:
    """What is compared: two sides as a user writes them, and how."""

    names: tuple[str, str]
    data: NamedData
    examined: int
    memory: int
    allow_code: bool


def compare_elsewhere(
    executor: Executor, asked: Comparison, store: Store | str | Path | None, progress: Progress
) -> Divergence:
    """What `diverge` finds, found by a machine of the executor."""
    names, runs = _named_there(asked.names, store)
    data = None if asked.data.data is None else absolute_spec(asked.data.data)
    gpu = any(device_kind(parse_side(name).options.device) == "cuda" for name in asked.names)
    gpu = gpu or any(device_kind(str(run["stack"]["identity"].get("device", "cpu"))) == "cuda" for run in runs)
    job = {
        **asdict(asked),
        TITLE: " and ".join(asked.names),
        "names": names,
        "data": {**asdict(asked.data), "data": data},
        "runs": runs,
        "paths": [*_paths(names), *paths_of_data(data)],
    }
    with JobBars(progress, f"on {executor.name}", "comparing", 1) as bars:
        ((_, answer),) = run_jobs(executor, _FUNCTION, [job], gpu=gpu, told=bars.told)
    if isinstance(answer, ZoolensError):
        raise answer
    return TypeAdapter(Divergence).validate_python(answer)


def compare_here(
    job: Mapping[str, Any], compare: Callable[[Comparison, Store, Progress], Divergence]
) -> dict[str, Any]:
    """Runs on the node: returns the finding as plain data."""
    check_reachable(job["paths"])
    names: tuple[str, str] = tuple(job["names"])
    asked = Comparison(names, NamedData(**job["data"]), job["examined"], job["memory"], job["allow_code"])
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
    ):
        for packed in job["runs"]:
            merge_run(store, packed)
        found: dict[str, Any] = TypeAdapter(Divergence).dump_python(compare(asked, store, job_progress()), mode="json")
        return found


def _named_there(names: tuple[str, str], store: Store | str | Path | None) -> tuple[list[str], list[dict[str, Any]]]:
    """The names as another machine understands them, with the runs that they name."""
    there, runs = [], []
    for name in names:
        if is_run(name) and not Path(name).exists():
            with borrowed_store(store, must_exist=True) as opened:
                run = opened.measured_run(name)
                there.append(run.id)
                runs.append(pack_identity(run))
        else:
            there.append(_absolute(name))
    return there, runs


def _absolute(name: str) -> str:
    """A side whose model is a file is named by its whole path."""
    model = parse_side(name).model
    return f"{Path(model).absolute()}{name[len(model) :]}" if Path(model).exists() else name


def _paths(names: list[str]) -> list[str]:
    models = [parse_side(name).model for name in names]
    return [model for model in models if model.startswith("/") and Path(model).exists()]
