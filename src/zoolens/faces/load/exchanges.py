"""What happened to each request of a run: when it was meant to be sent, was sent and was answered, and how it ended."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.protocol.errors import Refusal

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN: Final = -1  # right or wrong, input, or answering model: nothing says


class Outcome(Enum):
    """How a request ended, with the words of a report."""

    ANSWERED = "answered"
    SHED = "shed by the server (429)"
    TOO_LATE = "given up by the server at its deadline (504)"
    UNAVAILABLE = "server or model unavailable (503)"
    REFUSED = "refused as invalid (4xx)"
    FAILED = "failed in the server (5xx)"
    UNREADABLE = "answered with something unreadable"
    DISCONNECTED = "connection refused or lost"
    TIMED_OUT = "no answer within the client's time limit"


OUTCOMES: Final = tuple(Outcome)
_PLACES: Final = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_OF_GRPC: Final = {
    "RESOURCE_EXHAUSTED": Outcome.SHED,
    "DEADLINE_EXCEEDED": Outcome.TOO_LATE,
    "UNAVAILABLE": Outcome.UNAVAILABLE,
    "INTERNAL": Outcome.FAILED,
    "UNKNOWN": Outcome.FAILED,
    "DATA_LOSS": Outcome.FAILED,
}


def outcome_of_status(status: int) -> Outcome:
    """What an HTTP status says."""
    if status == 200:
        return Outcome.ANSWERED
    known = {
        Refusal.OVERLOADED.http: Outcome.SHED,
        Refusal.TOO_LATE.http: Outcome.TOO_LATE,
        Refusal.UNAVAILABLE.http: Outcome.UNAVAILABLE,
    }
    return known.get(status) or (Outcome.REFUSED if 400 <= status < 500 else Outcome.FAILED)


def outcome_of_code(code: str) -> Outcome:
    """What the name of a gRPC status code says."""
    return _OF_GRPC.get(code, Outcome.REFUSED)


class Exchanges:
    """One row for each request, filled in as the run goes. Times are seconds after the start of the run.

    `held`: the request waited for a free connection of the driver, so that it was not sent when it was meant to be.
    """

    def __init__(self, count: int) -> None:
        self.intended = np.full(count, np.nan)
        self.sent = np.full(count, np.nan)
        self.finished = np.full(count, np.nan)
        self.outcome = np.full(count, _PLACES[Outcome.TIMED_OUT], np.int8)
        self.held = np.zeros(count, bool)
        self.input = np.full(count, UNKNOWN, np.int32)
        self.correct = np.full(count, UNKNOWN, np.int8)
        self.model = np.full(count, UNKNOWN, np.int16)  # a place in `models`
        self.models: list[str] = []
        self.started_ns = 0  # when the run began, in Unix nanoseconds
        self.reasons: dict[Outcome, str] = {}  # of each kind of failure, the first one's own words

    def __len__(self) -> int:
        return len(self.intended)

    def finish(self, row: int, at: float, outcome: Outcome, reason: str = "") -> None:
        self.finished[row] = at
        self.outcome[row] = _PLACES[outcome]
        if outcome is not Outcome.ANSWERED and reason:
            self.reasons.setdefault(outcome, reason)

    def answered_by(self, row: int, model: str) -> None:
        if model not in self.models:
            self.models.append(model)
        self.model[row] = self.models.index(model)

    def first(self, count: int) -> Exchanges:
        """The first rows only: a closed loop does not know beforehand how many there will be."""
        shorter = Exchanges(0)
        for name in _COLUMNS:
            setattr(shorter, name, getattr(self, name)[:count])
        shorter.models, shorter.reasons, shorter.started_ns = self.models, self.reasons, self.started_ns
        return shorter

    @property
    def answered(self) -> NDArray[np.bool_]:
        return np.asarray(self.outcome == _PLACES[Outcome.ANSWERED])

    @property
    def latency(self) -> NDArray[np.float64]:
        """Seconds from the *intended* time to the answer. A driver that counted from the time of sending would leave
        out the wait of requests that it held back because the server was slow (coordinated omission)."""
        return np.asarray(self.finished - self.intended)

    def of(self, outcome: Outcome) -> NDArray[np.bool_]:
        return np.asarray(self.outcome == _PLACES[outcome])

    def table(self) -> pa.Table:
        """The rows as a series of a store: `time` is when the request was meant to be sent, in Unix nanoseconds."""
        import pyarrow as pa

        return pa.table(
            {
                "time": pa.array(self.started_ns + np.rint(self.intended * 1e9).astype(np.int64), pa.int64()),
                "sent": self.sent,
                "finished": self.finished,
                "outcome": [OUTCOMES[place].name.lower() for place in self.outcome],
                "model": [self.models[place] if place >= 0 else None for place in self.model],
                "input": self.input,
                "correct": [None if value == UNKNOWN else bool(value) for value in self.correct],
            }
        )


_COLUMNS: Final = ("intended", "sent", "finished", "outcome", "held", "input", "correct", "model")
