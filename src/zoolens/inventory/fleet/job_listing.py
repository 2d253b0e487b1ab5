"""Jobs that commands gave to other machines, for people: listed, read and cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zoolens.base.errors import UnknownName
from zoolens.base.store import jobs as rows
from zoolens.base.store.jobs import JobRecord, JobState, LogLine
from zoolens.base.store.store import Store, borrowed_store
from zoolens.inventory.fleet.job_ledger import this_driver


def jobs(
    store: Store | str | Path | None = None,
    *,
    state: str | Sequence[str] = (),
    model: str = "",
    driver: str = "",
    limit: int | None = rows.MOST_JOBS,
) -> list[JobRecord]:
    """Jobs of evaluations and traces on other machines, the newest first. `state`: waiting, running, done, failed, lost
    or cancelled, one or several. `driver`: user@host:process, or how its id begins. None: no limit."""
    states = [_state(name) for name in ([state] if isinstance(state, str) else state)]
    with borrowed_store(store, must_exist=True) as opened:
        return rows.load_jobs(opened, states=states, model=model, driver=driver, limit=limit)


def job_log(job: str, store: Store | str | Path | None = None) -> list[LogLine]:
    """What the job said whose id begins so: stages, warnings, the end of a traceback, errors. Without credentials."""
    with borrowed_store(store, must_exist=True) as opened:
        return rows.job_log(opened, rows.job_named(opened, job).id)


def cancel_jobs(
    jobs: str | Sequence[str] | None, store: Store | str | Path | None = None, *, by: str = ""
) -> list[JobRecord]:
    """Asks for the end of these jobs, or of all (None), and returns those that were still open. Their drivers cancel
    them within seconds; what was finished stays. `by`: who asks; default: user@host:process."""
    with borrowed_store(store, must_exist=True) as opened:
        if jobs is None:
            chosen = rows.load_jobs(opened, states=rows.OPEN, limit=None)
        else:
            chosen = [rows.job_named(opened, name) for name in ([jobs] if isinstance(jobs, str) else jobs)]
        open_jobs = [job for job in chosen if job.state in rows.OPEN]
        ids = None if jobs is None else [job.id for job in open_jobs]
        rows.cancel_jobs(opened, ids, by or this_driver())
        return open_jobs


def _state(name: str) -> JobState:
    try:
        return JobState(name)
    except ValueError:
        raise UnknownName("state of jobs", name, [str(state) for state in JobState]) from None
