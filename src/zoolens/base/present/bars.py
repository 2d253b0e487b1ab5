"""Progress bars for long work; plain lines where the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zoolens.base.present.figures import figure
from zoolens.base.present.streams import open_console
from zoolens.base.progress import OnlySaying, watcher

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.progress import Progress as RichProgress

_drawn: list[Bars] = []


@contextmanager
def bars_paused() -> Iterator[None]:
    """No bar is drawn while something is asked on the terminal."""
    paused = [bars.drawing for bars in _drawn]
    for drawing in paused:
        drawing.stop()
    try:
        yield
    finally:
        for drawing in paused:
            drawing.start()


@contextmanager
def spinner(title: str, stage: str) -> Iterator[None]:
    """Show on a terminal that something goes on of which nobody knows how long it takes."""
    if not sys.stderr.isatty():  # where rich, which takes a tenth of a second to import, would draw nothing
        yield
        return
    with Bars(remaining=False) as bars:
        bars.begin(title, stage, None)
        yield


class Bars:
    """Draws `zoolens.base.progress.Progress`. Use as a context manager.

    rich is imported when there is something to draw, because many commands have nothing to show.
    """

    def __init__(self, *, lines: bool = False, remaining: bool = True) -> None:
        """Without a terminal, `lines` prints a line at every tenth of the way. `remaining` shows the time left."""
        self._lines, self._remaining = lines, remaining
        self._title, self._unit, self._done, self._total = "", "", 0, 0
        self._task: Any = None
        self._watcher = watcher()

    @cached_property
    def _console(self) -> Console:
        return open_console(stderr=True, emoji=False)

    @cached_property
    def drawing(self) -> RichProgress:
        """The bars of rich, begun at the first use."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        drawing = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}", style="progress.download"),
            *([TimeRemainingColumn()] if self._remaining else []),
            TextColumn("[dim]{task.fields[note]}[/]"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        drawing.start()
        _drawn.append(self)
        return drawing

    @property
    def on_terminal(self) -> bool:
        return self._console.is_terminal

    def __enter__(self) -> Bars:
        """On a terminal something moves at once: opening models and data may take seconds before the first stage."""
        if sys.stderr.isatty():
            self._task = self.drawing.add_task("open", total=None, amount="", note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in _drawn:
            _drawn.remove(self)
            self.drawing.stop()

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None:
        from rich.markup import escape

        self.end()
        self._watcher.begin(title, stage, total, unit)
        self._title, self._unit, self._done, self._total = f"{title}: {stage}", unit, 0, total or 0
        self._task = self.drawing.add_task(escape(self._title), total=total, amount=self._amount(), note="")
        self._tell(0)

    def advance(self, steps: int) -> None:
        self._done += steps
        self._watcher.advance(steps)
        self._tell(self._done - steps)
        if self._task is not None:
            self.drawing.update(self._task, advance=steps, amount=self._amount())

    def end(self) -> None:
        if self._task is not None:
            self.drawing.remove_task(self._task)
            self._task = None

    def beside(self) -> Bars:
        """A bar below this one, for work that runs at the same time. Without a terminal it shows only what it says."""
        other = Bars(remaining=self._remaining)
        other.__dict__ |= {"_console": self._console, "drawing": self.drawing, "_watcher": OnlySaying(self._watcher)}
        return other

    def note(self, text: str) -> None:
        """Show a text behind the bar until the next note."""
        from rich.markup import escape

        if self._task is not None:
            self.drawing.update(self._task, note=escape(text))

    def say(self, text: str) -> None:
        """A plain line, above the bars."""
        from rich.markup import escape

        self.show(escape(text))

    def show(self, markup: str) -> None:
        from rich.text import Text

        self._watcher.say(Text.from_markup(markup).plain)
        self._console.print(markup, highlight=False, soft_wrap=True)

    def _amount(self) -> str:
        done, total = ((figure(count, "B") if self._unit == "B" else str(count)) for count in (self._done, self._total))
        return f"{done}/{total if self._total else '?'}" if self._total or self._done else ""

    def _tell(self, before: int) -> None:
        if not self._lines or self.on_terminal or not self._total:
            return
        if self._done == 0 or self._done * 10 // self._total > before * 10 // self._total:
            self.say(f"{self._title} {self._done:,} of {self._total:,}")
