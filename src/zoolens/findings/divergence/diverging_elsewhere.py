"""A comparison of two environments as one job, which another machine may do: names go there, the finding comes back.

Stored runs travel as what they are runs of; what they answered stays in the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.store import Store, borrowed_store, open_store
from zoolens.base.store.transfer import merge_run, pack_identity
from zoolens.findings.divergence.result import Divergence
from zoolens.findings.divergence.side_names import found, parse_side
from zoolens.findings.measure.fanout import entry_fields, entry_of
from zoolens.inventory.catalog.names import is_run
from zoolens.inventory.datasets.opening import NamedData
from zoolens.inventory.fleet.arrival import arrived
from zoolens.inventory.fleet.travel import Travel, run_travelling
from zoolens.inventory.runtimes.devices import device_kind
from zoolens.inventory.zoos.zoo import Entry

_FUNCTION: Final = "zoolens.findings.divergence.diverging:diverge_here"


@dataclass(frozen=True)
class Comparison:
    """What is compared: two sides as a user writes them, and how. `entries`: models that came with their files, by the
    place of their side."""

    names: tuple[str, str]
    data: NamedData
    examined: int
    memory: int
    allow_code: bool
    entries: Mapping[int, Entry] = field(default_factory=dict)


def compare_elsewhere(
    executor: Executor, asked: Comparison, store: Store | str | Path | None, progress: Progress
) -> Divergence:
    """What `diverge` finds, found by a machine of the executor."""
    names, runs = _named_there(asked.names, store)
    travel = Travel(progress)
    # The machine that has a name of a zoo finds the model by itself; a file of ours has to go there.
    models = {
        place: travel.model(found(parse_side(name).model), "ab"[place])
        for place, name in enumerate(names)
        if _is_file(name)
    }
    data = travel.data(asked.data)
    gpu = any(device_kind(parse_side(name).options.device) == "cuda" for name in asked.names)
    gpu = gpu or any(device_kind(str(run["stack"]["identity"].get("device", "cpu"))) == "cuda" for run in runs)
    job = {
        TITLE: " and ".join(asked.names),
        "names": names,
        "entries": [[place, entry_fields(load.sent)] for place, load in models.items()],
        "data": {**asdict(asked.data), "data": data.sent},
        "examined": asked.examined,
        "memory": asked.memory,
        "allow_code": asked.allow_code,
        "runs": runs,
        **travel.fields(*models.values(), data),
    }
    with JobBars(progress, f"on {executor.name}", "comparing", 1) as bars:
        ((_, answer),) = run_travelling(executor, _FUNCTION, [job], progress, gpu=gpu, told=bars.told)
    if isinstance(answer, ZoolensError):
        raise answer
    return TypeAdapter(Divergence).validate_python(answer)


def compare_here(
    job: Mapping[str, Any], compare: Callable[[Comparison, Store, Progress], Divergence]
) -> dict[str, Any]:
    """Runs on the node: returns the finding as plain data."""
    with arrived(job) as here:
        answer: dict[str, Any] = here.restored(_compared(here.job, compare))
    return answer


def _compared(job: Mapping[str, Any], compare: Callable[[Comparison, Store, Progress], Divergence]) -> dict[str, Any]:
    names: tuple[str, str] = tuple(job["names"])
    entries = {int(place): entry_of(fields) for place, fields in job["entries"]}
    asked = Comparison(names, NamedData(**job["data"]), job["examined"], job["memory"], job["allow_code"], entries)
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
    ):
        for packed in job["runs"]:
            merge_run(store, packed)
        result: dict[str, Any] = TypeAdapter(Divergence).dump_python(compare(asked, store, job_progress()), mode="json")
        return result


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


def _is_file(name: str) -> bool:
    model = parse_side(name).model
    return model.startswith("/") and Path(model).exists()
