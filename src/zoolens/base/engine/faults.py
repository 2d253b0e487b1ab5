"""What goes wrong in a worker process, as plain data on its side and as an error with a sentence on ours.

Used on both sides of the pipe, so only the standard library is imported.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from zoolens.base import errors
from zoolens.base.errors import (
    Cancelled,
    Circumstance,
    GateFailed,
    Lacking,
    Lost,
    StoreError,
    UnexpectedError,
    WorkerError,
    ZoolensError,
    first_line,
)

_LONGEST_SENTENCE: Final = 4000  # characters of a worker's error that are believed
_LAST_LINES: Final = 3
_NOT_OF_WORKERS: Final = (Cancelled, GateFailed, Lacking, Lost, StoreError)


def describe(error: BaseException, doing: str) -> dict[str, Any]:
    """Returns an error as plain data; `doing` begins the message of an unexpected exception."""
    if isinstance(error, ZoolensError):
        known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
        return {"type": known.__name__, "message": error.message, "hint": error.hint}
    return {"type": UnexpectedError.__name__, "message": _unexpected(error, doing), "hint": None}


def rebuild(description: Mapping[str, Any], *, of_worker: bool = False) -> ZoolensError:
    """The error that `describe` described. A worker that was taken over may have written anything in its place:
    `of_worker` leaves out what no worker can know, and what would end the work on other models."""
    kind = getattr(errors, str(description.get("type")), None)
    if not (isinstance(kind, type) and issubclass(kind, ZoolensError)):
        kind = WorkerError
    if of_worker and issubclass(kind, _NOT_OF_WORKERS):
        kind = WorkerError
    # Some kinds make their sentence themselves: here it is made already.
    error = kind.__new__(kind)
    hint = description.get("hint")
    message = str(description.get("message"))[:_LONGEST_SENTENCE]
    ZoolensError.__init__(error, message, hint=str(hint)[:_LONGEST_SENTENCE] if hint else None)
    return error


def death(worker: str, code: int | None, doing: str, printed: Sequence[str]) -> WorkerError:
    """The error that says how a worker ended: `code` is its exit status, or None where it hung up and lived on.

    A worker that was killed from outside is a circumstance: most often the machine had too little memory.
    """
    words = " | ".join(printed[-_LAST_LINES:])
    killed = code == -signal.SIGKILL
    hints = ["It was killed."] if killed else []
    if killed or "bad_alloc" in words:
        hints.append("Is there enough memory?")
    if words:
        hints.append(f"Its last output: {words}")
    kind = Circumstance if killed else WorkerError
    return kind(f"The {worker} {_ending(code)} while {doing}.", hint=" ".join(hints) or None)


def _ending(code: int | None) -> str:
    if code is None:
        return "hung up"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"died with signal {-code} ({name})"


def _unexpected(error: BaseException, doing: str) -> str:
    if isinstance(error, MemoryError):
        return f"{doing} ran out of memory."
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{doing} met an unexpected {type(error).__name__}{place}: {first_line(error)}"
