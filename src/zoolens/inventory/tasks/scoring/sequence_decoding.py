"""From scores of each step to a sequence: greedy CTC decoding, and the best path of a linear-chain CRF."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.score import Floats, Integers


def decode_ctc(scores: NDArray[np.floating], blank: int) -> Integers:
    """Symbols of one input, whose scores are steps × symbols: the best of each step, repeats once, without blanks.
    Of equally good symbols the first counts."""
    numbers = _checked(scores, "CTC scores")
    if not 0 <= blank < numbers.shape[1]:
        raise ZoolensError(f"The blank must be one of {numbers.shape[1]} symbols; got {blank}.")
    best = numbers.argmax(axis=1)
    begins = np.ones(len(best), np.bool_)
    begins[1:] = best[1:] != best[:-1]
    return np.asarray(best[begins & (best != blank)], np.int64)


@dataclass(frozen=True)
class Path:
    """`tags`: one a step. `score`: sum of its emissions and transitions."""

    tags: Integers
    score: float


def decode_crf(
    emissions: NDArray[np.floating],
    transitions: NDArray[np.floating],
    start: NDArray[np.floating] | None = None,
    end: NDArray[np.floating] | None = None,
) -> Path:
    """The path of the largest score (Viterbi). `emissions`: steps × tags. `transitions`: from the row's tag to the
    column's. `start`, `end`: of the first and the last tag; None: 0. −∞ forbids. Of equal paths, one is returned that
    has the smallest last tag, then the smallest one before it, and so on."""
    numbers = _checked(emissions, "CRF emissions")
    steps, tags = numbers.shape
    between = _checked(transitions, "CRF transitions")
    edges = [
        np.zeros(tags) if edge is None else _checked(edge[None], "CRF start and end scores")[0] for edge in (start, end)
    ]
    if between.shape != (tags, tags) or any(edge.shape != (tags,) for edge in edges):
        raise ZoolensError(f"A CRF of {tags} tags needs {tags} × {tags} transitions and {tags} start and end scores.")
    if not steps:
        return Path(np.empty(0, np.int64), 0.0)
    score = edges[0] + numbers[0]
    came_from = np.empty((steps - 1, tags), np.int64)
    for step in range(1, steps):
        reached = score[:, None] + between
        came_from[step - 1] = reached.argmax(axis=0)
        score = reached.max(axis=0) + numbers[step]
    return _trace_back(score + edges[1], came_from)


def _trace_back(score: Floats, came_from: Integers) -> Path:
    last = int(score.argmax())
    if score[last] == -np.inf:
        raise ZoolensError("The CRF forbids every path through this input.")
    path = np.empty(len(came_from) + 1, np.int64)
    path[-1] = last
    for step in range(len(came_from) - 1, -1, -1):
        path[step] = came_from[step, path[step + 1]]
    return Path(path, float(score[last]))


def _checked(values: NDArray[np.floating], what: str) -> Floats:
    if values.ndim != 2 or not values.shape[1]:
        raise ZoolensError(f"{what} must be a table with at least one column; got the shape {values.shape}.")
    numbers = values.astype(np.float64)
    # The sum of both infinities is NaN too.
    if not (numbers < np.inf).all():
        raise ZoolensError(f"{what} must be below infinity; one is NaN or infinite.")
    return numbers
