"""A trace plan carried out, on this machine or on others. Elsewhere a job is one model in all its runtimes.

As with evaluations (`measure/fanout.py`) a node traces into a store of its own, goes on from what our store has of the
model, and what it found is merged into ours.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import TypeAdapter

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.engine.executors.executor import TITLE, Executor
from zoolens.base.engine.executors.job_events import RECORD
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run, RunKind
from zoolens.base.store.series import read_series
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.findings.measure.fanout import (
    entry_fields,
    entry_of,
    merged_outcome,
    needs_gpu,
    note_outcomes,
    outcome_fields,
)
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.tracing.recorder import adopt
from zoolens.findings.tracing.runner import BATCH, check_plan, is_new_attempt, series_name, trace_entries
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.trace_plan import TracePlan
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.datasets.opening import NamedData
from zoolens.inventory.fleet.arrival import arrived
from zoolens.inventory.fleet.job_ledger import JobLedger
from zoolens.inventory.fleet.travel import Travel, run_travelling
from zoolens.inventory.zoos.zoo import Entry

_FUNCTION: Final = "zoolens.findings.tracing.trace_jobs:trace_here"


def carry_out(plan: TracePlan, store: Store, progress: Progress) -> Iterator[Outcome]:
    """One outcome for each way of running the model, as soon as it is stored."""
    check_plan(plan)
    store.sweep_folder()
    entries, executor = find_all([plan.model]), current_executor()
    if executor.elsewhere:
        yield from _trace_elsewhere(executor, entries, plan, store, progress)
    else:
        yield from trace_entries(entries, plan, store, progress)


def _trace_elsewhere(
    executor: Executor, entries: Sequence[Entry], plan: TracePlan, store: Store, progress: Progress
) -> Iterator[Outcome]:
    known = [() if is_new_attempt(plan) else _known(entry, plan, store) for entry in entries]
    ids = [uuid4().hex[:12] for _ in entries]
    travel = Travel(progress)
    jobs = (
        _job(entry, plan, [pack_run(store, run) for run in runs], job_id, travel)
        for entry, runs, job_id in zip(entries, known, ids, strict=True)
    )
    gpu = needs_gpu(plan.wanted)
    with (
        JobBars(progress, f"on {executor.name}", "tracing", len(entries)) as bars,
        JobLedger(store, "trace") as ledger,
    ):
        recorded = ledger.around(executor)
        for number, answer in run_travelling(
            recorded, _FUNCTION, jobs, progress, told=bars.told, whole_machine=True, gpu=gpu
        ):
            bars.finished(number)
            if isinstance(answer, DatasetError):
                # Data that cannot be opened stop a trace here, too.
                raise answer
            if isinstance(answer, ZoolensError):
                # A node may be lost, or lack the files of one model, or have another version: the others go on.
                ledger.given_up(ids[number])
                yield Outcome(entries[number].ref, errors=(str(answer),))
            else:
                sent = {run.id for run in known[number]}
                outcomes = [merged_outcome(store, fields, sent, fresh=is_new_attempt(plan)) for fields in answer]
                note_outcomes(ledger, ids[number], outcomes)
                yield from (_stored(outcome, store) for outcome in outcomes)


def _known(entry: Entry, plan: TracePlan, store: Store) -> list[Run]:
    runs = store.runs(model=entry.full_ref, kind=RunKind.TRACE)
    return [run for run in runs if run.resolved.get(BATCH) == plan.batch]


def _stored(outcome: Outcome, store: Store) -> Outcome:
    """The outcome, whose new spans are added to the recording of this process, where there is one. Their times are of
    the node's clock."""
    if outcome.run is not None:
        for level in outcome.measured:
            adopt(read_series(store, outcome.run.id, series_name(Level(level))))
    return outcome


def _job(entry: Entry, plan: TracePlan, runs: list[dict[str, Any]], job_id: str, travel: Travel) -> dict[str, Any]:
    model, data = travel.model(entry), travel.data(NamedData(plan.data, plan.limit, plan.seed))
    # The entry says which model it is.
    sent = replace(plan, model="", data=data.sent)
    about = {"model": entry.full_ref, "dataset": plan.data or "", "runtimes": list(plan.wanted.runtimes)}
    return {
        TITLE: entry.ref,
        RECORD: {"id": job_id, **about},
        "entry": entry_fields(model.sent),
        "plan": TypeAdapter(TracePlan).dump_python(sent, mode="json"),
        "runs": runs,
        **travel.fields(model, data),
    }


def trace_here(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs on the node: returns the outcomes of one model as plain data, each with its run."""
    with arrived(job) as found:
        answer: list[dict[str, Any]] = found.restored(_traced(found.job))
    return answer


def _traced(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    plan = TypeAdapter(TracePlan).validate_python(job["plan"])
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
    ):
        for packed in job["runs"]:
            merge_run(store, packed)
        outcomes = list(trace_entries([entry_of(job["entry"])], plan, store, job_progress()))
        return [outcome_fields(store, outcome) for outcome in outcomes]
