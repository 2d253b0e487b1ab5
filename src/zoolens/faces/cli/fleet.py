"""`zoolens fleet`: the jobs that commands gave to other machines, recurring plans, and models on kinds of machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import figure
from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import echo_json, print_table
from zoolens.base.present.text import clean
from zoolens.faces.cli import fleet_grid
from zoolens.faces.cli.options import json_option, trust_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.base.store.jobs import JobRecord
    from zoolens.findings.plans.pass_report import PassReport

_LONGEST: Final = 4_000  # characters of a line
_STATES: Final = ("waiting", "running", "done", "failed", "lost", "cancelled")
_COLUMNS: Final = (
    Column("job", "key"),
    Column("state"),
    Column("what"),
    Column("on"),
    Column("given", "number"),
    Column("took", "number"),
    Column("attempts", "number"),
    Column("result"),
    Column("command"),
    Column("given by"),
)


@click.group(name="fleet")
def command() -> None:
    """Jobs that commands gave to other machines (--on), recurring plans, and models on every kind of machine."""


command.add_command(fleet_grid.command)


@command.command(name="jobs")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES), help="Only in this state; may be repeated."
)
@click.option("--model", default="", help="Only of this model, zoo:name.")
@click.option("--driver", default="", metavar="WHO", help="Only of this driver: user@host:process.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The newest so many.")
@store_option("reads")
@json_option
@wide_option
def list_jobs(states: tuple[str, ...], model: str, driver: str, limit: int, store: str | None, as_json: bool) -> None:
    """List jobs, the newest first: what each does or did, where, how often it was tried, and what came of it."""
    from zoolens.inventory.fleet.job_listing import jobs

    listed = jobs(store, state=states, model=model, driver=driver, limit=limit)
    if as_json:
        echo_json([_data(job) for job in listed])
    elif listed:
        print_table(list(_COLUMNS), [_row(job) for job in listed])
    else:
        click.echo("No such jobs. `zoolens eval … --on ray` or `--on each-kind` gives out some.", err=True)


@command.command()
@click.argument("job", metavar="JOB")
@store_option("reads")
@json_option
def log(job: str, store: str | None, as_json: bool) -> None:
    """Print what JOB said: its stages, warnings, the end of a traceback, errors. JOB is how its id begins."""
    from zoolens.base.store.jobs import job_log, job_named
    from zoolens.base.store.store import open_store

    with open_store(store) as opened:
        record = job_named(opened, job)
        lines = job_log(opened, record.id)
    if as_json:
        echo_json({**_data(record), "log": [{"at": line.at, "text": line.text} for line in lines]})
        return
    click.echo(_line(f"{record.id} {record.title}: {record.state}"))
    for line in lines:
        click.echo(f"{datetime.fromtimestamp(line.at, UTC):%Y-%m-%d %H:%M:%S}  {_line(line.text)}")
    if record.error:
        click.echo(_line(record.error))


@command.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]…")
@click.option("--all", "everything", is_flag=True, help="Everything that waits or runs, and what is not given out yet.")
@store_option("reads")
@json_option
def cancel(jobs: tuple[str, ...], everything: bool, store: str | None, as_json: bool) -> None:
    """Cancel JOB…, or everything. What was finished stays; the same command again does the rest.

    The driver that gave a job out sees it within seconds. A job that runs in the driver's own process cannot be stopped
    at once: its result is dropped.
    """
    from zoolens.inventory.fleet.job_listing import cancel_jobs

    if everything == bool(jobs):
        raise ZoolensError("Nothing to cancel is named.", hint="Give ids of jobs, or --all instead.")
    cancelled = cancel_jobs(None if everything else jobs, store)
    if as_json:
        echo_json([job.id for job in cancelled])
    elif cancelled:
        for job in cancelled:
            click.echo(_line(f"{job.id} {job.title}: asked {job.given_by} to cancel it"))
    else:
        click.echo("None of them waits or runs.", err=True)


@command.command()
@click.argument("plan", metavar="PLAN", type=click.Path(dir_okay=False))
@store_option("makes")
@json_option
@trust_option
def run(plan: str, store: str | None, as_json: bool) -> None:
    """Do what is missing of a pass of PLAN (fleet.yaml), and report what changed since the last one.

    A pass that was stopped, or for which the budget was too small, goes on. Exit code 0: no alarm; 3: an alarm; 1:
    something failed; 4: not all was done, or an alarm cannot be judged. Let cron or a CronJob call it.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.findings.plans.pass_report import enforce_report
    from zoolens.findings.plans.plan_file import load_fleet_plan
    from zoolens.findings.plans.running import run_plan

    loaded = load_fleet_plan(plan)
    with open_store(store) as opened, Bars() as bars:
        report = run_plan(loaded, opened, bars)
    if as_json:
        echo_json(report.as_data())
    else:
        for line in _report_lines(report):
            click.echo(_line(line))
    enforce_report(loaded, report)


def _report_lines(report: PassReport) -> Iterator[str]:
    from zoolens.findings.plans.pass_report import failure_sentence

    cells = f"{report.cells} cell{'' if report.cells == 1 else 's'}"
    if report.since is None:
        yield f"{report.plan}: {cells}, the first pass."
    else:
        since = f"since the pass {figure(report.since, 's')} ago"
        yield f"{report.plan}: {cells}, {report.unchanged} without a change {since}."
    for remark in report.remarks:
        yield f"  {remark}"
    for change in report.changes:
        yield f"  {change.kind}: {change.sentence}"
    for change in report.between_kinds:
        yield f"  between kinds: {change.sentence}"
    told = {change.sentence for change in report.changes}
    for failure in report.failures:
        if (sentence := failure_sentence(failure)) not in told:
            yield f"  failed: {sentence}"
    for left in report.not_done:
        yield f"  not done: {left.title}: {left.error}"


def _line(text: str) -> str:
    """What others wrote may hold characters that move a terminal."""
    return clean(text, _LONGEST)


def _row(job: JobRecord) -> list[str]:
    return [
        job.id,
        str(job.state),
        job.title,
        job.agent or (job.attempts[-1].host if job.attempts else "any"),
        f"{figure(max(0.0, job.now - job.given), 's')} ago",
        figure(job.seconds, "s") if job.seconds is not None else "",
        str(len(job.attempts)),
        job.error or ", ".join(run[:8] for run in job.runs),
        job.command,
        job.given_by,
    ]


def _data(job: JobRecord) -> dict[str, Any]:
    return {
        "id": job.id,
        "state": str(job.state),
        "title": job.title,
        "command": job.command,
        "model": job.model,
        "dataset": job.dataset,
        "runtimes": list(job.runtimes),
        "kind": job.kind,
        "agent": job.agent,
        "node": job.node,
        "given_by": job.given_by,
        "attempts": [vars(attempt) for attempt in job.attempts],
        "given": job.given,
        "started": job.started,
        "ended": job.ended,
        "seconds": job.seconds,
        "runs": list(job.runs),
        "error": job.error,
        "cancelled_by": job.cancelled_by,
    }
