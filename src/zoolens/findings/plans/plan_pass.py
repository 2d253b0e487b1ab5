"""One pass of a recurring plan: every model on every kind of machine, kept cell by cell so that it can be resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.engine.executors.executor import Executor
from zoolens.base.engine.machine import describe_machine
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.safety.scrubbing import scrubbed
from zoolens.base.store.passes import load_passes
from zoolens.base.store.records import Run, fingerprint
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.machine_kinds import MachineKind, kind_of_machine, kind_of_stack
from zoolens.findings.measure.evaluate import placed_evaluations
from zoolens.findings.measure.fanout import Evaluation, budget_watch, evaluate_elsewhere, needs_gpu
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.findings.plans.pass_keeper import PassKeeper
from zoolens.findings.plans.plan_file import FleetPlan
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.fleet.agent_facts import AgentFacts
from zoolens.inventory.fleet.budget import BudgetWatch
from zoolens.inventory.zoos.zoo import Entry

_LATENCY_ALONE: Final = {"accuracy": False, "cold": False}
_LONGEST_ERROR: Final = 4_000  # characters
_CHANGED: Final = (
    "The plan asks for other measurements than when this pass began: what it had until then is no part of it any more."
)


@dataclass(frozen=True)
class Asked:
    """One evaluation of a pass: a model, by the plan's name for it, on a dataset and on a kind of machine. `place` is
    the machine without installed versions, in words where that is possible."""

    data: str
    model: str
    kind: str = ""
    place: str = ""


@dataclass(frozen=True)
class Cell:
    """One model on one dataset in one runtime on one machine, and the run that a pass has of it. `machine`: hardware
    and environment, without installed versions: an update of a runtime is a change on the same machine. `kind` has the
    versions too. `job`: the kind of machine for which it was asked, as in `Asked`. `again`: runs of the same pass that
    measured its latency once more."""

    model: str
    data: str
    runtime: str
    machine: str
    kind: str
    run: str
    job: str = ""
    again: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.model, self.data, self.runtime, self.machine


@dataclass(frozen=True)
class Failure:
    """An evaluation that a pass could not make."""

    title: str
    error: str
    data: str = ""
    model: str = ""
    place: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What fails: the same title may stand for other data and other machines."""
        return self.title, self.data, self.model, self.place


@dataclass
class Pass:
    """What came of a pass so far. `measured`: a digest of how the plan wants things measured."""

    cells: dict[tuple[str, ...], Cell] = field(default_factory=dict)  # by their keys and kinds
    failures: list[Failure] = field(default_factory=list)
    not_done: list[Failure] = field(default_factory=list)  # for want of budget
    done: list[Asked] = field(default_factory=list)
    measured: str = ""

    def as_data(self) -> dict[str, Any]:
        every = {name: getattr(self, name) for name in ("failures", "not_done", "done")}
        lists = {name: [asdict(one) for one in values] for name, values in every.items()}
        return {"cells": [asdict(cell) for cell in self.cells.values()], **lists, "measured": self.measured}


def read_pass(content: Mapping[str, Any]) -> Pass:
    cells = [Cell(**{**one, "again": tuple(one.get("again", ()))}) for one in content.get("cells", ())]
    return Pass(
        {(*cell.key, cell.kind): cell for cell in cells},
        [Failure(**one) for one in content.get("failures", ())],
        [Failure(**one) for one in content.get("not_done", ())],
        [Asked(**one) for one in content.get("done", ())],
        content.get("measured", ""),
    )


@dataclass(frozen=True)
class Passed:
    """A pass, and the last one before it that was finished."""

    this: Pass
    last: Pass | None
    since: float | None  # seconds since the last one ended
    remarks: tuple[str, ...] = ()


@dataclass
class Work:
    """What a plan is carried out with, looked up before a pass begins. `watch`: of its budget, once jobs were given
    out."""

    plan: FleetPlan
    executor: Executor
    entries: Sequence[Entry]
    watch: BudgetWatch | None = None


def prepare(plan: FleetPlan) -> Work:
    """Look up models and machines. Use it within `running_on(plan.on)`."""
    entries, executor = find_all(plan.models), current_executor(each_kind=True)
    names = Counter(entry.full_ref for entry in entries)
    if shared := [name for name, count in names.items() if count > 1]:
        raise ZoolensError(
            f"{shared[0]} is the name of {names[shared[0]]} models of this plan: a report could not tell them apart.",
            hint="Give one of them another version in its manifest.",
        )
    if plan.evaluation("").budget is not None and not executor.elsewhere:
        raise ZoolensError("A budget is kept for jobs on other machines.", hint="Write on: each-kind, or on: ray.")
    return Work(plan, executor, entries)


def carry_out_work(work: Work, store: Store, keeper: PassKeeper, this: Pass, progress: Progress) -> Passed:
    """Do what is missing of the pass that `keeper` holds, and fill `this` with what came of it. A pass ends when
    everything was done or failed; one that was stopped, or for which the budget was too small, goes on when this is
    called again."""
    remarks = tuple(_go_on(this, read_pass(keeper.record.content), work))
    done = set(this.done)
    for asked, outcomes in _outcomes(work, store, progress, lambda asked: asked in done):
        with keeper.lock:
            _add(this, asked, outcomes)
        keeper.changed()
    earlier = load_passes(store, work.plan.name, limit=1, ended=True)
    if not earlier:
        return Passed(this, None, None, remarks)
    assert earlier[0].ended is not None
    last = read_pass(earlier[0].content)
    if last.measured != this.measured:
        remarks = (*remarks, "The plan asks for other measurements than in the last pass.")
    return Passed(this, last, earlier[0].now - earlier[0].ended, remarks)


def measure_again(
    work: Work, store: Store, keeper: PassKeeper, this: Pass, runs: Collection[str], progress: Progress
) -> None:
    """Measure the latencies of the cells of these runs once more, as far as the budget lasts. One of many sittings is
    far off, and nothing that it knows of itself shows that."""
    chosen = {key: cell for key, cell in this.cells.items() if cell.run in runs}
    wanted = {(cell.data, cell.model, cell.job) for cell in chosen.values()}
    models = {model for _, model, _ in wanted}
    plan = work.plan.model_copy(update={"fresh": True, "options": work.plan.options.model_copy(update=_LATENCY_ALONE)})
    fewer = replace(work, plan=plan, entries=[entry for entry in work.entries if entry.full_ref in models])
    for asked, outcomes in _outcomes(fewer, store, progress, lambda one: (one.data, one.model, one.kind) not in wanted):
        for outcome in outcomes:
            if outcome.run is None or outcome.errors:
                continue
            found = _cell(outcome.run, asked)
            key = (*found.key, found.kind)
            if key in chosen:
                with keeper.lock:
                    this.cells[key] = replace(this.cells[key], again=(*this.cells[key].again, found.run))
                keeper.changed()


def _go_on(this: Pass, begun: Pass, work: Work) -> Iterator[str]:
    """Take over what a pass has already, as far as the plan still asks for it."""
    plan = work.plan
    this.measured = fingerprint([plan.options.model_dump(mode="json"), plan.runtimes, plan.require, plan.on])
    if begun.measured and begun.measured != this.measured:
        yield _CHANGED
        return
    models = {entry.full_ref for entry in work.entries}
    cells = begun.cells.items()
    this.cells = {key: cell for key, cell in cells if cell.model in models and cell.data in plan.datasets}
    this.done = [asked for asked in begun.done if asked.model in models and asked.data in plan.datasets]


def _outcomes(
    work: Work, store: Store, progress: Progress, done: Callable[[Asked], bool]
) -> Iterator[tuple[Asked, Sequence[Outcome]]]:
    if work.executor.elsewhere:
        yield from _elsewhere(work, store, progress, done)
        return
    place = machine_of(kind_of_machine(describe_machine()))
    for data in work.plan.datasets:
        for entry in work.entries:
            asked = Asked(data, entry.full_ref, "", place)
            if not done(asked):
                yield asked, list(carry_out_entries([entry], work.plan.evaluation(data), store, progress))


def _elsewhere(
    work: Work, store: Store, progress: Progress, done: Callable[[Asked], bool]
) -> Iterator[tuple[Asked, Sequence[Outcome]]]:
    evaluations: list[Evaluation] = []
    for data in work.plan.datasets:
        for one in placed_evaluations(work.executor, work.entries, work.plan.evaluation(data), store):
            if done(_asked(one)):
                continue
            if one.places and not one.places[0].within_reach:
                yield _asked(one), [Outcome(one.title, errors=(one.places[0].out_of_reach,))]
            else:
                evaluations.append(one)

    def known(entry: Entry) -> list[Run]:
        return store.runs(model=entry.full_ref, trials=True)

    if not evaluations:
        return
    # All datasets together: they share one budget, and so does what is measured again.
    work.watch = work.watch or budget_watch(evaluations, store)
    for number, outcomes in evaluate_elsewhere(work.executor, evaluations, store, progress, known, work.watch):
        yield _asked(evaluations[number]), outcomes


def _asked(evaluation: Evaluation) -> Asked:
    place = _place_words(evaluation.places[0].facts, evaluation.plan) if evaluation.places else ""
    return Asked(evaluation.plan.data or "", evaluation.entry.full_ref, evaluation.record()["kind"], place)


def _place_words(facts: AgentFacts, plan: EvaluationPlan) -> str:
    words = machine_of(kind_of_machine(facts.machine, facts.environment))
    # What a GPU is called in a run, nobody knows before.
    return f"{words} with {', '.join(facts.gpus)}" if needs_gpu(plan.wanted) else words


def _add(this: Pass, asked: Asked, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.run is not None:
            cell = _cell(outcome.run, asked)
            # A stage that failed is measured again when the pass goes on.
            this.cells[(*cell.key, cell.kind)] = cell
        this.failures += [_failure(outcome.title, error, asked) for error in outcome.errors]
        if outcome.not_done:
            this.not_done.append(_failure(outcome.title, outcome.not_done, asked))
    if not any(outcome.errors or outcome.not_done for outcome in outcomes):
        this.done.append(asked)


def _failure(title: str, error: str, asked: Asked) -> Failure:
    return Failure(title, scrubbed(error)[:_LONGEST_ERROR], asked.data, asked.model, asked.place)


def _cell(run: Run, asked: Asked) -> Cell:
    kind = kind_of_run(run)
    return Cell(asked.model, asked.data, run.stack.runtime, machine_of(kind), kind.id, run.id, asked.kind)


def kind_of_run(run: Run) -> MachineKind:
    return kind_of_stack(run.stack.runtime, run.stack.identity)


def machine_of(kind: MachineKind) -> str:
    """The hardware in words, and what tells it from other hardware with the same words."""
    return f"{kind.machine_name} [{fingerprint([kind.hardware, kind.software.get('environment')])[:8]}]"
