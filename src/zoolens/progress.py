"""What long work tells whoever watches it. Work knows only this contract; `zoolens.cli.bars` draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


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
    """Nobody watches."""

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None: ...

    def advance(self, steps: int) -> None: ...

    def end(self) -> None: ...

    def say(self, text: str) -> None: ...


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
