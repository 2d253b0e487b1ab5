"""What long work reports. Work knows only this contract; `zoolens.base.present.bars` draws it.

A process that starts a command and wants to know how far it is names a file in ZOOLENS_PROGRESS_FILE: the command then
adds a line of JSON to it for everything that it tells.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, Protocol, runtime_checkable

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


class ProgressMessages:
    """Sends what it is told as plain data: {"stage": {"title", "stage", "total", "unit"}}, {"done": steps} and
    {"say": text}. Steps that follow each other quickly share a message."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._done, self._total, self._sent = 0, 0, 0.0

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None:
        self._done, self._total, self._sent = 0, total or 0, 0.0
        self._send({"stage": {"title": title, "stage": stage, "total": total, "unit": unit}})

    def advance(self, steps: int) -> None:
        self._done += steps
        if self._done == self._total or time.monotonic() - self._sent > _PAUSE:
            self._sent = time.monotonic()
            self._send({"done": self._done})

    def end(self) -> None: ...

    def say(self, text: str) -> None:
        self._send({"say": text[:1000]})


class ProgressRelay:
    """Passes on to a `Progress` what `ProgressMessages` sent."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = 0

    def receive(self, message: Mapping[str, Any]) -> None:
        if "stage" in message:
            self._done = 0
            self._progress.begin(**message["stage"])
        elif "done" in message:
            self._progress.advance(message["done"] - self._done)
            self._done = message["done"]
        else:
            self._progress.say(str(message["say"]))


@runtime_checkable
class SeveralBars(Progress, Protocol):
    """A `Progress` that can show several pieces of work at once."""

    def beside(self) -> Progress:
        """Returns a progress for work that runs at the same time."""


def beside(progress: Progress) -> Progress:
    """Returns a progress for work that runs beside that of `progress`; where only one can be shown, it only speaks."""
    return progress.beside() if isinstance(progress, SeveralBars) else OnlySaying(progress)


class OnlySaying(Silent):
    """A `Progress` without stages."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def say(self, text: str) -> None:
        self._progress.say(text)


def watcher() -> Progress:
    """Returns the progress file that the parent process named, or a silent one."""
    path = os.environ.get(FILE_VARIABLE)
    try:
        return ProgressMessages(_written_to(open(path, "a", encoding="utf-8"))) if path else Silent()  # noqa: PTH123 - to the end
    except OSError:
        return Silent()


def _written_to(file: IO[str]) -> Callable[[dict[str, Any]], None]:
    def write(line: dict[str, Any]) -> None:
        file.write(json.dumps(line) + "\n")
        file.flush()

    return write


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
