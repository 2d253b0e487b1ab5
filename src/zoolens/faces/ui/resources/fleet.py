"""/fleet: the machines that agents offer, and the jobs that commands gave to them. `fleet_grid` has what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import Field

from zoolens.base.present.figures import figure
from zoolens.base.store.jobs import OPEN, Attempt, JobRecord, JobState, job_log, job_named, load_jobs
from zoolens.base.store.operation_figures import operation_figures
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import MOST_ROWS, Answer, Endpoint, Paged, Query, RowPage, Shown
from zoolens.inventory.fleet.placing import ListedAgent, agents

_LONGEST: Final = 200  # letters of a name
_MOST_JOBS: Final = 20  # that one machine names
_MOST_RUNS: Final = 20  # of a job that are named
_ID_SHOWN: Final = 12  # characters of a node that no agent names
RUNNING, WAITING = JobState.RUNNING, JobState.WAITING

Works = Literal["idle", "works", "lost"]


# --- machines


class MachinesQuery(Paged):
    pass


class MachineItem(Answer):
    """One agent: a machine, as it is offered."""

    id: str
    name: Shown
    kind: Shown
    """A digest: machines of one kind would make the same run."""
    state: Works
    """Lost: it gave no sign of life within its lease."""
    doing: list[Shown]
    seen: Shown
    """How long ago it gave a sign of life, by the clock of the database."""
    readable: bool
    """Whether what it published can be read. If not, the fields below are empty."""
    machine: Shown
    cores: int | None
    memory: Shown
    gpus: list[Shown]
    free_disk: Shown
    load: float | None
    environment: Shown
    """Requirements of the environment that it is offered with; empty: that of the agent itself."""
    runtimes: list[Shown]
    node: Shown
    """Its id in a Ray cluster; empty: it is in none."""
    zoolens: Shown


class MachineList(RowPage[MachineItem]):
    """`lost` of all machines gave no sign of life within their lease. `kinds`: how many there are among the others."""

    lost: int
    working: int
    kinds: int


def machines(context: Context, query: MachinesQuery) -> MachineList:
    listed = agents(context.store)
    alive = [agent for agent in listed if agent.record.alive]
    return MachineList(
        total=len(listed),
        offset=query.offset,
        rows=[_machine(agent) for agent in listed[query.page]],
        lost=len(listed) - len(alive),
        working=sum(bool(agent.record.doing) for agent in alive),
        kinds=len({agent.record.kind for agent in alive}),
    )


def _machine(agent: ListedAgent) -> MachineItem:
    record, facts = agent.record, agent.facts
    return MachineItem(
        id=record.id,
        name=record.name,
        kind=record.kind,
        state="lost" if not record.alive else "works" if record.doing else "idle",
        doing=list(record.doing[:_MOST_JOBS]),
        seen=f"{figure(max(record.silent, 0.0), 's')} ago",
        readable=facts is not None,
        machine="" if facts is None else f"{facts.machine.architecture} {facts.machine.cpu}",
        cores=None if facts is None else facts.machine.cores,
        memory="" if facts is None else figure(facts.machine.memory_bytes, "B"),
        gpus=[] if facts is None else list(facts.gpus),
        free_disk="" if facts is None else figure(facts.free_disk, "B"),
        load=None if facts is None else facts.load,
        environment="" if facts is None else facts.environment,
        runtimes=[] if facts is None else [f"{name} {version}" for name, version in sorted(facts.runtimes.items())],
        node="" if facts is None else facts.node,
        zoolens="" if facts is None else facts.zoolens,
    )


# --- jobs


class JobsQuery(Query):
    limit: int = Field(50, ge=1, le=200, description="How many jobs to give at most that ended.")


class FleetJob(Answer):
    """A job that a command gave to another machine."""

    id: str
    title: Shown
    command: Shown
    model: Shown
    dataset: Shown
    state: JobState
    where: Shown
    """The machine that does it or did it last; empty: none has begun it."""
    given: datetime
    seconds: Shown
    """How long it runs or ran; empty: it did not begin."""
    attempts: int
    given_by: Shown
    runs: list[str]
    error: Shown
    cancelled_by: Shown


class FleetJobs(Answer):
    """Jobs that wait or run, those that run first; and the newest of those that ended. `counts`: by state, of all."""

    open: list[FleetJob]
    ended: list[FleetJob]
    counts: dict[JobState, int]


class LogQuery(Query):
    id: str = Field(max_length=_LONGEST, description="The id of a job, or its beginning.")


class SaidLine(Answer):
    at: datetime
    text: Shown


class FleetLog(Answer):
    """One job with what it said, oldest first, and why attempts of it ended."""

    job: FleetJob
    attempts: list[Shown]
    lines: list[SaidLine]


def jobs(context: Context, query: JobsQuery) -> FleetJobs:
    running, waiting = (load_jobs(context.store, states=[state], limit=MOST_ROWS) for state in (RUNNING, WAITING))
    ended = load_jobs(context.store, states=[state for state in JobState if state not in OPEN], limit=query.limit)
    names = _machine_names(context)
    return FleetJobs(
        open=[_job(job, names) for job in [*running, *waiting][:MOST_ROWS]],
        ended=[_job(job, names) for job in ended],
        counts=dict(operation_figures(context.store).jobs),
    )


def log(context: Context, query: LogQuery) -> FleetLog:
    job = job_named(context.store, query.id)
    lines = job_log(context.store, job.id)[-MOST_ROWS:]
    names = _machine_names(context)
    return FleetLog(
        job=_job(job, names),
        attempts=[_attempt_words(number, attempt, names) for number, attempt in enumerate(job.attempts, 1)],
        lines=[SaidLine(at=_moment(line.at), text=line.text) for line in lines],
    )


def _machine_names(context: Context) -> dict[str, str]:
    """What machines are called, by their nodes and hosts. A machine may be offered several times."""
    names: dict[str, str] = {}
    for agent in agents(context.store):
        if agent.facts is not None:
            for place in (agent.facts.node, agent.facts.host):
                names.setdefault(place, agent.record.name)
    return names


def _where(place: Sequence[str], names: Mapping[str, str]) -> str:
    """The name of the first of these nodes and hosts that is known, or else how it begins."""
    known = next((names[one] for one in place if one and one in names), None)
    return known or next((one[:_ID_SHOWN] for one in place if one), "")


def _job(job: JobRecord, names: Mapping[str, str]) -> FleetJob:
    last = job.attempts[-1] if job.attempts else None
    seconds = job.seconds
    return FleetJob.of(
        job,
        where=job.agent or _where((job.node, last.node if last else "", last.host if last else ""), names),
        given=_moment(job.given),
        seconds="" if seconds is None else figure(seconds, "s"),
        attempts=len(job.attempts),
        runs=list(job.runs[:_MOST_RUNS]),
    )


def _attempt_words(number: int, attempt: Attempt, names: Mapping[str, str]) -> str:
    where = _where((attempt.node, attempt.host), names)
    said = f"Attempt {number}" + (f" on {where}" if where else "")
    if attempt.started is not None and attempt.ended is not None:
        said += f", {figure(max(0.0, attempt.ended - attempt.started), 's')}"
    return f"{said}: {attempt.reason}" if attempt.reason else said


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


ENDPOINTS: Final = (
    Endpoint("/fleet/machines", "Machines that agents offer, and what each does", machines),
    Endpoint("/fleet/jobs", "Jobs that commands gave to other machines", jobs),
    Endpoint("/fleet/jobs/{id}", "One of these jobs, and what it said", log),
)
