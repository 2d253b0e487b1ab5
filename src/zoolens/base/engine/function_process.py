"""A function that is called once in a process of its own, which ends with the call, and with us.

Functions are named, take one job and return plain data, as for executors (`executors/executor.py`). They may import
frameworks of hundreds of megabytes, crash, or never return, without harm to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from zoolens.base.engine.executors.executor import Job, performed, task
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.engine.service import Service

COMPUTING: Final = WorkerKind("computing process", __name__, __name__)


def call_in_process(
    function: str,
    job: Job,
    doing: str,
    *,
    timeout: float | None = None,
    variables: Mapping[str, str] | None = None,
    rights: Rights | None = None,
) -> Any:
    """What "module:function" returns for this job; the `ZoolensError` that it raises is raised here.

    `doing` is for sentences about a process that died or took too long. `variables`: of its environment, beside ours.
    `rights`: those of a sandbox, for a function that reads strangers' files.
    """
    worker = WorkerProcess(replace(COMPUTING, variables=tuple((variables or {}).items()), rights=rights))
    try:
        return worker.ask(task(function, job), doing, timeout=timeout)
    finally:
        worker.stop()


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    Service(settings, began_ns).serve(performed, lambda request: f"The function {request['function']}")
