"""Progress bars for long work; plain lines where the output is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from zoolens.present.streams import open_console

_drawn: list[Bars] = []


@contextmanager
def bars_paused() -> Iterator[None]:
    """No bar is drawn while something is asked on the terminal."""
    paused = [bars._progress for bars in _drawn]
    for progress in paused:
        progress.stop()
    try:
        yield
    finally:
        for progress in paused:
            progress.start()


class Bars:
    """Draws `zoolens.measure.stages.Progress`. Use as a context manager."""

    def __init__(self, *, lines: bool = False) -> None:
        """`lines`: without a terminal, a line at every tenth of the way."""
        self._lines, self._title, self._done, self._total = lines, "", 0, 0
        self._console = open_console(stderr=True, emoji=False)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: Any = None

    def __enter__(self) -> Bars:
        self._progress.start()
        _drawn.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _drawn.remove(self)
        self._progress.stop()

    def begin(self, title: str, stage: str, total: int | None) -> None:
        self.end()
        self._task = self._progress.add_task(escape(f"{title}: {stage}"), total=total)
        self._title, self._done, self._total = f"{title}: {stage}", 0, total or 0
        self._tell(0)

    def _tell(self, before: int) -> None:
        if not self._lines or self._console.is_terminal or not self._total:
            return
        if self._done == 0 or self._done * 10 // self._total > before * 10 // self._total:
            self.say(f"{self._title} {self._done:,} of {self._total:,}")

    def advance(self, steps: int) -> None:
        self._done += steps
        self._tell(self._done - steps)
        if self._task is not None:
            self._progress.advance(self._task, steps)

    def end(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None

    def say(self, text: str) -> None:
        """A plain line, above the bars."""
        self.show(escape(text))

    def show(self, markup: str) -> None:
        self._console.print(markup, highlight=False, soft_wrap=True)
