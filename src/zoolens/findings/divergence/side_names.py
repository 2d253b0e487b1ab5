"""What a user writes for one side of a comparison, and the model and runtime that it stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zoolens.base import plugins
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.progress import Progress
from zoolens.findings.measure.jobs import Job, RunOptions, plan_jobs
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.runtimes.runtime_names import parse_runtime
from zoolens.inventory.zoos.zoo import Entry

_OPTION: Final = re.compile(r"(\w+)=([^,=]+)")
_OPTIONS: Final = ("precision", "threads", "mode", "device", "env")  # env comes last: it may hold commas


@dataclass(frozen=True)
class SideName:
    """What a user wrote for one side: MODEL, MODEL@RUNTIME or MODEL@RUNTIME:precision=float32,threads=1."""

    model: str
    runtime: str | None = None
    options: Options = field(default_factory=Options)
    environment: str = ""


def parse_side(text: str) -> SideName:
    """The parts of what a user wrote. An "@" that no runtime follows belongs to the model: its version, or its path."""
    model, at, rest = text.rpartition("@")
    name, address = parse_runtime(rest)
    if not at or name not in plugins.names(plugins.RUNTIMES) or Path(text).exists():
        return SideName(text)
    options, behind, environment = address.rpartition("env=")
    parts = (options.rstrip(",") if behind else address).split(",") if address != f"env={environment}" else []
    if not address or not all(_OPTION.fullmatch(part) for part in parts):
        return SideName(model, rest)
    chosen = dict(part.split("=", 1) for part in parts)
    unknown = next((option for option in chosen if option not in _OPTIONS), None)
    if unknown is not None:
        raise ZoolensError(f"There is no option {unknown!r} of a side.", hint=f"There are {', '.join(_OPTIONS)}.")
    environment = environment if behind else ""
    threads = chosen.pop("threads", None)
    if threads is not None and not threads.isdecimal():
        raise ZoolensError(f"threads={threads} is no number of threads.")
    return SideName(model, name, Options(threads=int(threads) if threads else None, **chosen), environment)


def job_named(
    name: SideName, *, entry: Entry | None = None, allow_code: bool = False, progress: Progress | None = None
) -> Job:
    """The model in the runtime that was asked for, or in the installed one that reads the fewest other formats.
    `entry`: the model, where it is known by more than its name."""
    wanted = RunOptions(
        runtimes=(name.runtime,) if name.runtime else (),
        environments=(name.environment,),
        options=name.options,
        allow_code=allow_code,
    )
    jobs, skipped = plan_jobs([entry or found(name.model)], wanted, progress)
    if not jobs:
        raise ModelError(" ".join(passed.reason for passed in skipped) or f"{name.model} cannot be run here.")
    return min(jobs, key=lambda job: len(job.runtime.formats))


def found(model: str) -> Entry:
    """The model of this name. What stands behind its last "@" was taken for a version, since no runtime is called so:
    where there is no such version either, a runtime was meant."""
    try:
        return find(model)
    except ZoolensError as error:
        name, at, rest = model.rpartition("@")
        if not at or rest[:1].isdigit():
            raise
        entry = find(name)  # says what is wrong with the name, where that is it
        known = ", ".join(plugins.names(plugins.RUNTIMES))
        raise ZoolensError(
            f"There is no runtime {parse_runtime(rest)[0]!r}, and {entry.ref} has no version {rest!r}.",
            hint=f"Runtimes are {known}.",
        ) from error
