"""What happened while a service was served: switches with their reasons, and who answered how often, in the store.

Each session of a service is a run of its own kind with four series: "events", "answers" (counts of each model since
the last row), "objectives" (how many were answered in time since the last row) and "comparisons" (agreement of pairs
of models so far). Writing happens in a thread; what does not fit into its queue is dropped and counted, so that a slow
disk never delays an answer.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from zoolens.base.engine.machine import describe_machine
from zoolens.base.errors import UnknownName, first_line
from zoolens.base.present.figures import percent
from zoolens.base.store.records import DatasetRecord, ModelRecord, Run, RunKind, StackRecord, fingerprint
from zoolens.base.store.series import append_series, read_series, series_names
from zoolens.base.store.store import Store, open_store
from zoolens.base.version import __version__
from zoolens.faces.serving.services.definition import Service

EVENTS: Final = "events"
ANSWERS: Final = "answers"
COMPARISONS: Final = "comparisons"
OBJECTIVES: Final = "objectives"
COUNTED_EVERY: Final = 60.0  # seconds: no row of counts stands for a longer time
_COUNTED_FIRST: Final = 2.0  # seconds until the first count: a session of half a minute would otherwise have one count


def counted_again_after(elapsed: float) -> float:
    """Seconds until answers are counted again, in a session that has lasted so long."""
    return min(COUNTED_EVERY, max(_COUNTED_FIRST, elapsed / 15))


_REF: Final = "service:"  # before the name of a service, in the reference of its runs
_EVERY: Final = 2.0  # seconds between two pieces that are written, at first
_PIECES: Final = 50  # after so many the time between two has doubled, for each piece is a file and readers open all
_LONGEST: Final = 60.0  # seconds between two pieces
_WAITING: Final = 10_000  # rows that wait to be written
_PATIENCE: Final = 30.0  # seconds for the last rows to be written
_NO_DATA: Final = DatasetRecord(fingerprint(["requests of clients"]), "requests of clients", 0)

log = logging.getLogger("zoolens.serving")


class EventKind(StrEnum):
    """What an event is about; the values are what the store and `zoolens events` have."""

    START = "start"
    SWITCH = "switch"  # another model answers from now on
    LADDER = "ladder"  # the ladder was replaced, or could not be
    PROMISE = "promise"  # a tier agrees with the reference less than was promised
    OBJECTIVE = "objective"  # the latency objective is not kept
    MEMORY = "memory"  # the limit on the memory of all models has changed, or cannot be read
    DROPPED = "dropped"  # entries of the log are missing
    STOP = "stop"


@dataclass(frozen=True)
class ServiceEvent:
    """`model` answers now, `previous` did so before; both are empty where an event is about something else."""

    kind: EventKind
    reason: str
    model: str = ""
    previous: str = ""
    waiting: int = 0
    time: int = field(default_factory=time.time_ns)


@dataclass(frozen=True)
class AnswerCounts:
    """How many requests and inputs a model has answered since the last row."""

    model: str
    runtime: str
    requests: int
    rows: int
    time: int = field(default_factory=time.time_ns)


@dataclass(frozen=True)
class ObjectiveCounts:
    """How many requests were answered since the last row, how many of them within the bound of the objective, and how
    many were refused although they were right. Times are those in the server: the network is not in them."""

    requests: int
    within: int
    refused: int
    bound: float
    percentile: float
    time: int = field(default_factory=time.time_ns)


@dataclass(frozen=True)
class ModelComparison:
    """Two models on the same requests, so far. Intervals hold at whichever moment one looks."""

    model: str
    other: str
    n: int  # the newest requests, to which `agreement` belongs
    agreement: float  # share of them on which both gave the same class; see `measure`
    low: float  # confidence interval of the agreement
    high: float
    labelled: int = 0  # requests whose labels came back
    gain: float | None = None  # accuracy of `other` minus that of `model`, on the labelled requests
    gain_low: float | None = None
    gain_high: float | None = None
    dropped: int = 0  # requests that were drawn and could not be compared
    compared_requests: int = 0  # all, `n` among them
    # Of the drawn requests that count, at busy and at quiet times; below 1 where not all could be compared
    share: float = 1.0
    replica: str = ""  # of a cluster, whose figures these are; empty on one machine
    measure: str = ""  # what `agreement` is, where it is no share of equal answers
    time: int = field(default_factory=time.time_ns)

    @property
    def verdict(self) -> str:
        """One sentence on which of the two is right more often, as far as labels show."""
        if self.gain_low is None or self.gain_high is None:
            return f"{self.model} and {self.other} cannot be judged: no labels have come back."
        low, high = self.gain_low, self.gain_high
        if low > 0:
            return f"{self.other} is more accurate than {self.model}, by {percent(low, 1)} to {percent(high, 1)}."
        if high < 0:
            return f"{self.model} is more accurate than {self.other}, by {percent(-high, 1)} to {percent(-low, 1)}."
        reach = f"{100 * low:+.1f} % to {100 * high:+.1f} %"
        return f"Neither of {self.model} and {self.other} is known to be more accurate ({reach})."


_SERIES: Final = {
    ServiceEvent: EVENTS,
    AnswerCounts: ANSWERS,
    ModelComparison: COMPARISONS,
    ObjectiveCounts: OBJECTIVES,
}
Entry = ServiceEvent | AnswerCounts | ModelComparison | ObjectiveCounts


class EventRecorder(Protocol):
    """Takes note of what happens to a service, here or on another machine. It never waits."""

    def record(self, service: str, entry: Entry) -> None: ...


class EventLog:
    """Writes what happens to services into the store. `sessions` are the ids of their runs, by service."""

    def __init__(self, target: str | Path | None, services: Mapping[str, Service]) -> None:
        self.sessions: dict[str, str] = {}
        self._target = target
        self._refused: Counter[str] = Counter()  # by service, what did not fit into the queue; counted by the callers
        self._lost: Counter[str] = Counter()  # what could not be written; counted by the thread
        self._told: Counter[str] = Counter()  # how many of both the events in the store speak of
        self._pieces = 0
        self._queue: queue.Queue[tuple[str, Entry] | None] = queue.Queue(_WAITING)
        self._begin(services)
        self._thread = threading.Thread(target=self._write_on, daemon=True, name="zoolens-events")
        self._thread.start()

    def record(self, service: str, entry: Entry) -> None:
        """Have it written soon. It never waits."""
        try:
            self._queue.put_nowait((service, entry))
        except queue.Full:
            self._refused[service] += 1

    @property
    def dropped(self) -> int:
        """How many entries are missing in the store."""
        return self._refused.total() + self._lost.total()

    def close(self) -> None:
        """Write what is left, and stop."""
        # The thread has ended, for it could not write.
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_PATIENCE)
        self._thread.join(_PATIENCE)

    def _begin(self, services: Mapping[str, Service]) -> None:
        identity = {"zoolens": __version__, "machine": describe_machine().cpu}
        stack = StackRecord(fingerprint(identity), "zoolens", identity, identity)
        with open_store(self._target) as store:
            for name, service in services.items():
                definition = service.model_dump(mode="json", exclude_defaults=True)
                defined = {"name": name, "definition": definition}
                key = fingerprint(["service", defined])
                model = ModelRecord(key, f"{_REF}{name}", "service", defined)
                session = store.begin_attempt(model, _NO_DATA, stack, kind=RunKind.SERVING)
                self.sessions[name] = session.id

    def _write_on(self) -> None:
        more = True
        while more:
            try:
                with open_store(self._target) as store:
                    while more:
                        rows, more = self._collect()
                        self._write(store, rows)
            except Exception as error:
                # Whatever it is, the store may be there again later.
                log.warning("what happens to services cannot be recorded: %s", first_line(error))
                rows, more = self._collect()
                self._lost.update(service for service, _ in rows)

    def _collect(self) -> tuple[list[tuple[str, Entry]], bool]:
        """What came within some seconds; False: there will be no more."""
        rows: list[tuple[str, Entry]] = []
        until = time.monotonic() + min(_EVERY * (1 + self._pieces / _PIECES), _LONGEST)
        while (left := until - time.monotonic()) > 0 and len(rows) < _WAITING:
            try:
                item = self._queue.get(timeout=left)
            except queue.Empty:
                break
            if item is None:
                return rows, False
            rows.append(item)
        return rows, True

    def _write(self, store: Store, rows: list[tuple[str, Entry]]) -> None:
        import pyarrow as pa

        pieces: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for service, entry in [*rows, *self._missing()]:
            pieces.setdefault((service, _SERIES[type(entry)]), []).append(asdict(entry))
        for (service, series), piece in pieces.items():
            try:
                append_series(store, self.sessions[service], series, pa.Table.from_pylist(piece))
                self._pieces += 1
            except Exception as error:  # such as a full disk
                self._lost[service] += len(piece)
                log.warning("%d events of the service %s are lost: %s", len(piece), service, first_line(error))

    def _missing(self) -> list[tuple[str, Entry]]:
        """An event for each service of which entries went missing since the last one."""
        missing = self._refused + self._lost
        events: list[tuple[str, Entry]] = [
            (service, ServiceEvent(EventKind.DROPPED, f"{count - self._told[service]:,} entries could not be written."))
            for service, count in missing.items()
            if count > self._told[service]
        ]
        self._told = missing
        return events


# --- reading


@dataclass(frozen=True)
class Session:
    """One time that a service was served."""

    service: str
    run: Run
    events: tuple[ServiceEvent, ...]
    answers: tuple[AnswerCounts, ...]
    comparisons: tuple[ModelComparison, ...]
    objectives: tuple[ObjectiveCounts, ...] = ()

    @property
    def kept(self) -> ObjectiveCounts | None:
        """The latency objective over the whole session; None where there is none."""
        if not self.objectives:
            return None
        last = self.objectives[-1]
        requests = sum(row.requests for row in self.objectives)
        within = sum(row.within for row in self.objectives)
        refused = sum(row.refused for row in self.objectives)
        return ObjectiveCounts(requests, within, refused, last.bound, last.percentile, last.time)

    @property
    def stopped(self) -> bool:
        """Whether its end is known, so that everything was counted: counts are written once a minute and at the end."""
        return any(event.kind is EventKind.STOP for event in self.events)

    @property
    def answered(self) -> dict[tuple[str, str], int]:
        """Requests by model and runtime."""
        totals: dict[tuple[str, str], int] = {}
        for row in self.answers:
            totals[row.model, row.runtime] = totals.get((row.model, row.runtime), 0) + row.requests
        return totals


def sessions(store: Store, service: str | None = None, limit: int | None = None) -> list[Session]:
    """The sessions of a service, or of all, newest first."""
    runs = store.runs(model=f"{_REF}{service or '*'}", kind=RunKind.SERVING)
    if service is not None and not runs:
        known = {run.ref.removeprefix(_REF) for run in store.runs(kind=RunKind.SERVING)}
        raise UnknownName("service that was served", service, known)
    return [session_of(store, run) for run in runs[:limit]]


def session_of(store: Store, run: Run) -> Session:
    """The session that a run of a service holds."""
    return Session(
        service=run.ref.removeprefix(_REF),
        run=run,
        events=tuple(ServiceEvent(**{**row, "kind": EventKind(row["kind"])}) for row in _rows(store, run, EVENTS)),
        answers=tuple(AnswerCounts(**row) for row in _rows(store, run, ANSWERS)),
        comparisons=tuple(ModelComparison(**row) for row in _rows(store, run, COMPARISONS)),
        objectives=tuple(ObjectiveCounts(**row) for row in _rows(store, run, OBJECTIVES)),
    )


def _rows(store: Store, run: Run, series: str) -> Iterator[dict[str, Any]]:
    if series in series_names(store, run.id):
        yield from read_series(store, run.id, series).to_pylist()
