"""/jobs: start what the commands do, follow it, cancel it, and see how it ended."""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Event, File, NotFound, Paged, Query, Shown
from zoolens.faces.ui.jobs.folder import JobFolder, JobState
from zoolens.faces.ui.jobs.kinds import BUNDLE, KINDS, ExportJob, JobParameters
from zoolens.faces.ui.jobs.outputs import printed_by

_LOOK: Final = 0.3  # seconds between two looks at a job that somebody follows
_STEP: Final = 1 << 16  # bytes of progress that are read at a time
_MOST_OUTPUT: Final = 64 << 20
_MOST_BUNDLE: Final = 256 << 20
_MOST_RUNS: Final = 500
_RUN: Final = re.compile(r"[0-9a-f]{16}")


class JobQuery(Query):
    id: str = Field(max_length=50)


class JobEventsQuery(JobQuery):
    after: int = Field(0, ge=0, description="Where to go on: the id of the last event that was received.")


class Job(Answer):
    """One job."""

    id: str
    kind: Shown
    title: Shown
    command: Shown
    state: JobState
    created: datetime
    ended: datetime | None
    code: int | None
    """The exit status of the command; null if it was never started or lost."""
    error: Shown
    """Why it failed, in the words of the command."""
    runs: list[str]
    """The ids of runs that it made or met."""


class JobList(Answer):
    total: int
    rows: list[Job]


class JobProgress(Answer):
    """What a running job does: `done` of `total` steps of a stage, and the last message. `total` is null where nobody
    knows it."""

    title: Shown
    stage: Shown
    done: int
    total: int | None
    unit: Shown
    message: Shown


def jobs(context: Context, query: Paged, kind: str | None = None) -> JobList:
    """The jobs of one kind, or of all."""
    folders = context.jobs.jobs()
    if kind is not None:
        folders = [folder for folder in folders if folder.asked().get("kind") == kind]
    return JobList(total=len(folders), rows=[job_of(folder) for folder in folders[query.page]])


def printed_by_kind(context: Context, job_id: str, kind: str, refusal: str) -> tuple[JobFolder, dict[str, Any]]:
    """A job and what it printed. NotFound: it is of another kind, which `refusal` says, or it has printed nothing."""
    folder = context.jobs.job(job_id)
    if folder.asked().get("kind") != kind:
        raise NotFound(refusal)
    return folder, printed_by(folder)


def job(context: Context, query: JobQuery) -> Job:
    return job_of(context.jobs.job(query.id))


def cancel(context: Context, query: JobQuery) -> Job:
    return job_of(context.jobs.cancel(query.id))


def start(context: Context, parameters: JobParameters) -> Job:
    return job_of(context.jobs.start(parameters))


def output(context: Context, query: JobQuery) -> File:
    folder = context.jobs.job(query.id)
    try:
        size = folder.output_file.stat().st_size
        content = folder.output_file.read_bytes() if size <= _MOST_OUTPUT else None
    except OSError as error:
        raise NotFound("This job has printed nothing.") from error
    if content is None:
        raise NotFound(f"The output of this job is larger than {_MOST_OUTPUT >> 20} MiB.")
    return File(content, "application/json", f"{folder.asked().get('kind', 'job')}-{folder.id}.json")


async def events(context: Context, query: JobEventsQuery) -> AsyncIterator[Event]:
    """Progress as it comes, then the job as it ended. Each event's id is a place in the file of progress."""
    folder = context.jobs.job(query.id)
    place, shown = query.after, ""
    progress = {"title": "", "stage": "", "done": 0, "total": None, "unit": "", "message": ""}
    while True:
        now = await asyncio.to_thread(job_of, folder)  # before the progress, so that nothing of it is missed
        place, lines = await asyncio.to_thread(_progress, folder, place)
        for line in lines:
            progress |= _told(line)
        if lines:
            yield Event("progress", JobProgress.model_validate(progress), str(place))
        if now.state != shown:
            shown = now.state
            yield Event("job", now)
        if now.ended is not None:
            return
        if not lines:
            await asyncio.sleep(_LOOK)


def _progress(folder: JobFolder, place: int) -> tuple[int, list[dict[str, Any]]]:
    """The lines of progress after a place in the file, and the place behind them."""
    try:
        with folder.progress_file.open("rb") as file:
            file.seek(place)
            content = file.read(_STEP)
    except OSError:
        return place, []
    whole = content[: content.rfind(b"\n") + 1]
    lines = []
    for text in whole.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return place + len(whole), lines


def _told(line: dict[str, Any]) -> dict[str, Any]:
    """What one line of progress changes; see `zoolens.base.progress.ProgressMessages`."""
    if isinstance(stage := line.get("stage"), dict):
        return {**{name: stage.get(name) for name in ("title", "stage", "total", "unit")}, "done": 0}
    if isinstance(done := line.get("done"), int):
        return {"done": done}
    return {"message": str(line.get("say", ""))}


def bundle(context: Context, query: JobQuery) -> File:
    """The folder that an export wrote, as one file."""
    folder, _ = printed_by_kind(context, query.id, ExportJob.name, "This job wrote no bundle.")
    written = sorted(path for path in (folder.path / BUNDLE).rglob("*") if path.is_file())
    if not written or sum(path.stat().st_size for path in written) > _MOST_BUNDLE:
        raise NotFound(
            "There is no bundle that can be sent: it was removed, or is too large.",
            hint="`zoolens ui export FOLDER` writes one of any size.",
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for path in written:
            packed.write(path, f"zoolens-{folder.id}/{path.relative_to(folder.path / BUNDLE)}")
    return File(content.getvalue(), "application/zip", f"zoolens-{folder.id}.zip")


def job_of(folder: JobFolder) -> Job:
    asked, end, state = folder.asked(), folder.end() or {}, folder.state
    failed = state in (JobState.FAILED, JobState.CANCELLED)
    return Job(
        id=folder.id,
        kind=asked.get("kind", ""),
        title=asked.get("title", ""),
        command=" ".join(["zoolens", *asked.get("command", ())]),
        state=state,
        created=asked.get("created") or datetime.fromtimestamp(0).astimezone(),
        ended=end.get("ended"),
        code=end.get("code"),
        error=(end.get("reason") or _last_sentence(folder.messages())) if failed else "",
        runs=_runs(folder) if end else [],
    )


def _last_sentence(messages: str) -> str:
    """The error of a command is the last thing that it says."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else ""


def _runs(folder: JobFolder) -> list[str]:
    """Ids of runs in what a command printed as JSON: of each entry of a list, or of the whole."""
    try:
        if folder.output_file.stat().st_size > _MOST_OUTPUT:
            return []
        printed = json.loads(folder.output_file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    entries = printed if isinstance(printed, list) else [printed]
    runs = [entry.get("run") for entry in entries if isinstance(entry, dict)]
    return list(dict.fromkeys(run for run in runs if isinstance(run, str) and _RUN.fullmatch(run)))[:_MOST_RUNS]


def _starting(kind: type[JobParameters]) -> Endpoint:
    call: Callable[[Context, Any], Job] = start
    return Endpoint(f"/jobs/{kind.name}", f"Start a job: {kind.summary}", call, asks=kind, method="POST", status=202)


ENDPOINTS: Final = (
    Endpoint("/jobs", "Jobs, newest first", jobs, needs_store=False),
    *map(_starting, KINDS),
    Endpoint("/jobs/{id}", "One job", job, needs_store=False),
    Endpoint("/jobs/{id}", "Cancel a job; what it measured is kept", cancel, method="DELETE", needs_store=False),
    Endpoint("/jobs/{id}/output", "What the command of a job printed, as JSON", output, needs_store=False),
    Endpoint("/jobs/{id}/bundle", "The folder that an export wrote, as a ZIP file", bundle, needs_store=False),
    Endpoint("/jobs/{id}/events", "Progress of a job, as it comes", events, stream=JobProgress, needs_store=False),
)
