"""Evaluations on other machines: a node evaluates into a store of its own, and what it found is merged into ours.

A node is sent the model's entry, the plan, and what our store has of the model, so that it does only what is missing.
Keys, figures and predictions are those of an evaluation on that machine; which attempt a new run is, our store decides.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor
from zoolens.base.engine.executors.job_events import RECORD
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.engine.retry_policy import machine_was_lost
from zoolens.base.errors import Lost, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run, RunKey, RunKind
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.opening import NamedData
from zoolens.inventory.fleet.agent_facts import kind_here
from zoolens.inventory.fleet.arrival import arrived
from zoolens.inventory.fleet.budget import BudgetWatch, OverBudget
from zoolens.inventory.fleet.job_ledger import JobLedger
from zoolens.inventory.fleet.placing import Place
from zoolens.inventory.fleet.travel import Travel, run_travelling
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.runtimes.devices import device_kind
from zoolens.inventory.zoos.zoo import Entry, Weights

_FUNCTION = "zoolens.findings.measure.fanout:evaluate_here"


@dataclass(frozen=True)
class Evaluation:
    """One model to be evaluated by a plan. `asked`: see `job_runner.run_job`. `places`: the machines that may do it, in
    this order; empty: any."""

    entry: Entry
    plan: EvaluationPlan
    asked: bool = True
    places: tuple[Place, ...] = ()
    job: str = field(default_factory=lambda: uuid4().hex[:12])  # its id in the list of jobs

    @property
    def title(self) -> str:
        return f"{self.entry.ref} on {self.places[0].agent}" if self.places else self.entry.ref

    @property
    def inside(self) -> str:
        """The environment that its machine is offered with, unless the user names another."""
        return self.places[0].facts.environment if self.places and not self.plan.wanted.environments else ""

    def placed(self) -> EvaluationPlan:
        """The plan, in the environment that its machine is offered with."""
        if not self.inside:
            return self.plan
        return replace(self.plan, wanted=replace(self.plan.wanted, environments=(self.inside,)))

    def promised(self) -> dict[str, Any] | None:
        """What the machine that does it must be, for `_check_kind`."""
        if not self.places:
            return None
        counts = counting(self.plan.wanted)
        return {"kind": self.places[0].facts.kind_for(**counts), "inside": self.inside, "counts": counts}

    def record(self, job: str = "") -> dict[str, Any]:
        """What the list of jobs says of it, or of another job that serves it."""
        promised = self.promised() or {}
        return {
            "id": job or self.job,
            "model": self.entry.full_ref,
            "dataset": self.plan.data or "",
            "runtimes": list(self.plan.wanted.runtimes),
            "kind": promised.get("kind", ""),
            "agent": self.priced_as[0],
            "agent_kind": self.priced_as[1],
        }

    @property
    def priced_as(self) -> tuple[str, str]:
        """The name and the kind of the agent whose machine does it."""
        return (self.places[0].agent, self.places[0].facts.kind) if self.places else ("", "")

    def may_know(self, run: Run) -> bool:
        """Whether a run may be one of its machine, so that the machine can go on from it."""
        if not self.places:
            return True
        machine, known = self.places[0].facts.machine, run.stack.identity.get("machine") or {}
        return (known.get("cpu"), known.get("cores")) == (machine.cpu, machine.cores)


def evaluate_elsewhere(
    executor: Executor,
    evaluations: Sequence[Evaluation],
    store: Store,
    progress: Progress,
    known: Callable[[Entry], Sequence[Run]],
    watch: BudgetWatch | None = None,
) -> Iterator[tuple[int, list[Outcome]]]:
    """The number of each evaluation and its outcomes, as they are stored. `known`: the runs of the store that a node is
    to go on from. `watch`: of a budget that jobs before these have used too; None: theirs begins."""
    with (
        JobBars(progress, f"on {executor.name}", "evaluating", len(evaluations)) as bars,
        JobLedger(store, command_of(evaluations), budget=watch or budget_watch(evaluations, store)) as ledger,
    ):
        recorded = ledger.around(executor)
        waiting, sender = dict(enumerate(evaluations)), _Sender(store, known, Travel(progress), progress)
        while waiting:
            numbers, again = list(waiting), {}

            def told(place: int, message: Any, numbers: Sequence[int] = numbers) -> None:
                bars.told(numbers[place], message)

            for place, answer in _answers(recorded, list(waiting.values()), sender, told):
                number, evaluation = numbers[place], waiting[numbers[place]]
                if machine_was_lost(answer) and len(evaluation.places) > 1:
                    again[number] = replace(evaluation, places=evaluation.places[1:])
                    continue
                bars.finished(number)
                if isinstance(answer, OverBudget):
                    ledger.given_up(evaluation.job)
                    yield number, [Outcome(evaluation.title, not_done=str(answer))]
                elif isinstance(answer, ZoolensError):
                    ledger.given_up(evaluation.job)
                    yield number, [Outcome(evaluation.title, errors=(str(answer),))]
                else:
                    note_outcomes(ledger, evaluation.job, answer)
                    yield number, answer
            waiting = again


def budget_watch(evaluations: Sequence[Evaluation], store: Store) -> BudgetWatch | None:
    budgets = [evaluation.plan.budget for evaluation in evaluations if evaluation.plan.budget is not None]
    if not budgets:
        return None
    unpriced = [one.record() for one in evaluations if budgets[0].price(*one.priced_as) is None]
    if budgets[0].money is not None and unpriced:
        raise ZoolensError(
            f"There is no price for {unpriced[0]['agent'] or 'any machine'}, so that a budget of money cannot be kept.",
            hint="Add it to the prices, or one called default.",
        )
    return BudgetWatch(budgets[0], store)


def command_of(evaluations: Sequence[Evaluation]) -> str:
    """The command that gives these out, for the list of jobs."""
    tried = any(evaluation.plan.kind is RunKind.TRIAL for evaluation in evaluations)
    return "doctor" if tried else "eval"


def note_outcomes(ledger: JobLedger, job: str, outcomes: Sequence[Outcome]) -> None:
    """Puts what came of a job into its record."""
    runs = [outcome.run.id for outcome in outcomes if outcome.run is not None]
    errors = [error for outcome in outcomes for error in outcome.errors]
    remarks = [f"warning: {outcome.title}: {one}" for outcome in outcomes for one in outcome.warnings]
    remarks += [f"{outcome.title}: skipped, {outcome.skipped}" for outcome in outcomes if outcome.skipped]
    ledger.came_of(job, runs, errors, remarks)


@dataclass(frozen=True)
class _Sender:
    """What jobs are made from."""

    store: Store
    known: Callable[[Entry], Sequence[Run]]
    travel: Travel
    progress: Progress


def _answers(
    executor: Executor, evaluations: Sequence[Evaluation], sender: _Sender, told: Callable[[int, Any], None]
) -> Iterator[tuple[int, Any]]:
    """The number of each evaluation, with its outcomes or with the error of its job."""
    sent: list[set[str]] = []
    store = sender.store

    def jobs() -> Iterator[dict[str, Any]]:
        for evaluation in evaluations:
            runs = [] if evaluation.plan.fresh else list(filter(evaluation.may_know, sender.known(evaluation.entry)))
            sent.append({run.id for run in runs})
            packed = [pack_run(store, run) for run in runs]
            yield {**evaluation_fields(evaluation, packed, sender.travel), RECORD: evaluation.record()}

    def node_of(number: int) -> str:
        places = evaluations[number].places
        return places[0].facts.node if places else ""

    timed = any(evaluation.plan.batches or evaluation.plan.cold for evaluation in evaluations)
    gpu = any(needs_gpu(evaluation.plan.wanted) for evaluation in evaluations)
    needs = {"whole_machine": timed, "gpu": gpu}
    for number, answer in run_travelling(
        executor, _FUNCTION, jobs(), sender.progress, node_of=node_of, told=told, **needs
    ):
        if isinstance(answer, ZoolensError):
            yield number, answer
        else:
            fresh = evaluations[number].plan.fresh
            yield number, [merged_outcome(store, fields, sent[number], fresh=fresh) for fields in answer]


def needs_gpu(wanted: RunOptions) -> bool:
    """Whether only a node that has a GPU can run this."""
    return device_kind(wanted.options.device) == "cuda"


def counting(wanted: RunOptions) -> dict[str, Any]:
    """What of a machine counts for an evaluation, as arguments of `AgentFacts.kind_for`."""
    return {
        "runtimes": list(wanted.runtimes),
        "gpu": needs_gpu(wanted),
        "environment": not wanted.environments,  # of its agent, unless the user names another
    }


def evaluate_here(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs on the node: returns the outcomes of one evaluation as plain data, each with its run."""
    with arrived(job) as found:
        _check_kind(job["promised"])
        answer: list[dict[str, Any]] = found.restored(_evaluated(found.job))
    return answer


def _evaluated(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    plan = TypeAdapter(EvaluationPlan).validate_python(job["plan"])
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
    ):
        for packed in job["runs"]:
            merge_run(store, packed)
        outcomes = list(carry_out_entries([entry_of(job["entry"])], plan, store, job_progress(), asked=job["asked"]))
        return [outcome_fields(store, outcome) for outcome in outcomes]


def _check_kind(promised: Mapping[str, Any] | None) -> None:
    """Refuses a job whose machine is not what an agent said: a figure would stand for a machine that never made it."""
    if promised is None:
        return
    found = kind_here(promised["inside"], **promised["counts"])
    if found != promised["kind"]:
        raise Lost(
            f"{platform.node()} is of kind {found} for this evaluation, and its agent promised {promised['kind']}.",
            hint="Start the agent again, in the environment in which jobs run there.",
        )


def evaluation_fields(evaluation: Evaluation, runs: list[dict[str, Any]], travel: Travel) -> dict[str, Any]:
    """An evaluation as plain data. `runs`: what the store has of its model, packed."""
    plan = evaluation.placed()
    model, data = travel.model(evaluation.entry), travel.data(NamedData(plan.data, plan.limit, plan.seed))
    return {
        TITLE: evaluation.title,
        "entry": entry_fields(model.sent),
        "plan": TypeAdapter(EvaluationPlan).dump_python(replace(plan, data=data.sent, budget=None), mode="json"),
        "asked": evaluation.asked,
        "promised": evaluation.promised(),
        "runs": runs,
        **travel.fields(model, data),
    }


def entry_fields(entry: Entry) -> dict[str, Any]:
    """A model as plain data, for `entry_of`."""
    return {
        "zoo": entry.zoo,
        "manifest": entry.manifest.model_dump(mode="json"),
        "weights": entry.weights.value,
        "folder": str(entry.folder.absolute()) if entry.folder else None,
        "file": entry.file,
    }


def entry_of(fields: Mapping[str, Any]) -> Entry:
    return Entry(
        fields["zoo"],
        Manifest.model_validate(fields["manifest"]),
        Weights(fields["weights"]),
        Path(fields["folder"]) if fields["folder"] else None,
        fields["file"],
    )


def outcome_fields(store: Store, outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain data, with everything that the store of the node has of its run."""
    fields = {name: value for name, value in vars(outcome).items() if name != "run"}
    return {**fields, "run": None if outcome.run is None else pack_run(store, outcome.run)}


def merged_outcome(store: Store, fields: Mapping[str, Any], sent: Collection[str], *, fresh: bool) -> Outcome:
    """An outcome of a node, whose run is merged into our store. `sent`: ids of the runs that the node was sent."""
    packed = fields["run"]
    try:
        run = None if packed is None else merge_run(store, packed, fresh=fresh or _begun_there(packed, sent))
    except ZoolensError as error:
        # Somebody measured the same here meanwhile.
        return Outcome(fields["title"], errors=(str(error),))
    return Outcome(**{**fields, "run": run})


def _begun_there(packed: Mapping[str, Any], sent: Collection[str]) -> bool:
    """Whether the node began this run as a new attempt. It gets the next number of our store: the node knows only what
    it was sent, and the same content may have been measured here under another name."""
    model, dataset, stack = (packed[part]["fingerprint"] for part in ("model", "dataset", "stack"))
    attempt = int(packed["attempt"])
    return attempt > 0 and RunKey(model, dataset, stack, attempt).id not in sent
