"""What long work reports. Work knows only this contract; `zoolens.base.present.bars` draws it.

A process that starts a command and wants to know how far it is names a file in ZOOLENS_PROGRESS_FILE: the command then
adds a line of JSON to it for everything that it tells.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import IO, Any, Final, Protocol

FILE_VARIABLE: Final = "ZOOLENS_PROGRESS_FILE"
_PAUSE: Final = 0.2  # seconds between two lines about the same stage


class Progress(Protocol):
    """One stage at a time: `begin`, any number of `advance`, `end`."""

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None:
        """A stage of so many steps begins, and the one before ends. `total` is None where nobody knows how many steps
        there are. The unit "B" says that the steps are bytes."""

    def advance(self, steps: int) -> None: ...

    def end(self) -> None: ...

    def say(self, text: str) -> None:
        """One line about something that takes long and has no length, such as building an environment."""


class Silent:
    """A `Progress` that reports nothing."""

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None: ...

    def advance(self, steps: int) -> None: ...

    def end(self) -> None: ...

    def say(self, text: str) -> None: ...


class ProgressFile:
    """Adds lines to a file: {"stage": {"title", "stage", "total", "unit"}}, {"done": steps} and {"say": text}."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._done, self._total, self._written = 0, 0, 0.0

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None:
        self._done, self._total, self._written = 0, total or 0, 0.0
        self._write({"stage": {"title": title, "stage": stage, "total": total, "unit": unit}})

    def advance(self, steps: int) -> None:
        self._done += steps
        if self._done == self._total or time.monotonic() - self._written > _PAUSE:
            self._written = time.monotonic()
            self._write({"done": self._done})

    def end(self) -> None: ...

    def say(self, text: str) -> None:
        self._write({"say": text[:1000]})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def watcher() -> Progress:
    """Returns the progress file that the parent process named, or a silent one."""
    path = os.environ.get(FILE_VARIABLE)
    try:
        return ProgressFile(open(path, "a", encoding="utf-8")) if path else Silent()  # noqa: PTH123 - to the end
    except OSError:
        return Silent()


def count_bytes(progress: Progress, title: str) -> Callable[[int, int | None], None]:
    """What a download calls with the bytes that are here and those that there are. Its stage begins at the first call,
    so that files which are here already show nothing."""
    seen = 0

    def downloaded(done: int, total: int | None) -> None:
        nonlocal seen
        if not seen:
            progress.begin(title, "download", total, "B")
        progress.advance(done - seen)
        seen = done

    return downloaded
