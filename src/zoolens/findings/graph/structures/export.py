"""Graphs of many models, read by the machines that the current executor stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.findings.graph.structures.export_pool import TIMEOUT, Exported, ExportJob, export_locally

K = TypeVar("K")


def export_many(
    jobs: Iterable[ExportJob[K]],
    *,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    timeout: float = TIMEOUT,
) -> Iterator[Exported[K]]:
    """Yield graphs as they are ready, in any order. A failed job is an `Exported` with an error and stops no other."""
    executor = current_executor()
    if executor.elsewhere:
        # Imported here: it needs all that opens datasets, which takes half a second of a command on one machine.
        from zoolens.findings.graph.structures.fanout import export_elsewhere

        return export_elsewhere(executor, jobs, timeout, say)
    return export_locally(jobs, workers=workers, say=say, timeout=timeout)


def export(job: ExportJob[K], *, timeout: float = TIMEOUT) -> Exported[K]:
    """Read one graph."""
    [done] = export_many([job], workers=1, timeout=timeout)
    return done
