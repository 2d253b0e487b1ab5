"""Progress bars for commands that mostly have nothing to show: rich's are imported when there is something."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from zoolens.cli.bars import Bars


class LateBars:
    """As `Bars`, which it makes at the first word. Use as a context manager."""

    def __init__(self) -> None:
        self._opened = ExitStack()

    @cached_property
    def _bars(self) -> Bars:
        from zoolens.cli.bars import Bars

        return self._opened.enter_context(Bars())

    def __enter__(self) -> LateBars:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def begin(self, title: str, stage: str, total: int | None) -> None:
        self._bars.begin(title, stage, total)

    def advance(self, steps: int) -> None:
        self._bars.advance(steps)

    def end(self) -> None:
        self._bars.end()

    def say(self, text: str) -> None:
        self._bars.say(text)
