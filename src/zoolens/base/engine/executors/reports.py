"""What a job tells its caller while it runs: plain data, in order. A report may be lost with a machine, a result not.

A function that runs as a job asks `teller` for whom to tell, or `job_progress` for a `Progress` whose bars are drawn
where the job was submitted. Whoever submits several jobs shows them with `JobBars`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self

from zoolens.base.progress import Progress, ProgressMessages, ProgressRelay, beside

Tell = Callable[[Any], None]


def nobody(_: Any) -> None:
    """For jobs whose caller does not listen."""


_teller: ContextVar[Tell] = ContextVar("zoolens_teller", default=nobody)


@contextmanager
def telling(tell: Tell | None) -> Iterator[None]:
    """Inside the `with`, `teller` returns this function. For who runs jobs."""
    before = _teller.set(tell or nobody)
    try:
        yield
    finally:
        _teller.reset(before)


def teller() -> Tell:
    """Returns the function that tells the caller of this job something. Other threads of the job may use it too."""
    return _teller.get()


def job_progress() -> Progress:
    """Returns a `Progress` that the caller of this job sees."""
    return ProgressMessages(teller())


class JobBars:
    """How far several jobs are: a bar that counts them and beside it one for each that tells something. A single job
    has the bar for itself. Used by one thread, as `run_jobs` does."""

    def __init__(self, progress: Progress, title: str, stage: str, jobs: int) -> None:
        self._progress, self._alone = progress, jobs == 1
        self._bars: dict[int, Progress] = {}
        self._relays: dict[int, ProgressRelay] = {}
        progress.begin(title, stage, jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.end()
        self._progress.end()

    def told(self, number: int, message: Mapping[str, Any]) -> None:
        """A job sent a message of its `job_progress`."""
        if number not in self._relays:
            bar = self._bars[number] = self._progress if self._alone else beside(self._progress)
            self._relays[number] = ProgressRelay(bar)
        self._relays[number].receive(message)

    def finished(self, number: int) -> None:
        self._relays.pop(number, None)
        bar = self._bars.pop(number, None)
        if bar is not None:
            bar.end()
        if not self._alone:
            self._progress.advance(1)
