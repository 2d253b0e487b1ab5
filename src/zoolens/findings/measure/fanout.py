"""Evaluations on other machines: a node evaluates into a store of its own, and what it found is merged into ours.

A node is sent the model's entry, the plan, and what our store has of the model, so that it does only what is missing.
Keys, figures and predictions are those of an evaluation on that machine; which attempt a new run is, our store decides.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from zoolens.base.engine.executors.executor import TITLE, Executor, Lost, check_reachable, run_jobs
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import Run, RunKey
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.datasets.opening import absolute_spec, parse_spec
from zoolens.inventory.fleet.placing import Place
from zoolens.inventory.manifests.schema import Manifest
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

    def placed(self) -> EvaluationPlan:
        """The plan, in the environment that its machine is offered with."""
        inside = self.places[0].facts.environment if self.places else ""
        if not inside or self.plan.wanted.environments:
            return self.plan
        return replace(self.plan, wanted=replace(self.plan.wanted, environments=(inside,)))


def evaluate_elsewhere(
    executor: Executor,
    evaluations: Sequence[Evaluation],
    store: Store,
    progress: Progress,
    known: Callable[[Entry], Sequence[Run]],
) -> Iterator[tuple[int, list[Outcome]]]:
    """The number of each evaluation and its outcomes, as they are stored. `known`: the runs of the store that a node is
    to go on from."""
    progress.begin(f"on {executor.name}", "evaluating", len(evaluations))
    try:
        waiting = dict(enumerate(evaluations))
        while waiting:
            numbers, again = list(waiting), {}
            for place, answer in _answers(executor, list(waiting.values()), store, known):
                number, evaluation = numbers[place], waiting[numbers[place]]
                if isinstance(answer, Lost) and len(evaluation.places) > 1:
                    again[number] = replace(evaluation, places=evaluation.places[1:])
                    continue
                failed = isinstance(answer, ZoolensError)
                yield number, [Outcome(evaluation.title, errors=(str(answer),))] if failed else answer
                progress.advance(1)
            waiting = again
    finally:
        progress.end()


def _answers(
    executor: Executor, evaluations: Sequence[Evaluation], store: Store, known: Callable[[Entry], Sequence[Run]]
) -> Iterator[tuple[int, Any]]:
    """The number of each evaluation, with its outcomes or with the error of its job."""
    sent: list[set[str]] = []

    def jobs() -> Iterator[dict[str, Any]]:
        for evaluation in evaluations:
            runs = () if evaluation.plan.fresh else known(evaluation.entry)
            sent.append({run.id for run in runs})
            yield _job(evaluation, [pack_run(store, run) for run in runs])

    def node_of(number: int) -> str:
        places = evaluations[number].places
        return places[0].facts.node if places else ""

    timed = any(evaluation.plan.batches or evaluation.plan.cold for evaluation in evaluations)
    for number, answer in run_jobs(executor, _FUNCTION, jobs(), whole_machine=timed, node_of=node_of):
        if isinstance(answer, ZoolensError):
            yield number, answer
        else:
            fresh = evaluations[number].plan.fresh
            yield number, [_merged(store, fields, sent[number], fresh=fresh) for fields in answer]


def evaluate_here(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Runs on the node: returns the outcomes of one evaluation as plain data, each with its run."""
    check_reachable(job["paths"])
    plan = TypeAdapter(EvaluationPlan).validate_python(job["plan"])
    with (
        tempfile.TemporaryDirectory(prefix="zoolens-node-") as folder,
        open_store(Path(folder) / "store.sqlite") as store,
    ):
        for packed in job["runs"]:
            merge_run(store, packed)
        outcomes = list(carry_out_entries([_entry(job["entry"])], plan, store, Silent(), asked=job["asked"]))
        return [_described(store, outcome) for outcome in outcomes]


def _job(evaluation: Evaluation, runs: list[dict[str, Any]]) -> dict[str, Any]:
    entry, plan = evaluation.entry, evaluation.placed()
    data = None if plan.data is None else absolute_spec(plan.data)
    location = "" if data is None else parse_spec(data)[1]
    paths = [entry.folder, Path(location) if location.startswith("/") else None]
    return {
        TITLE: evaluation.title,
        "entry": {
            "zoo": entry.zoo,
            "manifest": entry.manifest.model_dump(mode="json"),
            "weights": entry.weights.value,
            "folder": str(entry.folder.absolute()) if entry.folder else None,
            "file": entry.file,
        },
        "plan": TypeAdapter(EvaluationPlan).dump_python(replace(plan, data=data), mode="json"),
        "asked": evaluation.asked,
        "runs": runs,
        "paths": [str(path.absolute()) for path in paths if path is not None and path.exists()],
    }


def _entry(fields: Mapping[str, Any]) -> Entry:
    return Entry(
        fields["zoo"],
        Manifest.model_validate(fields["manifest"]),
        Weights(fields["weights"]),
        Path(fields["folder"]) if fields["folder"] else None,
        fields["file"],
    )


def _described(store: Store, outcome: Outcome) -> dict[str, Any]:
    fields = {name: value for name, value in vars(outcome).items() if name != "run"}
    return {**fields, "run": None if outcome.run is None else pack_run(store, outcome.run)}


def _merged(store: Store, fields: Mapping[str, Any], sent: Collection[str], *, fresh: bool) -> Outcome:
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
