"""What long work tells whoever watches. The command line draws bars from it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def begin(self, title: str, stage: str, total: int | None) -> None: ...

    def advance(self, steps: int) -> None: ...

    def end(self) -> None: ...

    def say(self, text: str) -> None:
        """One line about something that takes long and has no length, such as building an environment."""


class Silent:
    def begin(self, title: str, stage: str, total: int | None) -> None: ...

    def advance(self, steps: int) -> None: ...

    def end(self) -> None: ...

    def say(self, text: str) -> None: ...
