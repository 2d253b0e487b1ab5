"""Structures read on other machines: jobs travel in batches of one framework, packed graphs come back."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from zoolens.base.engine.environments import EnvSpec
from zoolens.base.engine.executors.executor import Executor, check_reachable
from zoolens.base.engine.executors.reports import teller
from zoolens.base.errors import AssetError, ConstraintError, ZoolensError
from zoolens.base.plugins import installed_version
from zoolens.base.progress import Silent
from zoolens.findings.graph.importers.importer import Importer, Request, load_object
from zoolens.findings.graph.structures.export_pool import Exported, ExportJob, export_locally, files_of
from zoolens.inventory.fleet.arrival import WAYS_OUT, arrived
from zoolens.inventory.fleet.travel import Travel, renamed, run_travelling
from zoolens.inventory.manifests.digests import digest

_FUNCTION: Final = "zoolens.findings.graph.structures.fanout:export_here"
_BATCHES: Final = 2  # for each job that can run at once: who is done early takes another

K = TypeVar("K")


def export_elsewhere(
    executor: Executor, jobs: Iterable[ExportJob[K]], timeout: float, say: Callable[[str], None] | None = None
) -> Iterator[Exported[K]]:
    """Yield what became of each job, read by the machines of an executor. `say` is told about environments that are
    being made there."""
    batches, progress = list(_batches(jobs, _BATCHES * executor.capacity)), _Said(say)
    travel = Travel(progress)
    messages = (_message(batch, timeout, travel) for batch in batches)
    told = None if say is None else lambda _, text: say(str(text))
    for number, answer in run_travelling(executor, _FUNCTION, messages, progress, told=told):
        if isinstance(answer, ZoolensError):
            yield from (_lost(job, answer) for job in batches[number])
        else:
            yield from (Exported(job, **fields) for job, fields in zip(batches[number], answer, strict=True))


class _Said(Silent):
    """Progress that only speaks."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say

    def say(self, text: str) -> None:
        if self._say is not None:
            self._say(text)


def _message(batch: Sequence[ExportJob[Any]], timeout: float, travel: Travel) -> dict[str, Any]:
    load = travel.files(f"{len(batch)} models", list(files_of(batch)))
    described = [renamed(_described(job), load.sent) for job in batch]
    # What does not travel is found out job by job: one that lacks its file is no reason for the others to be lost.
    return {"jobs": described, "timeout": timeout, **travel.fields(replace(load, paths=()))}


def export_here(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs on the node: what became of each job of a batch, in their order."""
    with arrived(message, Silent()) as found:  # what is told from here are sentences
        answers: list[dict[str, Any]] = found.restored(_exported(found.job))
    return answers


def _exported(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    jobs = [_job(number, fields) for number, fields in enumerate(message["jobs"])]
    refused = list(_refused(jobs, message["jobs"]))
    unread = {exported.job.key for exported in refused}
    reachable = [job for job in jobs if job.key not in unread]
    read = export_locally(reachable, workers=1, say=teller(), timeout=message["timeout"])
    done = {exported.job.key: exported for exported in (*refused, *read)}
    return [_answer(done[job.key]) for job in jobs]


def _answer(exported: Exported[int]) -> dict[str, Any]:
    # `graph` is there once the cached property was read; it follows from `packed`.
    return {name: value for name, value in vars(exported).items() if name not in ("job", "graph")}


def _refused(jobs: Iterable[ExportJob[int]], described: Sequence[Mapping[str, Any]]) -> Iterator[Exported[int]]:
    """Jobs that would find something else here than where they come from, whose key they are kept under."""
    for job, fields in zip(jobs, described, strict=True):
        try:
            check_reachable(list(files_of([job])), WAYS_OUT)
            _check_same(job, fields)
        except ZoolensError as error:
            yield _lost(job, error)


def _check_same(job: ExportJob[int], fields: Mapping[str, Any]) -> None:
    here = _packages(job)
    different = [f"{name} {here[name] or 'is missing'}, not {wanted}" for name, wanted in fields["packages"].items()
                 if here[name] != wanted]  # fmt: skip
    if different:
        raise ConstraintError(
            f"The node {platform.node()} has other packages: {', '.join(different)}.",
            hint="Install the same versions on all nodes.",
        )
    for path, wanted in fields["digests"].items():
        if digest(Path(path)) != wanted:
            raise AssetError(
                f"The node {platform.node()} has another file under {path}.",
                hint="Copy it there again, or use a file system that all nodes share.",
            )


def _lost(job: ExportJob[K], error: ZoolensError) -> Exported[K]:
    """The machine or the way to it failed, not the model."""
    return Exported(job, 0.0, error=error.message, hint=error.hint, circumstantial=True)


def _batches(jobs: Iterable[ExportJob[K]], count: int) -> Iterator[Sequence[ExportJob[K]]]:
    """About so many batches of equal weight, each of one importer's module and environment."""
    groups: dict[tuple[str, EnvSpec | None], list[ExportJob[K]]] = defaultdict(list)
    for job in jobs:
        groups[job.module, job.environment].append(job)
    enough = sum(job.weight for group in groups.values() for job in group) / count
    for group in groups.values():
        batch: list[ExportJob[K]] = []
        for job in group:
            batch.append(job)
            if sum(member.weight for member in batch) >= enough:
                yield batch
                batch = []
        if batch:
            yield batch


def _described(job: ExportJob[Any]) -> dict[str, Any]:
    environment = job.environment
    return {
        **job.message,
        "environment": [list(environment.requirements), list(environment.alone)] if environment else None,
        "weight": job.weight,
        "packages": _packages(job),
        "digests": {path: digest(Path(path)) for path in files_of([job])},
    }


def _packages(job: ExportJob[Any]) -> dict[str, str | None]:
    """The packages that read the structure where the job has no environment of its own: they are in its key."""
    importer: Importer = load_object(job.importer, Importer)
    if job.environment:
        return {}
    return {name: installed_version(name) for name in importer.distributions}


def _job(number: int, fields: Mapping[str, Any]) -> ExportJob[int]:
    together, alone = fields["environment"] or ((), ())
    return ExportJob(
        number,
        fields["importer"],
        Request.from_message(fields),
        EnvSpec(tuple(together), tuple(alone)) if fields["environment"] else None,
        fields["weight"],
        fields["raw"],
    )
