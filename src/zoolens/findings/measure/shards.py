"""One big dataset on many machines: each predicts a slice, and the slices are put together in order into one run.

Only the answers are shared out. The parts of a run say how far it is, so that slices begin where it stopped, and the
evaluation that follows finds the answers there and does the rest: metrics, size, latency. Slices end where batches do,
so that every input is answered in the same batch as on one machine. A slice that fails is left to that evaluation, with
all behind it, which then says what is wrong as it does on one machine.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor
from zoolens.base.engine.executors.job_events import RECORD
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import (
    DONE,
    MACHINES,
    DatasetRecord,
    ModelRecord,
    Run,
    RunKind,
    StackRecord,
    Stage,
    joined_machines,
)
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.transfer import merge_run, pack_identity, pack_run, read_table
from zoolens.findings.measure.fanout import Evaluation, entry_of, evaluation_fields, needs_gpu
from zoolens.findings.measure.job_runner import SubjectOpener, begin_job, fetch_job, open_data
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.findings.measure.prediction_stage import batch_size, predict_slice
from zoolens.findings.measure.predictions import KIND
from zoolens.findings.measure.stages import Context
from zoolens.findings.measure.suspicions import ALL_THE_SAME, ROW_SUM, SUMS_TO_ONE
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.fleet.arrival import arrived
from zoolens.inventory.fleet.job_ledger import JobLedger
from zoolens.inventory.fleet.travel import Travel, run_travelling
from zoolens.inventory.zoos.zoo import Entry

_FUNCTION: Final = "zoolens.findings.measure.shards:predict_here"
_ROWS: Final = "rows"  # of a run that is sent: how many answers the store has
_ALIKE: Final = ("outputs", "provider", "precision", "threads")  # of slices that are put together
_ADDED: Final = "added"  # of a slice that was sent: it is in the store
_SAME: Final = 1e-3  # relative difference of sums of rows that count as one, as within a slice


def predict_shards(
    executor: Executor,
    evaluations: Sequence[Evaluation],
    store: Store,
    progress: Progress,
    known: Callable[[Entry], Sequence[Run]],
) -> None:
    """Have the inputs of each evaluation answered in slices, as many as its plan says, and store the answers."""
    slices = [(number, shard) for number, one in enumerate(evaluations) for shard in range(one.plan.shards)]
    travel = Travel(progress)
    ids = [uuid4().hex[:12] for _ in slices]
    jobs = (
        _job(evaluations[number], shard, job_id, store, known, travel)
        for (number, shard), job_id in zip(slices, ids, strict=True)
    )
    gpu = any(needs_gpu(evaluation.plan.wanted) for evaluation in evaluations)
    answers: dict[int, dict[int, Any]] = {}
    with (
        JobBars(progress, f"on {executor.name}", "predicting slices", len(slices)) as bars,
        JobLedger(store, "eval --shards") as ledger,
    ):
        recorded = ledger.around(executor)
        for place, answer in run_travelling(recorded, _FUNCTION, jobs, progress, told=bars.told, gpu=gpu):
            bars.finished(place)
            number, shard = slices[place]
            if isinstance(answer, ZoolensError):
                ledger.given_up(ids[place])
            answers.setdefault(number, {})[shard] = [] if isinstance(answer, ZoolensError) else answer
            # Not after the last one: what was answered is kept if this process is killed while others still answer.
            _put_together(store, answers[number])
            if len(answers[number]) == evaluations[number].plan.shards:
                del answers[number]


def _job(
    evaluation: Evaluation,
    shard: int,
    job_id: str,
    store: Store,
    known: Callable[[Entry], Sequence[Run]],
    travel: Travel,
) -> dict[str, Any]:
    runs = [
        {**pack_identity(run), _ROWS: run.dataset.size if _answered(run) else _rows(store, run.id)}
        for run in known(evaluation.entry)
    ]
    title = f"{evaluation.title}, slice {shard + 1} of {evaluation.plan.shards}"
    fields = evaluation_fields(evaluation, runs, travel)
    return {**fields, TITLE: title, "shard": shard, RECORD: evaluation.record(job_id)}


def _answered(run: Run) -> bool:
    return run.stages.get(Stage.PREDICTIONS) == DONE


def _rows(store: Store, run_id: str) -> int:
    return sum(part.rows for part in store.parts(run_id, KIND))


# --- on the node


def predict_here(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs on the node: one slice of the answers of a model in each of its runtimes."""
    with arrived(job) as found:
        slices: list[dict[str, Any]] = found.restored(_predicted(found.job))
    return slices


def _predicted(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    plan = TypeAdapter(EvaluationPlan).validate_python(job["plan"])
    progress = job_progress()
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
        closing(open_data(plan.data, plan.limit, plan.seed)) as dataset,
    ):
        rows = {merge_run(store, packed).id: packed[_ROWS] for packed in job["runs"]}
        jobs, _ = plan_jobs([entry_of(job["entry"])], plan.wanted, progress)
        for planned in jobs:
            try:
                found += _slice(planned, plan, dataset, store, rows, job["shard"], progress)
            except ZoolensError:
                # The evaluation that follows meets it too, and says it.
                continue
    return found


def _slice(
    job: Job,
    plan: EvaluationPlan,
    dataset: Dataset,
    store: Store,
    rows: Mapping[str, int],
    shard: int,
    progress: Progress,
) -> Iterator[dict[str, Any]]:
    fetch_job(job, progress)
    job.runtime.check(job.files(), job.options)
    dataset = dataset.decoded_with(job.manifest.decoder)
    run = begin_job(job, plan, dataset, store)
    job = job.for_data(dataset)
    done = rows.get(run.id, 0)
    if done >= len(dataset):
        return
    with closing(SubjectOpener(job, run, store, dataset)) as opener:
        context = Context(job, run, dataset, store, opener, progress, decode_threads=plan.decode_threads)
        start, stop = _bounds(done, len(dataset), batch_size(opener()), shard, plan.shards)
        if start < stop:
            predict_slice(context, start, stop)
    facts = {name: context.facts.get(name) for name in (SUMS_TO_ONE, ROW_SUM, ALL_THE_SAME)}
    yield {**pack_run(store, store.run(run.id)), "start": start, "stop": stop, "facts": facts}


def _bounds(done: int, size: int, batch: int, shard: int, shards: int) -> tuple[int, int]:
    """The inputs of a slice: as many batches as each other slice has, or one more."""
    count = -(-(size - done) // batch)
    start, stop = (min(size, done + batch * (count * place // shards)) for place in (shard, shard + 1))
    return start, stop


# --- where the store is


def _put_together(store: Store, answers: Mapping[int, Sequence[dict[str, Any]]]) -> None:
    """Add those slices of one evaluation that follow what is stored."""
    by_run: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for shard, found in answers.items():
        for packed in found:
            by_run.setdefault(_key(packed), {})[shard] = packed
    for slices in by_run.values():
        # There are empty ones where a dataset has fewer batches than slices.
        filled = [slices[shard] for shard in sorted(slices) if slices[shard]["start"] < slices[shard]["stop"]]
        if filled:
            _add_slices(store, filled)


def _key(packed: Mapping[str, Any]) -> tuple[Any, ...]:
    return (*(packed[part]["fingerprint"] for part in ("model", "dataset", "stack")), packed["attempt"])


def _add_slices(store: Store, slices: Sequence[dict[str, Any]]) -> None:
    """Add the slices that follow each other without a gap, each as parts of the run, and mark them as added. A node
    with another stack has a run of its own, of which others lack the beginning."""
    first = slices[0]
    run = store.begin_run(
        ModelRecord(**first["model"]),
        DatasetRecord(**first["dataset"]),
        StackRecord(**first["stack"]),
        kind=RunKind(first["kind"]),
        attempt=int(first["attempt"]),
    )
    # The stack does not tell it: a node without a GPU's driver may have answered on another provider, and so may those
    # who answered the inputs before.
    before = run.resolved if _rows(store, run.id) else first["resolved"]
    for one in slices:
        if one.get(_ADDED):
            continue
        alike = all(one["resolved"].get(name) == before.get(name) for name in _ALIKE)
        if not alike or _rows(store, run.id) != one["start"]:
            return
        # Before the parts, whose meaning it says: we may be killed in between. It may wait for others, who write too.
        machines = joined_machines(store.run(run.id).resolved, one["resolved"])
        store.set_resolved(run.id, {**one["resolved"], MACHINES: machines})
        if not _add_parts(store, run.id, one):
            return
        one[_ADDED] = True
    if first["start"] == 0 and slices[-1]["stop"] == first["dataset"]["size"]:
        store.set_resolved(run.id, {name: value for name, value in _facts(slices).items() if value})


def _add_parts(store: Store, run_id: str, packed: Mapping[str, Any]) -> bool:
    """Whether all parts of a slice were added, and nobody else added one meanwhile."""
    known = store.parts(run_id, KIND)
    if sum(part.rows for part in known) != packed["start"]:
        return False
    place = len(known)
    tables = [part["table"] for part in packed["parts"] if part["kind"] == KIND]
    return all(store.add_part(run_id, KIND, place + more, read_table(table)) for more, table in enumerate(tables))


def _facts(slices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the answers of all slices tell together."""
    told = [one["facts"] for one in slices]
    sums = [facts[ROW_SUM] for facts in told]
    one_sum = None not in sums and all(math.isclose(sums[0], other, rel_tol=_SAME) for other in sums)
    firsts = {read_table(one["parts"][0]["table"]).column("digest")[0].as_py() for one in slices}
    return {
        SUMS_TO_ONE: all(facts[SUMS_TO_ONE] for facts in told),
        ROW_SUM: sums[0] if one_sum else None,
        ALL_THE_SAME: all(facts[ALL_THE_SAME] for facts in told) and len(firsts) == 1,
    }
