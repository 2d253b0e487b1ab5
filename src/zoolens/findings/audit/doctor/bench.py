"""Measures variants: each is an ordinary evaluation of an ordinary manifest, kept in the store like any other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run, Stage
from zoolens.base.store.store import Store
from zoolens.findings.audit.doctor.evidence import (
    Contrast,
    Evidence,
    could_tell,
    failed,
    from_predictions,
    rules_out_better,
)
from zoolens.findings.audit.doctor.remembered_answers import RememberedAnswers
from zoolens.findings.audit.doctor.variants import DECLARED, Variant
from zoolens.findings.measure.fanout import Evaluation, evaluate_elsewhere
from zoolens.findings.measure.input_checks import inputs_differ
from zoolens.findings.measure.job_runner import run_job
from zoolens.findings.measure.jobs import Job, RunOptions
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.findings.measure.stages import stored_predictions
from zoolens.findings.measure.suspicions import ALL_THE_SAME
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.subset import select
from zoolens.inventory.runtimes.runtime import Effective, Session, Tensor, Tensors
from zoolens.inventory.tasks.task import task_named
from zoolens.inventory.zoos.zoo import Entry

MIN_HELD_OUT: Final = 60  # inputs: with fewer, one test cannot tell a difference of 10 points from noise
NOUNS: Final = {"image": "images", "text": "texts", "sound": "sounds"}


class Level(IntEnum):
    """How many inputs a variant has seen. Each level holds the inputs of the ones before it."""

    SCREEN = 0
    SELECTION = 1
    ALL = 2


class VariantBench:
    """One model and its data, of which every input has a truth. Use `close` (or `contextlib.closing`) when done."""

    def __init__(
        self, job: Job, plan: EvaluationPlan, dataset: Dataset, screen: int, store: Store, progress: Progress
    ) -> None:
        self.job, self._plan, self._store, self._progress = job, plan, store, progress
        # Other machines open the dataset by the plan, which has no word for the inputs with a truth alone.
        self._opened_by_plan = dataset.opened_as is not None
        total = min(plan.limit or len(dataset), len(dataset))
        chosen = total // 2 if total >= 2 * MIN_HELD_OUT else total
        self.sizes: Mapping[Level, int] = {
            Level.SCREEN: min(screen, chosen),
            Level.SELECTION: chosen,
            Level.ALL: total,
        }
        # one seed: a smaller sample lies inside the larger ones, and `eval --limit --seed` names the same inputs
        self.data: Mapping[Level, Dataset] = {
            level: select(dataset, size, plan.seed) for level, size in self.sizes.items()
        }
        self.task = task_named(job.manifest.task)
        self._found: dict[tuple[Variant, int], Evidence] = {}
        self._answers = RememberedAnswers()
        self._sessions: dict[Any, Session] = {}

    @property
    def noun(self) -> str:
        """What inputs are called."""
        return NOUNS.get(self.job.manifest.inputs[0].modality, "inputs")

    @property
    def held_out(self) -> bool:
        return self.sizes[Level.SELECTION] < self.sizes[Level.ALL]

    @property
    def telling(self) -> bool:
        """Whether a variant that is 10 points better would have been shown to be better.

        Intervals must say that none is as much better; of exact tests the number of inputs must allow it besides.
        """
        compared = [self.contrast(DECLARED, one, self.widest(one)) for one in self.seen(Level.SELECTION)]
        if not rules_out_better(compared):
            return False
        return not self.task.discrete or self.enough

    @property
    def enough(self) -> bool:
        """Whether a variant that wins a tenth of the inputs and loses none would be better by more than noise."""
        fresh = self.sizes[Level.ALL] - self.sizes[Level.SELECTION] if self.held_out else self.sizes[Level.ALL]
        return could_tell(fresh, tests=1 if self.held_out else len(self.tried))

    @property
    def tried(self) -> list[Variant]:
        """Every variant measured so far, but not the declared one."""
        return [tried for tried in dict.fromkeys(variant for variant, _ in self._found) if tried != DECLARED]

    def known(self, variant: Variant, level: Level) -> bool:
        return (variant, self.sizes[level]) in self._found

    def seen(self, level: Level) -> list[Variant]:
        """The variants tried so far that were measured on the inputs of this level."""
        return [variant for variant in self.tried if self.known(variant, level)]

    def measure(self, variant: Variant, level: Level) -> Evidence:
        key = (variant, self.sizes[level])
        if key not in self._found:
            self._found[key] = self._evaluate(variant, level)
        return self._found[key]

    def measure_all(self, variants: Iterable[Variant], level: Level, why: str) -> dict[Variant, Evidence]:
        wanted = list(dict.fromkeys(variants))
        news = [variant for variant in wanted if not self.known(variant, level)]
        if news:
            count = f"{len(news)} variant{'s' if len(news) > 1 else ''}"
            self._progress.say(f"{why}: {count} on {self.sizes[level]:,} {self.noun}")
            self._measure_elsewhere(news, level)
        return {variant: self.measure(variant, level) for variant in wanted}

    def _measure_elsewhere(self, variants: Sequence[Variant], level: Level) -> None:
        """Measure several variants at once where `running_on` chose other machines; otherwise nothing happens."""
        executor = current_executor()
        if not executor.elsewhere or not self._opened_by_plan:
            return
        wanted = RunOptions(runtimes=(self.job.runtime.full_name,), options=self.job.options, allow_code=True)
        plan = replace(self._sized(level), wanted=wanted)
        evaluations = [Evaluation(self._varied(variant).entry, plan, asked=False) for variant in variants]
        coming = evaluate_elsewhere(executor, evaluations, self._store, self._progress, self._runs_of)
        answers = {number: self._evidence(outcomes[-1], self.data[level]) for number, outcomes in coming}
        for number in sorted(answers):  # in the order of the search, not in that in which other machines answered
            self._found[variants[number], self.sizes[level]] = answers[number]

    def _runs_of(self, entry: Entry) -> list[Run]:
        """The runs of this variant that the store has."""
        model = replace(self.job, entry=entry).model
        runs = self._store.runs(model=entry.full_ref, trials=True)
        return [run for run in runs if run.key.model == model.fingerprint]

    def contrast(self, base: Variant, other: Variant, level: Level) -> Contrast:
        return Contrast.of(self.measure(base, level), self.measure(other, level))

    def fresh(self, base: Variant, other: Variant) -> Contrast:
        """Compare two variants on the inputs that the search did not use."""
        used = self.measure(DECLARED, Level.SELECTION).inputs
        evidence = self.measure_all([base, other], Level.ALL, "Confirming")
        return Contrast.of(evidence[base].without(used), evidence[other].without(used))

    def widest(self, variant: Variant) -> Level:
        """The largest sample on which both this and the declared variant were measured."""
        return max(level for level in Level if self.known(variant, level) and self.known(DECLARED, level))

    def session(self) -> Session:
        """The model, opened as declared."""
        return self._open(self.job)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _evaluate(self, variant: Variant, level: Level) -> Evidence:
        dataset, progress = self.data[level], _Titled(self._progress, variant.name)
        outcome = run_job(self._varied(variant), self._sized(level), dataset, self._store, progress)
        return self._evidence(outcome, dataset)

    def _varied(self, variant: Variant) -> _Varied:
        like = self.job
        entry = replace(like.entry, manifest=variant.apply(like.manifest))
        listed = like.manifest.assets
        # A model behind a server is no file that the manifest lists.
        asset = entry.manifest.assets[listed.index(like.asset)] if like.asset in listed else like.asset
        return _Varied(
            entry,
            asset,
            like.runtime,
            like.options,
            like.environment,
            like.isolate,
            self._open,
            self._answers,
        )

    def _sized(self, level: Level) -> EvaluationPlan:
        return self._plan if level is Level.ALL else replace(self._plan, limit=self.sizes[level])

    def _evidence(self, outcome: Outcome, dataset: Dataset) -> Evidence:
        run = outcome.run
        state = self._store.stages(run.id).get(Stage.PREDICTIONS) if run else None
        if run is None or state is None or not state.done:
            # Its process may have died.
            self.close()
            reason = " ".join(outcome.errors) or "It gave no answers."
            inputs = np.array([sample.id for sample in dataset])
            return failed(run.id if run else None, inputs, self.task, reason)
        dead = bool(run.resolved.get(ALL_THE_SAME)) and inputs_differ(dataset)
        return from_predictions(run.id, stored_predictions(self._store, run, dataset), dead=dead)

    def _open(self, job: Job) -> Session:
        """Variants of one model share a session, unless they declare another input to a format that carries none."""
        key = job.files().inputs
        if key not in self._sessions:
            self._sessions[key] = Job.open(job)
        return self._sessions[key]


@dataclass(frozen=True)
class _Varied(Job):
    """A job of a variant: opens nothing again that is open already."""

    lend: Callable[[Job], Session] = Job.open
    answers: RememberedAnswers = field(default_factory=RememberedAnswers, compare=False)

    def open(self) -> Session:
        return _Lent(self.lend(self), self.answers, self.files().inputs)


class _Lent(Session):
    """Somebody else's session: closing it leaves it open."""

    def __init__(self, owner: Session, answers: RememberedAnswers, which: Hashable) -> None:
        self._owner, self._answers, self._which = owner, answers, which
        self.inputs, self.outputs, self.phases = owner.inputs, owner.outputs, owner.phases
        self.sandbox, self.elsewhere = owner.sandbox, owner.elsewhere
        self.largest_batch, self.postprocessed = owner.largest_batch, owner.postprocessed

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        (answer,) = self.begin_predict([feeds])()
        return answer

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        self.last_predict_seconds = self._owner.last_predict_seconds
        return self._answers.begin_predict(self._owner, self._which, batches)

    def effective(self) -> Effective:
        return self._owner.effective()

    def count_parameters(self) -> int:
        return self._owner.count_parameters()


class _Titled:
    """Progress under the variant's name: the model's is the same for all."""

    def __init__(self, inner: Progress, title: str) -> None:
        self._inner, self._title = inner, title

    def begin(self, title: str, stage: str, total: int | None, unit: str = "") -> None:
        self._inner.begin(self._title, stage, total, unit)

    def advance(self, steps: int) -> None:
        self._inner.advance(steps)

    def end(self) -> None:
        self._inner.end()

    def say(self, text: str) -> None:
        self._inner.say(text)
