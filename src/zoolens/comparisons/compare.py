"""Two runs on the same inputs, compared input by input.

report = zoolens.compare("model.yaml", "candidate.yaml")
report.answers.difference, report.answers.p_value, report.answers.disagreements
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.comparisons.behaviour import counted, identical, score_difference
from zoolens.comparisons.modeldiff import manifest_lines, model_cause
from zoolens.comparisons.runs import choose_pair
from zoolens.comparisons.stacks import Difference, likely_cause, stack_differences
from zoolens.errors import ZoolensError
from zoolens.measure.answers import answering_stage, answers_table, has_answers, numbers, read_output
from zoolens.measure.classorder import data_classes, judged_right, stored_translation, translated_predictions
from zoolens.measure.predictions import Predictions, read_predictions
from zoolens.statistics.intervals import CONFIDENCE, Interval, paired_difference
from zoolens.statistics.significance import exact_mcnemar
from zoolens.store.records import Observation, Run
from zoolens.store.store import Store, borrowed_store
from zoolens.tasks.base import Answers as TaskAnswers
from zoolens.tasks.base import task_named


@dataclass(frozen=True)
class Figure:
    """One metric in both runs. `change` is B − A for fractions, B/A − 1 for everything else."""

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
        return self.b.value / self.a.value - 1 if self.a.value else None


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
class Answers:
    """What the two answered to the same inputs."""

    n: int
    both_right: int
    only_a: int
    only_b: int
    both_wrong: int
    difference: Interval  # of top-1, B − A
    p_value: float  # exact McNemar
    agreement: float  # share of inputs with the same answer, right or wrong
    identical_outputs: float | None  # share of inputs with bit-equal raw outputs; None: they were not kept
    max_score_change: float | None  # of the best class, where both give the same answer; None: no scores were kept
    median_score_change: float | None
    classes: tuple[ClassChange, ...]
    labelled: bool
    disagreements: tuple[Disagreement, ...]
    ties_a: int = 0  # inputs whose two best classes have exactly the same score
    ties_b: int = 0

    @property
    def top1_change(self) -> float:
        return (self.only_b - self.only_a) / self.n


@dataclass(frozen=True)
class VectorChange:
    """How far apart an output is that answers with vectors: embeddings, regressions and other numbers."""

    output: str
    task: str
    n: int
    agreeing: int | float  # within a relative distance of `TOLERANCE`
    identical_outputs: float  # share of inputs with bit-equal raw outputs
    median_distance: float | None  # |a − b| / |a|; None where the task knows no distances
    max_distance: float | None
    cosine: float | None  # mean
    score_a: float | None = None  # mean of how right the answers are; None where labels cannot judge them
    score_b: float | None = None
    difference: Interval | None = None  # of the scores, B − A

    @property
    def agreement(self) -> float:
        return self.agreeing / self.n


@dataclass(frozen=True)
class Report:
    """`answers` is None where neither run has predictions (`--no-accuracy`), or none of classes; `vectors` has the
    outputs that are no classes."""

    a: Run
    b: Run
    answers: Answers | None
    figures: tuple[Figure, ...]
    environment: tuple[Difference, ...]
    cause: str | None
    vectors: tuple[VectorChange, ...] = ()


def compare(
    a: str | Path,
    b: str | Path,
    *,
    runtimes: Sequence[str] | str = (),
    store: Store | str | Path | None = None,
) -> Report:
    """Compare two stored runs: of two models (the newest runs on the same data, in the same runtime where there are
    such), or named by id, id prefix, "last" or "last~1". `runtimes`: one for both, or one for each."""
    named = (runtimes,) if isinstance(runtimes, str) else tuple(runtimes)
    with borrowed_store(store, must_exist=True) as opened:
        return compare_runs(opened, *choose_pair(opened, str(a), str(b), runtimes=named))


def compare_runs(store: Store, a: Run, b: Run) -> Report:
    if a.dataset.fingerprint != b.dataset.fingerprint:
        raise ZoolensError(
            f"Run {a.id[:8]} is on {a.dataset.name} ({a.dataset.size} inputs) and run {b.id[:8]} on "
            f"{b.dataset.name} ({b.dataset.size} inputs): only runs on the same inputs can be paired.",
            hint="Evaluate both on the same data, --limit and --seed.",
        )
    without = [run for run in (a, b) if answering_stage(run) not in store.stages(run.id) or not _classifies(run)]
    answers = None if len(without) == 2 else _compare_answers(_predictions(store, a), _predictions(store, b))
    vectors = tuple(_compare_vectors(store, a, b))
    differ = answers is not None and ((answers.identical_outputs or 0) < 1 or answers.agreement < 1)
    differ = differ or any(one.identical_outputs < 1 for one in vectors)
    manifests = [Difference(f"manifest {one.what}", one.a, one.b, telling=True) for one in manifest_lines(a, b)]
    return Report(
        a=a,
        b=b,
        answers=answers,
        figures=tuple(_figures(*(judged_right(run, store.observations(run.id)) for run in (a, b)))),
        environment=(*manifests, *stack_differences(a, b)),
        cause=likely_cause(a, b, model_cause(store, a, b)) if differ else None,
        vectors=vectors,
    )


def _compare_answers(ours: Predictions, theirs: Predictions) -> Answers:
    right_a, right_b = ours.correct, theirs.correct
    only_a = int(np.count_nonzero(right_a & ~right_b))
    only_b = int(np.count_nonzero(right_b & ~right_a))
    same = ours.top[:, 0] == theirs.top[:, 0]
    scored = ours.scored and theirs.scored
    score_change = np.abs(ours.score[:, 0] - theirs.score[:, 0])[same]
    median_change = float(np.median(score_change)) if len(score_change) else 0.0
    return Answers(
        n=len(ours),
        both_right=int(np.count_nonzero(right_a & right_b)),
        only_a=only_a,
        only_b=only_b,
        both_wrong=int(np.count_nonzero(~right_a & ~right_b)),
        difference=paired_difference(only_a, only_b, len(ours)),
        p_value=exact_mcnemar(only_a, only_b),
        agreement=float(np.mean(same)),
        identical_outputs=_identical(ours, theirs),
        max_score_change=float(score_change.max(initial=0)) if scored else None,
        median_score_change=median_change if scored else None,
        classes=_class_changes(ours, right_a, right_b) if (ours.labels >= 0).any() else (),
        labelled=bool((ours.labels >= 0).any()),
        disagreements=_disagreements(ours, theirs),
        ties_a=ours.ties,
        ties_b=theirs.ties,
    )


def _identical(a: Predictions, b: Predictions) -> float | None:
    return None if a.digest is None or b.digest is None else float(np.mean(a.digest == b.digest))


def _compare_vectors(store: Store, a: Run, b: Run) -> Iterator[VectorChange]:
    if not (has_answers(a) and has_answers(b)):
        return
    outputs = zip(a.resolved.get("outputs") or (), b.resolved.get("outputs") or (), strict=False)
    alike = [
        (place, one)
        for place, (one, two) in enumerate(outputs)
        if not (_is_discrete(one) or _is_discrete(two)) and one["width"] == two["width"]
    ]
    if not alike:
        return
    ours, theirs = answers_table(store, a), answers_table(store, b)
    for place, about in alike:
        mine, other = (
            read_output(table, place, [*run.resolved["outputs"]], run) for table, run in ((ours, a), (theirs, b))
        )
        task = task_named(mine.task)
        agreement, figures = task.agreement(mine, other), task.figures(mine, other)
        yield VectorChange(
            output=about["name"],
            task=about["task"],
            n=len(agreement),
            agreeing=counted(agreement),
            identical_outputs=identical(mine, other),
            median_distance=figures.median_relative_l2,
            max_distance=figures.max_relative_l2,
            cosine=figures.cosine,
            **({} if place else _judged(mine, other, numbers(ours["label"]))),
        )


def _judged(a: TaskAnswers, b: TaskAnswers, labels: NDArray[np.int32]) -> dict[str, Any]:
    """How right the two are, where the data have labels that say so."""
    task = task_named(a.task)
    scores = (task.scores(a, labels), task.scores(b, labels)) if (labels >= 0).any() else (None, None)
    if scores[0] is None or scores[1] is None:
        return {}
    difference = score_difference(scores[0], scores[1], CONFIDENCE)
    return {"score_a": float(scores[0].mean()), "score_b": float(scores[1].mean()), "difference": difference}


def identical_share(store: Store, a: Run, b: Run) -> float | None:
    """The share of inputs to which both gave the very same bits, in all outputs; None: one of them has no answers."""
    if not (has_answers(a) and has_answers(b)):
        return None
    ours, theirs = answers_table(store, a), answers_table(store, b)
    digests = [name for name in ours.column_names if name.endswith("digest")]
    if ours.num_rows != theirs.num_rows or digests != [n for n in theirs.column_names if n.endswith("digest")]:
        return 0.0
    equal = np.ones(ours.num_rows, bool)
    for name in digests:
        equal &= ours[name].to_numpy() == theirs[name].to_numpy()
    return float(equal.mean())


def _classifies(run: Run) -> bool:
    outputs = run.resolved.get("outputs")
    return not outputs or _is_discrete(outputs[0])


def _is_discrete(output: Mapping[str, Any]) -> bool:
    return task_named(output["task"]).discrete


def _predictions(store: Store, run: Run) -> Predictions:
    if not _classifies(run):
        raise ZoolensError(
            f"Run {run.id[:8]} ({run.ref}) answers with vectors and the other with classes.",
            hint="`zoolens equiv` compares vectors with vectors.",
        )
    state = store.stages(run.id).get(answering_stage(run))
    if state is None or not state.done:
        raise ZoolensError(
            f"Run {run.id[:8]} ({run.ref}) has no finished predictions.",
            hint="Run the same `zoolens eval` again to finish it.",
        )
    predictions = read_predictions(answers_table(store, run), data_classes(run))
    return translated_predictions(predictions, stored_translation(run))


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
    where = np.flatnonzero(a.top[:, 0] != b.top[:, 0])
    sure = np.minimum(a.score[where, 0], b.score[where, 0])
    return tuple(
        Disagreement(
            input=str(a.inputs[i]),
            label=int(a.labels[i]),
            answer_a=int(a.top[i, 0]),
            answer_b=int(b.top[i, 0]),
            score_a=_known(a.score[i, 0]),
            score_b=_known(b.score[i, 0]),
        )
        for i in where[np.argsort(-sure, kind="stable")]
    )


def _known(score: np.float32) -> float | None:
    return None if np.isnan(score) else float(score)


def _figures(a: Sequence[Observation], b: Sequence[Observation]) -> list[Figure]:
    others = {(one.metric, one.scope): one for one in b}
    return [
        Figure(one.metric, one.scope, one.unit, one, others[(one.metric, one.scope)])
        for one in a
        if (one.metric, one.scope) in others
    ]


def as_data(report: Report) -> dict[str, Any]:
    """The report as plain JSON-able values."""
    from dataclasses import asdict

    data = asdict(report)
    for side in ("a", "b"):
        run: Run = getattr(report, side)
        data[side] = {"run": run.id, "model": run.ref, "runtime": run.stack.runtime, "resolved": dict(run.resolved)}
    return data
