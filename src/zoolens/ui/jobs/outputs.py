"""What the command of a finished job printed as JSON."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zoolens.ui.endpoint import NotFound
from zoolens.ui.jobs.folder import JobFolder, JobState

MOST_OUTPUT: Final = 64 << 20  # bytes
_KEPT: Final = 2  # an audit of all zoos has megabytes, and every page of its findings reads it


def printed_by(folder: JobFolder) -> dict[str, Any]:
    """The object that a job printed. It is shared by all who ask: nobody may change it."""
    if folder.state is not JobState.DONE:
        raise NotFound("This job has found nothing yet.")
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
