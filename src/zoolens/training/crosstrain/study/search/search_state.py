"""One search as whoever runs its trials sees it: what to run next, what came of it, and why it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from zoolens.training.crosstrain.study.search.budget import Budget
from zoolens.training.crosstrain.study.search.designs import design
from zoolens.training.crosstrain.study.search.hyperspace import Point, Subspace, subspaces
from zoolens.training.crosstrain.study.search.journal import AskedTrial, FinishedTrial, Journal, TrialResult
from zoolens.training.crosstrain.study.search.sampler import next_point
from zoolens.training.crosstrain.study.study_plan import Plan
from zoolens.training.crosstrain.training.trials import Hyperparameter

# Runs one trial. What came of it, however bad, is returned; what is raised ends the search, and the trial is run again
# by the next one.
Objective = Callable[[str, Mapping[str, Hyperparameter]], TrialResult]

_ENOUGH = 2  # answers before a Gaussian process is worth asking


@dataclass(frozen=True)
class SearchStatus:
    """How far a search is. `eta_seconds` is None as long as nothing is known of it."""

    done: int
    total: int
    best: FinishedTrial | None
    eta_seconds: float | None


def carry_out(objective: Objective, asked: AskedTrial) -> TrialResult:
    began = time.monotonic()
    outcome = objective(asked.trial, asked.hyperparameters)
    return outcome if outcome.seconds is not None else outcome.model_copy(update={"seconds": time.monotonic() - began})


def best_of(finished: Mapping[str, FinishedTrial]) -> FinishedTrial | None:
    """The largest Δ; of equals, the first."""
    answered = [trial for trial in finished.values() if trial.told.delta is not None]
    return max(answered, key=lambda trial: trial.told.delta or 0.0, default=None)


class TrialQueue:
    """Safe to use from several threads. Trials that were asked before and not answered come first, as they were."""

    def __init__(self, plan: Plan, journal: Journal, budget: Budget, workers: int) -> None:
        self.journal = journal
        self.total = budget.trials or plan.search.trials
        self.reason = ""  # why there is no next trial; "": all are done
        self._search = plan.search
        self._budget = budget
        self._workers = workers
        self._subspaces = subspaces(plan.space, plan.search)
        self._designs = [design(plan.search, subspace) for subspace in self._subspaces]
        self._usable()
        self._waiting = journal.pending
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._stopped = False

    def next(self) -> AskedTrial | None:
        """The next trial to run; None: no more, see `reason`."""
        with self._lock:
            asked = self._next()
            if asked is not None:
                self._running.add(asked.trial)
            return asked

    def tell(self, asked: AskedTrial, told: TrialResult) -> SearchStatus:
        """Records the result of a trial, which is on the disk when this returns."""
        with self._lock:
            self._running.discard(asked.trial)
            self.journal.tell(asked, told)
            return self._status()

    def stop(self, reason: str) -> None:
        """No further trial begins."""
        with self._lock:
            self.reason, self._stopped = reason, True

    def status(self) -> SearchStatus:
        with self._lock:
            return self._status()

    def _status(self) -> SearchStatus:
        done, seconds = len(self.journal.finished), self._seconds()
        left = max(self.total - done, 0)
        eta = left * sum(seconds) / len(seconds) / self._workers if seconds else None
        return SearchStatus(done, self.total, best_of(self.journal.finished), eta)

    def _next(self) -> AskedTrial | None:
        if self._stopped or (not self._waiting and len(self.journal.asked) >= self.total):
            return None
        refusal = self._budget.refusal(time.monotonic() - self._began, self._seconds(), len(self._running))
        if refusal:
            self.reason, self._stopped = refusal, True
            return None
        if self._waiting:
            return self._waiting.pop(0)
        for subspace in sorted(self._subspaces, key=lambda subspace: (len(self._history(subspace)), subspace.index)):
            point = self._propose(subspace)
            if point is not None:
                return self.journal.ask(subspace.index, point)
        self.reason, self._stopped = "Every setting of the space has been tried.", True
        return None

    def _propose(self, subspace: Subspace) -> Point | None:
        """Proposes the next point; None: this subspace has no untried point."""
        history = self._history(subspace)
        taken = {_key(asked.hyperparameters) for asked in self.journal.asked.values()}
        deltas = {
            asked.trial: finished.told.delta
            for asked in history
            if (finished := self.journal.finished.get(asked.trial))
        }
        answered = [
            (finished.asked.hyperparameters, finished.told.delta)
            for finished in self.journal.finished.values()
            if finished.asked.subspace == subspace.index and finished.told.delta is not None
        ]
        if self._search.sampler == "gp" and len(history) >= self._search.initial and len(answered) >= _ENOUGH:
            silent = [asked.hyperparameters for asked in history if deltas.get(asked.trial) is None]
            point = next_point(subspace.axes, answered, silent, self._seed(subspace, len(history)))
            if _key(point) not in taken:
                return point
        return next((point for point in self._designs[subspace.index] if _key(point) not in taken), None)

    def _history(self, subspace: Subspace) -> list[AskedTrial]:
        return [asked for asked in self.journal.asked.values() if asked.subspace == subspace.index]

    def _seed(self, subspace: Subspace, asked: int) -> int:
        sequence = np.random.SeedSequence([self._search.seed % (1 << 32), subspace.index, asked])
        return int(sequence.generate_state(1)[0])

    def _seconds(self) -> list[float]:
        return [trial.told.seconds or 0.0 for trial in self.journal.finished.values()]

    def _usable(self) -> None:
        """Leave out what passes its checksum and still does not fit the space."""
        for trial, asked in list(self.journal.asked.items()):
            known = asked.subspace < len(self._subspaces)
            if not known or not self._subspaces[asked.subspace].holds(asked.hyperparameters):
                self.journal.warnings.append(f"Trial {trial} does not fit the space and is left out.")
                self.journal.asked.pop(trial)
                self.journal.finished.pop(trial, None)


def _key(point: Point) -> tuple[tuple[str, Hyperparameter], ...]:
    return tuple(sorted(point.items()))
