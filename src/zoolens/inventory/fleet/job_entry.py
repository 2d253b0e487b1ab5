"""One job in the memory of its driver, as it will be written into the store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from zoolens.base.engine.executors.job_events import EVENT
from zoolens.base.engine.retry_policy import machine_was_lost
from zoolens.base.errors import Cancelled, Lacking
from zoolens.base.safety.scrubbing import scrubbed
from zoolens.base.store.jobs import OPEN, JobState

FIRST_LINES: Final = 30  # of a log
LAST_LINES: Final = 170
LONGEST_LINE: Final = 500  # characters
LONGEST_TEXT: Final = 4_000


class JobEntry:
    """Times are of the monotonic clock of this process; `row` turns them into ages. Not safe for several threads."""

    def __init__(self, job_id: str, title: str) -> None:
        self.id, self._title = job_id, title
        self._about: Mapping[str, Any] = {}
        self._state = JobState.WAITING
        self._attempts: list[dict[str, Any]] = []
        self._given = time.monotonic()
        self._started: float | None = None
        self._ended: float | None = None
        self._runs: tuple[str, ...] = ()
        self._error, self._node = "", ""
        self._first: list[tuple[float, str]] = []
        self._last: list[tuple[float, str]] = []
        self._left_out = 0
        self._seen = ("", -1)  # the run of the function and the number of its last event

    @property
    def open(self) -> bool:
        return self._state in OPEN

    @property
    def waits(self) -> bool:
        return self._state is JobState.WAITING

    @property
    def ran(self) -> float:
        """Seconds that its attempts took of machines so far."""
        ends = [(one["started"], one["ended"]) for one in self._attempts if one["started"] is not None]
        return float(sum((time.monotonic() if ended is None else ended) - started for started, ended in ends))

    @property
    def runtimes(self) -> tuple[str, ...]:
        return tuple(self._about.get("runtimes") or ())

    def about(self, name: str) -> str:
        return str(self._about.get(name) or "")

    def given_out(self, about: Mapping[str, Any]) -> None:
        """It is given to an executor, for the first time or again."""
        self._about = about
        self._state, self._ended, self._started, self._error = JobState.WAITING, None, None, ""
        self._say(f"given to {about.get('agent') or 'any machine'}")

    def told(self, message: Any) -> bool:
        """Takes note of what it tells. Whether that is worth writing."""
        if not isinstance(message, dict) or not self.open:
            # A job that was cancelled may run on for a while, and the last words of a machine may be late.
            return False
        if isinstance(event := message.get(EVENT), dict):
            return self._happened(event)
        if isinstance(stage := message.get("stage"), dict):
            total = stage.get("total")
            self._say(f"{stage.get('title')}: {stage.get('stage')}{f' ({total:,})' if isinstance(total, int) else ''}")
        elif "say" in message:
            self._say(str(message["say"]))
        else:
            return False
        return True

    def _happened(self, event: Mapping[str, Any]) -> bool:
        if "lost" in event:
            self._end_attempt(str(event["lost"]))
            self._state, self._started = JobState.WAITING, None
            self._say(f"{event['lost']} Given out again in {float(event['pause']):.3g} s.")
            return True
        place = (str(event["run"]), int(event["number"]))
        if place[0] == self._seen[0] and place[1] <= self._seen[1]:
            return False
        self._seen = place
        if "started" in event:
            self._start(**{name: str(event["started"][name]) for name in ("host", "node")})
        elif "line" in event:
            self._say(str(event["line"]))
        elif "seconds" in event and self._attempts:
            # That it started may have been told late.
            self._started = self._attempts[-1]["started"] = time.monotonic() - float(event["seconds"])
        return True

    def _start(self, host: str, node: str) -> None:
        self._state, self._node, self._started = JobState.RUNNING, node, time.monotonic()
        self._attempts.append({"host": host, "node": node, "started": self._started, "ended": None, "reason": ""})
        self._say(f"started on {host}{f' (node {node[:12]})' if node else ''}, attempt {len(self._attempts)}")

    def _end_attempt(self, reason: str) -> None:
        now = time.monotonic()
        if self._attempts and self._attempts[-1]["ended"] is None:
            self._attempts[-1] |= {"ended": now, "reason": _short(reason)}
        elif reason:
            # It was lost before it could say that it had started.
            self._attempts.append({"host": "", "node": "", "started": None, "ended": now, "reason": _short(reason)})

    def settled(self, future: Future[Any]) -> None:
        """Its future has a result or an error, or was cancelled."""
        error = Cancelled("Its driver stopped.") if future.cancelled() else future.exception()
        self._ended = time.monotonic()
        if error is None:
            self._state = JobState.DONE
            self._end_attempt("")
            return
        lost, lacking = machine_was_lost(error), isinstance(error, Lacking)
        stopped = isinstance(error, Cancelled)
        self._error = _short(str(error))
        self._end_attempt(self._error if lost or stopped or lacking else "")
        if lacking:
            # It is given out again when its files are published, or given up.
            self._state, self._ended, self._started = JobState.WAITING, None, None
            self._say(self._error)
            return
        self._state = JobState.LOST if lost else JobState.CANCELLED if stopped else JobState.FAILED
        self._say(f"{self._state}: {self._error}")

    def given_up(self) -> None:
        """Nobody gives it out again."""
        if self.open:
            self._state, self._ended = JobState.FAILED, time.monotonic()
            self._say(f"{self._state}: {self._error}")

    def came_of(self, runs: Sequence[str], errors: Sequence[str], remarks: Sequence[str]) -> None:
        self._runs = tuple(runs)
        for remark in remarks:
            self._say(remark)
        if errors:
            self._state, self._error = JobState.FAILED, _short("; ".join(dict.fromkeys(errors)))
            self._say(f"failed: {self._error}")
        else:
            self._say(f"done: {len(self._runs)} run{'' if len(self._runs) == 1 else 's'} stored")

    def _say(self, text: str) -> None:
        for line in scrubbed(text).splitlines():
            kept = self._first if len(self._first) < FIRST_LINES else self._last
            kept.append((time.monotonic(), line[:LONGEST_LINE]))
        while len(self._last) > LAST_LINES:
            self._last.pop(0)
            self._left_out += 1

    def row(self) -> dict[str, Any]:
        """For `write_jobs`: with ages instead of times."""
        now = time.monotonic()

        def age(at: float | None) -> float | None:
            return None if at is None else now - at

        gap = [(self._last[0][0], f"… {self._left_out:,} lines left out …")] if self._left_out else []
        about = {name: _short(str(self._about.get(name) or "")) for name in ("model", "dataset", "kind", "agent")}
        return {
            "id": self.id,
            "title": self._title,
            **about,
            "runtimes": list(self._about.get("runtimes") or ()),
            "node": self._node,
            "state": str(self._state),
            "attempts": [{**one, "started": age(one["started"]), "ended": age(one["ended"])} for one in self._attempts],
            "given": age(self._given),
            "started": age(self._started),
            "ended": age(self._ended),
            "runs": list(self._runs),
            "error": self._error,
            "log": [(now - at, text) for at, text in (*self._first, *gap, *self._last)],
        }


def _short(text: str) -> str:
    return scrubbed(text)[:LONGEST_TEXT]
