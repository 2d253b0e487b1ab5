"""The sides of one trial on the same test samples: how much more often one is right, and whether that is chance.

Such a test knows these two trained networks and these images, and nothing of other seeds: `noise` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import paired_difference
from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import kept_labels
from zoolens.training.crosstrain.training.kept_weights import filed_answers
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial


@dataclass(frozen=True)
class SidePair:
    """How far two sides of a trial are apart."""

    a: str
    b: str
    difference: float  # accuracy of b minus that of a
    churn: float | None = None
    # Where answers or labels were not kept, none of the following is known.
    low: float | None = None
    high: float | None = None
    p_value: float | None = None  # exact McNemar
    only_a: int | None = None  # samples that only a has right
    only_b: int | None = None


def paired_sides(store: Store, trial: Trial) -> tuple[SidePair, ...]:
    """Every pair that has both accuracies."""
    return tuple(_pairs(store, trial))


def _pairs(store: Store, trial: Trial) -> Iterator[SidePair]:
    right = {side.framework: correct for side in trial.sides if (correct := _right(store, side)) is not None}
    for a, b in trial.pairs:
        if a.accuracy is None or b.accuracy is None:
            continue
        names = a.framework, b.framework
        churn = trial.churn.get(names, trial.churn.get(names[::-1]))
        plain = SidePair(*names, b.accuracy - a.accuracy, churn)
        both = names[0] in right and names[1] in right
        yield _tested(plain, right[names[0]], right[names[1]]) if both else plain


def _right(store: Store, side: TrainedSide) -> NDArray[np.bool_] | None:
    answers = None if side.run is None else filed_answers(store, side.run)
    labels = None if answers is None else kept_labels(store, store.run(str(side.run)).dataset)
    return None if answers is None or labels is None or len(answers) != len(labels) else answers == labels


def _tested(plain: SidePair, right_a: NDArray[np.bool_], right_b: NDArray[np.bool_]) -> SidePair:
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    low, high = paired_difference(only_a, only_b, len(right_a))
    p_value = exact_mcnemar(only_a, only_b)
    return SidePair(plain.a, plain.b, plain.difference, plain.churn, low, high, p_value, only_a, only_b)
