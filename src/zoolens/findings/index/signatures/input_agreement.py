"""How far two models agree on each input, such that the mean over the inputs is the agreement that an index tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.findings.comparisons.behaviour import pair_answers
from zoolens.findings.index.signatures.vector_agreement import relative_distances
from zoolens.inventory.tasks.task import Answers, column, task_named


def input_agreement(a: Answers, b: Answers) -> NDArray[np.float64]:
    """Numbers from 0 to 1. Of vectors it is 1 − min(1, relative l2): its mean is not below that of an index, which
    takes the minimum of the mean."""
    if not task_named(a.task).searched_by_distance:
        return pair_answers(a, b).agreement
    return _by_distance(a, b)


def least_input_agreement(a: Answers, b: Answers) -> NDArray[np.float64]:
    """What `input_agreement` is at least, of answers of which too little is kept to know it."""
    if not task_named(a.task).searched_by_distance:
        return pair_answers(a, b).least
    return _by_distance(a, b)


def _by_distance(a: Answers, b: Answers) -> NDArray[np.float64]:
    ours, theirs = column(a, "vector"), column(b, "vector")
    if ours.shape != theirs.shape:
        raise ZoolensError(f"The outputs {a.output} and {b.output} do not have answers of the same length.")
    return np.asarray(1 - np.minimum(1.0, relative_distances(ours, theirs)))
