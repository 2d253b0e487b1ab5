"""How alike two runs behave on the same inputs, from their signatures alone: nothing is run.

How far two answers to one input agree is told by their task: classes are the same or not, vectors are where they lie
within a relative l2 distance (`tolerance`) of each other. Of several outputs the worst counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zoolens.comparisons.compatibility import Compatibility
from zoolens.comparisons.signatures import Signature
from zoolens.errors import ZoolensError
from zoolens.preprocess.classes import Translation
from zoolens.statistics.anytime import paired_interval
from zoolens.statistics.intervals import Interval, paired_difference
from zoolens.tasks.base import TOLERANCE, Answers, task_named


@dataclass(frozen=True)
class Accuracy:
    """How many inputs each side gets right. Differences are B − A."""

    right_a: int
    right_b: int
    only_a: int
    only_b: int
    n: int

    @property
    def a(self) -> float:
        return self.right_a / self.n

    @property
    def b(self) -> float:
        return self.right_b / self.n

    @property
    def difference(self) -> float:
        return (self.only_b - self.only_a) / self.n


@dataclass(frozen=True)
class Behaviour:
    """One output of the two. `l2` is the mean distance of their probability vectors or of their vectors: an interval
    that surely holds it where only the best scores were kept, one number twice where it is exact; NaN where no scores
    were kept."""

    output: str
    task: str
    n: int
    agreeing: int | float  # the sum of agreements, input by input
    identical: float  # share of inputs with bit-equal outputs; NaN where no raw outputs were kept
    l2: Interval
    top5_overlap: float | None = None  # mean share of common classes among the five best
    accuracy: Accuracy | None = None
    relative_l2: float | None = None  # mean of |a − b| / |a|
    cosine: float | None = None  # mean; embeddings only

    @property
    def agreement(self) -> float:
        return self.agreeing / self.n


def behaviour(a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE) -> tuple[Behaviour, ...]:
    """One Behaviour an output that both have."""
    check_paired(a, b)
    a, b = translated(a, fit.translation_a), translated(b, fit.translation_b)
    shared = zip(a.outputs[: fit.outputs], b.outputs[: fit.outputs], strict=False)
    return tuple(
        _behaviour(one, two, None if number else a.labels, tolerance) for number, (one, two) in enumerate(shared)
    )


def worst(behaviours: Sequence[Behaviour]) -> Behaviour:
    """The output on which the two agree least."""
    return min(behaviours, key=lambda one: one.agreement)


def agreement_of(a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE) -> float:
    """The agreement on the worst output and no more: a few microseconds a pair, for one against many."""
    check_paired(a, b)
    a, b = translated(a, fit.translation_a), translated(b, fit.translation_b)
    shared = zip(a.outputs[: fit.outputs], b.outputs[: fit.outputs], strict=False)
    return min(float(np.mean(task_named(one.task).agreement(one, two, tolerance))) for one, two in shared)


def translated(signature: Signature, translation: Translation | None) -> Signature:
    """The same answers with the classes of the main output renumbered; `label_score` is of the old numbering and is
    left out."""
    main = signature.main
    top = main.columns.get("top")
    if translation is None or top is None:
        return signature
    if top.max(initial=0) >= len(translation):
        raise ZoolensError(
            f"{signature.run.ref} answers class {int(top.max())} but names only {len(translation)} classes.",
            hint="Correct the labels in its manifest.",
        )
    kept = {name: values for name, values in main.columns.items() if name != "label_score"}
    renumbered = replace(main, columns={**kept, "top": translation[top]})
    return replace(signature, outputs=(renumbered, *signature.outputs[1:]))


def check_paired(a: Signature, b: Signature) -> None:
    """Only answers to the same inputs, in the same order, can be paired."""
    same_data = a.run.dataset.fingerprint == b.run.dataset.fingerprint
    if not same_data or not len(a) or not np.array_equal(a.labels, b.labels):
        raise ZoolensError(
            f"{a.run.ref} and {b.run.ref} were not run on the same inputs.",
            hint="Evaluate both on the same data, --limit and --seed.",
        )


def _behaviour(a: Answers, b: Answers, labels: NDArray[np.int32] | None, tolerance: float) -> Behaviour:
    """`labels`: of the main output; what further ones should answer, the data does not say."""
    task = task_named(a.task)
    agreement, figures = task.agreement(a, b, tolerance), task.figures(a, b)
    scores = None
    if labels is not None and (labels >= 0).any():
        scores = task.scores(a, labels), task.scores(b, labels)
    return Behaviour(
        output=a.output,
        task=a.task,
        n=len(agreement),
        agreeing=counted(agreement),
        identical=identical(a, b),
        l2=figures.l2,
        top5_overlap=figures.top5_overlap,
        accuracy=None if scores is None else _accuracy(*scores),
        relative_l2=figures.relative_l2,
        cosine=figures.cosine if task.directional else None,
    )


def counted(shares: NDArray[np.float64]) -> int | float:
    """The sum of shares between 0 and 1: a count where each is all or nothing."""
    return int(shares.sum()) if is_all_or_nothing(shares) else float(shares.sum())


def is_all_or_nothing(shares: NDArray[np.float64]) -> bool:
    return bool(((shares == 0) | (shares == 1)).all())


def _accuracy(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> Accuracy | None:
    """None where answers are not simply right or wrong."""
    if a is None or b is None or not (is_all_or_nothing(a) and is_all_or_nothing(b)):
        return None
    right_a, right_b = a == 1, b == 1
    return Accuracy(
        right_a=int(np.count_nonzero(right_a)),
        right_b=int(np.count_nonzero(right_b)),
        only_a=int(np.count_nonzero(right_a & ~right_b)),
        only_b=int(np.count_nonzero(right_b & ~right_a)),
        n=len(right_a),
    )


def score_difference(a: NDArray[np.float64], b: NDArray[np.float64], confidence: float) -> Interval:
    """Of how right two models are on the same inputs, B − A. Where answers are simply right or wrong, the interval is
    that of two accuracies; else it is the one of sequences, which holds for any scores between 0 and 1."""
    if (accuracy := _accuracy(a, b)) is not None:
        return paired_difference(accuracy.only_a, accuracy.only_b, accuracy.n, confidence)
    return paired_interval(b - a, 1 - confidence)


def identical(a: Answers, b: Answers) -> float:
    return np.nan if a.digest is None or b.digest is None else float(np.mean(a.digest == b.digest))
