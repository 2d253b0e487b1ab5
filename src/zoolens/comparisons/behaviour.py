"""How alike two runs behave on the same inputs, from their signatures alone: nothing is run.

Classifiers agree on an input where their best class is the same. Other outputs agree where the vectors lie within a
relative l2 distance (`tolerance`) of each other. Of several outputs the worst counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.comparisons.compatibility import Compatibility
from zoolens.comparisons.distances import probability_distance
from zoolens.comparisons.signatures import Answers, Signature
from zoolens.errors import ZoolensError
from zoolens.measure.tasks import CLASSIFICATION
from zoolens.measure.vectors import TOLERANCE, cosine, relative_distance
from zoolens.preprocess.classes import Translation
from zoolens.statistics.intervals import Interval

EMBEDDING: Final = "embedding"


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
    agreeing: int
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
    return tuple(
        _classes(one, two, a.labels, main=not number) if one.task == CLASSIFICATION else _vectors(one, two, tolerance)
        for number, (one, two) in enumerate(zip(a.outputs[: fit.outputs], b.outputs[: fit.outputs], strict=False))
    )


def worst(behaviours: Sequence[Behaviour]) -> Behaviour:
    """The output on which the two agree least."""
    return min(behaviours, key=lambda one: one.agreement)


def agreement_of(a: Signature, b: Signature, fit: Compatibility, *, tolerance: float = TOLERANCE) -> float:
    """The agreement on the worst output and no more: a few microseconds a pair, for one against many."""
    check_paired(a, b)
    a, b = translated(a, fit.translation_a), translated(b, fit.translation_b)
    shared = zip(a.outputs[: fit.outputs], b.outputs[: fit.outputs], strict=False)
    return min(float(np.mean(_same(one, two, tolerance))) for one, two in shared)


def translated(signature: Signature, translation: Translation | None) -> Signature:
    """The same answers with the classes of the main output renumbered; `label_score` is of the old numbering and is
    left out."""
    main = signature.main
    if translation is None or main.top is None:
        return signature
    if main.top.max(initial=0) >= len(translation):
        raise ZoolensError(
            f"{signature.run.ref} answers class {int(main.top.max())} but names only {len(translation)} classes.",
            hint="Correct the labels in its manifest.",
        )
    renumbered = replace(main, top=translation[main.top], label_score=None)
    return replace(signature, outputs=(renumbered, *signature.outputs[1:]))


def check_paired(a: Signature, b: Signature) -> None:
    """Only answers to the same inputs, in the same order, can be paired."""
    same_data = a.run.dataset.fingerprint == b.run.dataset.fingerprint
    if not same_data or not len(a) or not np.array_equal(a.labels, b.labels):
        raise ZoolensError(
            f"{a.run.ref} and {b.run.ref} were not run on the same inputs.",
            hint="Evaluate both on the same data, --limit and --seed.",
        )


def _same(a: Answers, b: Answers, tolerance: float) -> NDArray[np.bool_]:
    if a.top is not None and b.top is not None:
        return np.asarray(a.top[:, 0] == b.top[:, 0])
    return np.asarray(relative_distance(*_pair(a, b)) <= tolerance)


def _classes(a: Answers, b: Answers, labels: NDArray[np.int32], *, main: bool) -> Behaviour:
    assert a.top is not None
    assert b.top is not None
    n = len(labels)
    low, high = probability_distance(a, b) if a.score is not None and b.score is not None else (np.full(1, np.nan),) * 2
    return Behaviour(
        output=a.output,
        task=a.task,
        n=n,
        agreeing=int(np.count_nonzero(a.top[:, 0] == b.top[:, 0])),
        identical=_identical(a, b),
        l2=Interval(float(low.mean()), float(high.mean())),
        top5_overlap=float((a.top[:, :, None] == b.top[:, None, :]).any(axis=2).mean()),
        # Labels are those of the main output; what further ones should answer, the data does not say.
        accuracy=_accuracy(a.top[:, 0] == labels, b.top[:, 0] == labels) if main and (labels >= 0).any() else None,
    )


def _accuracy(right_a: NDArray[np.bool_], right_b: NDArray[np.bool_]) -> Accuracy:
    return Accuracy(
        right_a=int(np.count_nonzero(right_a)),
        right_b=int(np.count_nonzero(right_b)),
        only_a=int(np.count_nonzero(right_a & ~right_b)),
        only_b=int(np.count_nonzero(right_b & ~right_a)),
        n=len(right_a),
    )


def _vectors(a: Answers, b: Answers, tolerance: float) -> Behaviour:
    ours, theirs = _pair(a, b)
    distance = float(np.linalg.norm(ours - theirs, axis=1).mean())
    relative = relative_distance(ours, theirs)
    return Behaviour(
        output=a.output,
        task=a.task,
        n=len(ours),
        agreeing=int(np.count_nonzero(relative <= tolerance)),
        identical=_identical(a, b),
        l2=Interval(distance, distance),
        relative_l2=float(relative.mean()),
        cosine=float(cosine(ours, theirs).mean()) if a.task == EMBEDDING else None,
    )


def _identical(a: Answers, b: Answers) -> float:
    return np.nan if a.digest is None or b.digest is None else float(np.mean(a.digest == b.digest))


def _pair(a: Answers, b: Answers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if a.vectors is None or b.vectors is None or a.vectors.shape != b.vectors.shape:
        raise ZoolensError(
            f"The outputs {a.output} and {b.output} do not have answers of the same length.",
            hint="Compare models that answer alike.",
        )
    return a.vectors.astype(np.float64), b.vectors.astype(np.float64)
