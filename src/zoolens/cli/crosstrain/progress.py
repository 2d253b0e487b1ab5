"""A running study: a line for each trial, and a bar with the best Δ so far and how long it will take."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from zoolens.cli.crosstrain.trialtext import accuracies_line, points
from zoolens.present.terminal import make_console

if TYPE_CHECKING:
    from zoolens.crosstrain.job import Epoch
    from zoolens.crosstrain.search.asking import Progress
    from zoolens.crosstrain.study import Trial


class StudyBar:
    """Draws `zoolens.crosstrain.studying.Watch`. Use as a context manager. Without a terminal there are lines only."""

    def __init__(self, study: str, seeds: int = 1) -> None:
        """`seeds`: of each trial, over which the best Δ is a mean."""
        self._seeds = seeds
        self._console = make_console(stderr=True)
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[more]}"),
            TextColumn("[dim]{task.fields[now]}[/]"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(escape(study), total=None, more="", now="")

    def __enter__(self) -> StudyBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def epoch(self, trial: str, framework: str, epoch: Epoch, of: int) -> None:
        self._bar.update(self._task, now=escape(f"{trial} {framework} epoch {epoch.number}/{of}"))

    def trial(self, trial: Trial) -> None:
        self._say(accuracies_line(trial))

    def search(self, progress: Progress) -> None:
        more = _words(progress, self._seeds)
        self._bar.update(self._task, completed=progress.done, total=progress.total, more=escape(more))
        if not self._console.is_terminal:
            self._say(f"{progress.done} of {progress.total} trials{f', {more}' if more else ''}")

    def _say(self, text: str) -> None:
        self._console.print(escape(text), soft_wrap=True)


def _words(progress: Progress, seeds: int) -> str:
    from zoolens.crosstrain.search.budget import duration

    found = []
    if progress.best is not None:
        found.append(f"best Δ {delta_text(progress.best.told.delta, seeds)}")
    if progress.eta_seconds:
        found.append(f"about {duration(progress.eta_seconds)} left")
    return ", ".join(found)


def delta_text(delta: float | None, seeds: int) -> str:
    """What a search was told: with several seeds it is not the Δ of the trial's own line."""
    return points(delta) if seeds == 1 else f"{points(delta)} on average over {seeds} seeds"
