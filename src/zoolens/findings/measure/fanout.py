"""Evaluations on other machines: a node evaluates into a store of its own, and what it found is merged into ours.

A node is sent the model's entry, the plan, and what our store has of the model, so that it does only what is missing.
Keys, figures and predictions are those of an evaluation on that machine; which attempt a new run is, our store decides.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor, check_reachable, run_jobs
from zoolens.base.engine.executors.reports import JobBars, job_progress
from zoolens.base.errors import Lost, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run, RunKey
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.datasets.opening import absolute_spec, parse_spec
from zoolens.inventory.fleet.agent_facts import kind_here
from zoolens.inventory.fleet.placing import Place
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
) -> Iterator[tuple[int, list[Outcome]]]:
    """The number of each evaluation and its outcomes, as they are stored. `known`: the runs of the store that a node is
    to go on from."""
    with JobBars(progress, f"on {executor.name}", "evaluating", len(evaluations)) as bars:
        waiting = dict(enumerate(evaluations))
        while waiting:
            numbers, again = list(waiting), {}

            def told(place: int, message: Any, numbers: Sequence[int] = numbers) -> None:
                bars.told(numbers[place], message)

            for place, answer in _answers(executor, list(waiting.values()), store, known, told):
                number, evaluation = numbers[place], waiting[numbers[place]]
                if isinstance(answer, Lost) and len(evaluation.places) > 1:
                    again[number] = replace(evaluation, places=evaluation.places[1:])
                    continue
                bars.finished(number)
                failed = isinstance(answer, ZoolensError)
                yield number, [Outcome(evaluation.title, errors=(str(answer),))] if failed else answer
            waiting = again


def _answers(
    executor: Executor,
    evaluations: Sequence[Evaluation],
    store: Store,
    known: Callable[[Entry], Sequence[Run]],
    told: Callable[[int, Any], None],
) -> Iterator[tuple[int, Any]]:
    """The number of each evaluation, with its outcomes or with the error of its job."""
    sent: list[set[str]] = []

    def jobs() -> Iterator[dict[str, Any]]:
        for evaluation in evaluations:
            runs = [] if evaluation.plan.fresh else list(filter(evaluation.may_know, known(evaluation.entry)))
            sent.append({run.id for run in runs})
            yield evaluation_fields(evaluation, [pack_run(store, run) for run in runs])

    def node_of(number: int) -> str:
        places = evaluations[number].places
        return places[0].facts.node if places else ""

    timed = any(evaluation.plan.batches or evaluation.plan.cold for evaluation in evaluations)
    gpu = any(needs_gpu(evaluation.plan.wanted) for evaluation in evaluations)
    for number, answer in run_jobs(
        executor, _FUNCTION, jobs(), whole_machine=timed, gpu=gpu, node_of=node_of, told=told
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
    check_reachable(job["paths"])
    _check_kind(job["promised"])
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


def evaluation_fields(evaluation: Evaluation, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """An evaluation as plain data. `runs`: what the store has of its model, packed."""
    entry, plan = evaluation.entry, evaluation.placed()
    data = None if plan.data is None else absolute_spec(plan.data)
    return {
        TITLE: evaluation.title,
        "entry": entry_fields(entry),
        "plan": TypeAdapter(EvaluationPlan).dump_python(replace(plan, data=data), mode="json"),
        "asked": evaluation.asked,
        "promised": evaluation.promised(),
        "runs": runs,
        "paths": [*paths_of_entry(entry), *paths_of_data(data)],
    }


def paths_of_data(data: str | None) -> list[str]:
    """What a node must have to open a dataset, which is named as `absolute_spec` does."""
    location = "" if data is None else parse_spec(data)[1]
    return [location] if location.startswith("/") and Path(location).exists() else []


def paths_of_entry(entry: Entry) -> list[str]:
    """What a node must have to open a model."""
    return [str(entry.folder.absolute())] if entry.folder is not None and entry.folder.exists() else []


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
