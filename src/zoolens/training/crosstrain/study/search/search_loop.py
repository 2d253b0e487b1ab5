"""Run a search: several trials at once, with one journal. Where the objective trains is its own matter."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.search.budget import Budget
from zoolens.training.crosstrain.study.search.journal import AskedTrial, FinishedTrial, Journal
from zoolens.training.crosstrain.study.search.search_state import (
    Objective,
    SearchStatus,
    TrialQueue,
    best_of,
    carry_out,
)
from zoolens.training.crosstrain.study.study_plan import Plan

Report = Callable[[SearchStatus], None]


@dataclass(frozen=True)
class SearchResult:
    """Where a search stands when a call of it ends."""

    finished: tuple[FinishedTrial, ...]  # all trials of the journal, by name
    best: FinishedTrial | None
    new: int  # how many of them this call ran
    pending: tuple[AskedTrial, ...]  # begun and not finished, to be run by the next call
    reason: str  # why it ended before all trials were done; "": they are
    warnings: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.reason


def run_search(
    plan: Plan,
    objective: Objective,
    journal_path: Path,
    *,
    budget: Budget | None = None,
    workers: int = 1,
    progress: Report | None = None,
    first: int = 1,
) -> SearchResult:
    """Go on with the search of this journal, or begin it, until its trials are done or the budget is spent.

    The objective is called in threads, with `workers` trials at once. `progress` is called in this thread, before the
    first trial and after each one. `first`: see `Journal`.
    """
    if workers < 1:
        raise ZoolensError(f"{workers} workers cannot run a trial.", hint="Give at least 1.")
    with Journal(journal_path, plan, first) as journal:
        asking = TrialQueue(plan, journal, budget or Budget(), workers)
        before = len(journal.finished)
        report = progress or (lambda _: None)
        report(asking.status())
        _run_here(asking, objective, workers, report)
        return SearchResult(
            finished=tuple(sorted(journal.finished.values(), key=lambda trial: int(trial.trial))),
            best=best_of(journal.finished),
            new=len(journal.finished) - before,
            pending=tuple(journal.pending),
            reason=asking.reason,
            warnings=tuple(journal.warnings),
        )


def _run_here(asking: TrialQueue, objective: Objective, workers: int, report: Report) -> None:
    """Threads that die with this process: an interrupted trial is run again by the next call. Where a trial raises,
    those beside it are finished first."""
    events: queue.SimpleQueue[SearchStatus | BaseException | None] = queue.SimpleQueue()  # None: a thread has ended

    def work() -> None:
        try:
            while (asked := asking.next()) is not None:
                events.put(asking.tell(asked, carry_out(objective, asked)))
        except BaseException as error:
            asking.stop("A trial broke off.")
            events.put(error)
        finally:
            events.put(None)

    threads = [threading.Thread(target=work, daemon=True, name=f"trial-{n}") for n in range(workers)]
    for thread in threads:
        thread.start()
    problem: BaseException | None = None
    left = workers
    try:
        while left:
            event = events.get()
            if event is None:
                left -= 1
            elif isinstance(event, SearchStatus):
                report(event)
            else:
                problem = problem or event
    except BaseException:
        asking.stop("Interrupted.")
        raise
    if problem is not None:
        raise problem
