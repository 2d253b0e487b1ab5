"""Two runs on the same inputs, compared input by input.

report = zoolens.compare("model.yaml", "candidate.yaml")
report.answers.difference, report.answers.p_value, report.answers.disagreements
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.statistics.intervals import Interval, paired_difference
from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.base.store.records import Observation, Run
from zoolens.base.store.scopes import pair_scope
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.verdicts import Gap, Tally, Verdict
from zoolens.findings.comparisons.behaviour import Accuracy, pair_answers
from zoolens.findings.comparisons.compatibility import places_by_name
from zoolens.findings.comparisons.machine_share import MachineShare, machine_shares
from zoolens.findings.comparisons.model_difference import manifest_lines, model_cause
from zoolens.findings.comparisons.outcomes import agreement_verdict, open_gap
from zoolens.findings.comparisons.pooled_runs import RepeatedTime, repeated_times
from zoolens.findings.comparisons.runs import choose_pair
from zoolens.findings.comparisons.signatures import Signature, known_score, signature_in_data_order
from zoolens.findings.comparisons.stacks import StackDifference, likely_cause, stack_differences
from zoolens.findings.comparisons.temperature import Temperature, fitted_temperature
from zoolens.findings.comparisons.vector_changes import VectorChange, compare_vectors, vector_places
from zoolens.findings.measure.answers import answering_stage, has_answers
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.named_runs import RunOrModel, run_text
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.tasks.task import task_named

_COMPARE_OUTPUTS: Final = "`zoolens equiv` compares outputs by name and says which it leaves out."


@dataclass(frozen=True)
class FigurePair:
    """One metric in both runs. `change` is B − A for fractions, B/A − 1 for everything else; None: a value is unknown,
    or the one of A is zero and the one of B is not."""

    metric: str
    scope: str
    unit: str
    a: Observation
    b: Observation

    @property
    def change(self) -> float | None:
        if self.a.value is None or self.b.value is None:
            return None
        if self.unit == "fraction":
            return self.b.value - self.a.value
        if self.a.value == 0:
            return 0.0 if self.b.value == 0 else None
        return self.b.value / self.a.value - 1


@dataclass(frozen=True)
class ClassChange:
    label: int
    name: str
    n: int
    recall_a: float
    recall_b: float
    p_value: float


@dataclass(frozen=True)
class Disagreement:
    input: str
    label: int
    answer_a: int
    answer_b: int
    score_a: float | None
    score_b: float | None


@dataclass(frozen=True)
class AnswerComparison:
    """What the two answered to the same inputs."""

    n: int
    both_right: int
    only_a: int
    only_b: int
    both_wrong: int
    difference: Interval  # of top-1, B − A
    p_value: float  # exact McNemar
    agreement: float  # mean over the inputs, as the task tells: for classes the share with the same answer
    identical_outputs: float | None  # share of inputs with bit-equal raw outputs; None: they were not kept
    max_score_change: float | None  # of the best class, where both give the same answer; None: no scores were kept
    median_score_change: float | None
    classes: tuple[ClassChange, ...]
    labelled: bool
    disagreements: tuple[Disagreement, ...]
    ties_a: int = 0  # inputs whose two best classes have exactly the same score
    ties_b: int = 0
    agreement_name: str = "same answer"
    graded: bool = False  # the agreement on an input may lie between 0 and 1

    @property
    def full(self) -> int:
        """Inputs with the same answer."""
        return self.n - len(self.disagreements)

    @property
    def top1_change(self) -> float:
        return (self.only_b - self.only_a) / self.n


@dataclass(frozen=True, repr=False)
class Report(Result):
    """`answers` is None where neither run has predictions (`--no-accuracy`), or none of classes; `vectors` has the
    outputs that are no classes; `only_a` and `only_b` have the figures that the other run lacks; `uncompared` names the
    outputs without a partner of their kind and width, and the further ones of classes."""

    a: Run
    b: Run
    answers: AnswerComparison | None
    figures: tuple[FigurePair, ...]
    environment: tuple[StackDifference, ...]
    cause: str | None
    vectors: tuple[VectorChange, ...] = ()
    only_a: tuple[Observation, ...] = ()
    only_b: tuple[Observation, ...] = ()
    uncompared: tuple[str, ...] = ()
    temperature: Temperature | None = None  # between classifiers that differ by this alone
    shares: tuple[MachineShare, ...] = ()  # of the machine and the software, where both differ
    repeated: tuple[RepeatedTime, ...] = ()  # times with all attempts, where there are several

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each figure that both runs have."""
        rows = [
            {
                "metric": one.metric,
                "scope": one.scope,
                "unit": one.unit,
                "a": one.a.value,
                "b": one.b.value,
                "change": one.change,
            }
            for one in self.figures
        ]
        return frame(rows, "Report.frame")

    @property
    def compared(self) -> tuple[AnswerComparison | VectorChange, ...]:
        """The outputs that were compared: classes first, then vectors."""
        classes = () if self.answers is None else (self.answers,)
        return (*classes, *self.vectors)

    @property
    def differs(self) -> bool:
        """Whether any input was answered with other bits or otherwise, or it is not known that none was."""
        answers = self.answers
        classes = answers is not None and ((answers.identical_outputs or 0) < 1 or answers.agreement < 1)
        # The same numbers may be read otherwise: with another threshold, or by another decoder.
        return classes or any(change.identical_outputs < 1 or change.agreement < 1 for change in self.vectors)

    @property
    def parts_by_stack(self) -> bool:
        """Whether one model answers differently in two environments, which is what `diverge` explains."""
        one_model = self.a.ref == self.b.ref or self.a.model.fingerprint == self.b.model.fingerprint
        return one_model and any(output.agreement < 1 for output in self.compared)


def compare(
    a: RunOrModel,
    b: RunOrModel,
    *,
    runtimes: Sequence[str] | str = (),
    store: Store | str | Path | None = None,
) -> Report:
    """Compare two stored runs: of two models (the newest runs on the same data, in the same runtime where there are
    such), or named by id, id prefix, "last" or "last~1". `runtimes`: one for both, or one for each."""
    named = (runtimes,) if isinstance(runtimes, str) else tuple(runtimes)
    with borrowed_store(store, must_exist=True) as opened:
        return compare_runs(opened, *choose_pair(opened, run_text(a), run_text(b), runtimes=named))


def compare_runs(store: Store, a: Run, b: Run, *, open_files: bool = True) -> Report:
    """Compare two runs. `open_files`: where they are of different models, read the files of both to say what the likely
    cause is, which may take long; otherwise no cause is named for these."""
    if a.dataset.fingerprint != b.dataset.fingerprint:
        raise ZoolensError(
            f"Run {a.id[:8]} is on {a.dataset.name} ({a.dataset.size} inputs) and run {b.id[:8]} on "
            f"{b.dataset.name} ({b.dataset.size} inputs): only runs on the same inputs can be paired.",
            hint="Evaluate both on the same dataset, with the same --limit and --seed.",
        )
    classifying = any(answering_stage(run) in store.stages(run.id) and _classifies(run) for run in (a, b))
    sides: tuple[Signature, ...] = ()
    if classifying or (has_answers(a) and has_answers(b)):
        sides = _in_one_order(*(_signature(store, run, classifying=classifying) for run in (a, b)))
    answers = _compare_answers(*sides) if classifying else None
    vectors = tuple(compare_vectors(*sides)) if sides else ()
    manifests = [
        StackDifference(f"manifest {line.what}", line.a, line.b, telling=True) for line in manifest_lines(a, b)
    ]
    ours, theirs = (judged_right(run, store.observations(run.id)) for run in (a, b))
    report = Report(
        a=a,
        b=b,
        answers=answers,
        figures=tuple(_figures(ours, theirs, {name for change in vectors for name in change.left_out})),
        environment=(*manifests, *stack_differences(a, b)),
        cause=None,
        vectors=vectors,
        only_a=_unpaired(ours, theirs, pair_scope(b.id)),
        only_b=_unpaired(theirs, ours, pair_scope(a.id)),
        uncompared=_uncompared(*sides, classes=answers is not None) if sides else (),
        temperature=fitted_temperature(*sides) if classifying else None,
        shares=machine_shares(store, a, b),
        repeated=repeated_times(store, a, b),
    )
    named = "" if report.temperature is None else report.temperature.words
    if not report.differs:
        return report
    if a.model.fingerprint != b.model.fingerprint and not open_files:
        return replace(report, cause=named or None)
    likely = likely_cause(a, b, model_cause(store, a, b)) or ""
    return replace(report, cause=" ".join(filter(None, [named, likely])) or None)


def _compare_answers(ours: Predictions, theirs: Predictions) -> AnswerComparison:
    pair = pair_answers(ours.main, theirs.main, ours.labels)
    # Without labels no answer is right.
    accuracy = pair.accuracy or Accuracy(0, 0, 0, 0, pair.n)
    both_right = accuracy.right_a - accuracy.only_a
    score_change = np.abs(ours.score[:, 0] - theirs.score[:, 0])[pair.agreement == 1]
    median_change = float(np.median(score_change)) if len(score_change) else 0.0
    scored = ours.scored and theirs.scored
    return AnswerComparison(
        n=pair.n,
        both_right=both_right,
        only_a=accuracy.only_a,
        only_b=accuracy.only_b,
        both_wrong=pair.n - both_right - accuracy.only_a - accuracy.only_b,
        difference=paired_difference(accuracy.only_a, accuracy.only_b, pair.n),
        p_value=exact_mcnemar(accuracy.only_a, accuracy.only_b),
        agreement=pair.agreeing / pair.n,
        identical_outputs=pair.identical,
        max_score_change=float(score_change.max(initial=0)) if scored else None,
        median_score_change=median_change if scored else None,
        classes=_class_changes(ours, ours.correct, theirs.correct) if ours.labelled else (),
        labelled=ours.labelled,
        disagreements=_disagreements(ours, theirs),
        ties_a=ours.ties,
        ties_b=theirs.ties,
        agreement_name=task_named(pair.a.task).agreement_name(),
        graded=pair.graded,
    )


def _in_one_order(a: Signature, b: Signature) -> tuple[Signature, Signature]:
    """Both with the outputs of A first, where B has the same ones by name in another order."""
    places = places_by_name(*([(output.output, output.task) for output in side.outputs] for side in (a, b)))
    return (a, b) if places is None else (a, replace(b, outputs=tuple(b.outputs[place] for place in places)))


def _uncompared(a: Signature, b: Signature, *, classes: bool) -> tuple[str, ...]:
    """The names of outputs that neither the classes nor the vectors of a report are about."""
    compared = {*([0] if classes else []), *vector_places(a, b)}
    names = (output.output for side in (a, b) for place, output in enumerate(side.outputs) if place not in compared)
    return tuple(dict.fromkeys(names))


def _classifies(run: Run) -> bool:
    outputs = run.resolved.get("outputs")
    return not outputs or task_named(outputs[0]["task"]).discrete


def _signature(store: Store, run: Run, *, classifying: bool) -> Signature:
    """What a run answered, with classes in the dataset's order. `classifying`: the other one answers with classes."""
    if classifying and not _classifies(run):
        raise ZoolensError(
            f"Run {run.id[:8]} ({run.ref}) answers with vectors and the other with classes.",
            hint="`zoolens equiv` compares vectors with vectors.",
        )
    return signature_in_data_order(store, run)


def _class_changes(
    predictions: Predictions, right_a: NDArray[np.bool_], right_b: NDArray[np.bool_]
) -> tuple[ClassChange, ...]:
    """Classes on which the two differ, the clearest first."""
    changes = []
    for label in np.unique(predictions.labels):
        here = predictions.labels == label
        a, b = right_a[here], right_b[here]
        lost, won = int(np.count_nonzero(a & ~b)), int(np.count_nonzero(b & ~a))
        if lost or won:
            name = predictions.class_name(int(label))
            p_value = exact_mcnemar(lost, won)
            changes.append(ClassChange(int(label), name, len(a), float(a.mean()), float(b.mean()), p_value))
    return tuple(sorted(changes, key=lambda change: (change.p_value, change.label)))


def _disagreements(a: Predictions, b: Predictions) -> tuple[Disagreement, ...]:
    """Inputs with different answers; those both were surest about first."""
    answers_a, answers_b = a.answers, b.answers
    where = np.flatnonzero(answers_a != answers_b)
    sure = np.minimum(a.score[where, 0], b.score[where, 0])
    return tuple(
        Disagreement(
            input=str(a.inputs[i]),
            label=int(a.labels[i]),
            answer_a=int(answers_a[i]),
            answer_b=int(answers_b[i]),
            score_a=known_score(a.score[i, 0]),
            score_b=known_score(b.score[i, 0]),
        )
        for i in where[np.argsort(-sure, kind="stable")]
    )


def _figures(a: Sequence[Observation], b: Sequence[Observation], left_out: Collection[str]) -> list[FigurePair]:
    others = {(figure.metric, figure.scope): figure for figure in b}
    return [
        FigurePair(figure.metric, figure.scope, figure.unit, figure, others[(figure.metric, figure.scope)])
        for figure in a
        if (figure.metric, figure.scope) in others and figure.metric not in left_out
    ]


def _unpaired(
    observations: Sequence[Observation], others: Sequence[Observation], of_this_pair: str
) -> tuple[Observation, ...]:
    """The figures that the other run lacks, but for those about the two runs together, which only one of them keeps."""
    known = {(other.metric, other.scope) for other in others}
    return tuple(
        observed
        for observed in observations
        if (observed.metric, observed.scope) not in known and observed.scope != of_this_pair
    )


def verdict_of_report(report: Report) -> Verdict:
    """Return whether the two runs answer alike, with the outputs and inputs that were compared."""
    shares = [output.agreement for output in report.compared]
    gaps = [Gap(f"output {name}", remedy=_COMPARE_OUTPUTS) for name in report.uncompared]
    for side, run in (("A", report.a), ("B", report.b)):
        if not has_answers(run):
            gaps.append(Gap(f"answers of {side}, which were not kept", remedy="Evaluate it without --no-accuracy."))
    inputs = report.a.inputs if shares else 0
    too_little = [gap for change in report.vectors if (gap := open_gap(change, change.identical_outputs))]
    tallies = [Tally("inputs", inputs, report.a.inputs)]
    return agreement_verdict(shares, len(report.uncompared), tallies, [*gaps, *too_little], len(too_little))


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain JSON-able values."""
    data = asdict(report)
    for left_out in ("only_a", "only_b", "uncompared"):  # `runs show` has them
        del data[left_out]
    for side in ("a", "b"):
        run: Run = getattr(report, side)
        data[side] = {"run": run.id, "model": run.ref, "runtime": run.stack.runtime, "resolved": dict(run.resolved)}
    for pair, repeated in zip(data["repeated"], report.repeated, strict=True):
        pair["factor"] = repeated.factor
    return {**data, **verdict_of_report(report).as_data()}
