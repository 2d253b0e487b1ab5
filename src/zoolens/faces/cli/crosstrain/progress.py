"""A running study: a line for each trial, and a bar with the best Δ so far and how long it will take."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from zoolens.base.present.bars import Bars
from zoolens.faces.cli.crosstrain.trialtext import accuracies_line, points

if TYPE_CHECKING:
    from zoolens.training.crosstrain.study.search.search_state import SearchStatus
    from zoolens.training.crosstrain.training.job import Epoch
    from zoolens.training.crosstrain.training.trials import Trial


class StudyBar:
    """Draws a `Watch` of `plan_runner`, as a context manager; prints lines only where there is no terminal."""

    def __init__(self, study: str, seeds: int = 1) -> None:
        """`seeds` is the number of seeds of each trial, over which the best Δ is a mean."""
        self._study, self._seeds = study, seeds
        self._bars = Bars(remaining=False)
        self._trials_done: int | None = None  # None: the search has not begun
        self._found = self._training = ""

    def __enter__(self) -> StudyBar:
        self._bars.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.__exit__(kind, error, trace)

    def epoch(self, trial: str, framework: str, epoch: Epoch, of: int) -> None:
        self._training = f"{trial} {framework} epoch {epoch.number}/{of}"
        self._note()

    def trial(self, trial: Trial) -> None:
        self._bars.say(accuracies_line(trial))

    def search(self, status: SearchStatus) -> None:
        if self._trials_done is None:
            self._bars.begin(self._study, "trials", status.total)
            self._trials_done = 0
        self._bars.advance(status.done - self._trials_done)
        self._trials_done, self._found = status.done, _words(status, self._seeds)
        self._note()
        if not self._bars.on_terminal:
            self._bars.say(", ".join(filter(None, (f"{status.done} of {status.total} trials", self._found))))

    def _note(self) -> None:
        self._bars.note("  ".join(filter(None, (self._found, self._training))))


def _words(status: SearchStatus, seeds: int) -> str:
    from zoolens.training.crosstrain.study.search.budget import duration

    words = []
    if status.best is not None:
        words.append(f"best Δ {delta_text(status.best.told.delta, seeds)}")
    if status.eta_seconds:
        words.append(f"about {duration(status.eta_seconds)} left")
    return ", ".join(words)


def delta_text(delta: float | None, seeds: int) -> str:
    """The Δ that a search was told. With several seeds it is a mean, and not the Δ of the trial's own line."""
    return points(delta) if seeds == 1 else f"{points(delta)} on average over {seeds} seeds"
