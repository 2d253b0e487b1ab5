"""What the command of a finished job printed as JSON."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zoolens.faces.ui.endpoint import NotFound
from zoolens.faces.ui.jobs.folder import JobFolder, JobState

MOST_OUTPUT: Final = 64 << 20  # bytes
_UNDONE: Final = {
    JobState.QUEUED: "This job waits for its turn.",
    JobState.RUNNING: "This job is still at work.",
    JobState.FAILED: "This job failed, so that there is nothing to show.",
    JobState.CANCELLED: "This job was cancelled, so that there is nothing to show.",
}
_HINTS: Final = {
    JobState.FAILED: "The page of jobs says why.",
    JobState.CANCELLED: "Start it again from where it was started.",
}
_KEPT: Final = 2  # an audit of all zoos has megabytes, and every page of its findings reads it


def printed_by(folder: JobFolder) -> dict[str, Any]:
    """The object that a job printed. It is shared by all who ask: nobody may change it."""
    if folder.state is not JobState.DONE:
        raise NotFound(_UNDONE[folder.state], hint=_HINTS.get(folder.state))
    try:
        facts = folder.output_file.stat()
        printed = _read(folder.output_file, facts.st_mtime_ns) if facts.st_size <= MOST_OUTPUT else None
    except (OSError, ValueError, RecursionError) as error:
        raise NotFound("What this job printed cannot be read.") from error
    if not isinstance(printed, dict):
        raise NotFound("What this job printed cannot be read.")
    return printed


@lru_cache(_KEPT)
def _read(path: Path, _: int) -> Any:
    return json.loads(path.read_bytes())
