"""Answers that are vectors of numbers: embeddings, regressions, and outputs whose meaning is not known.

Two vectors count as the same answer where they lie within a relative l2 distance of each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.documents import AnswerClasses, shortest
from zoolens.inventory.tasks.pair_figures import PairFigures
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Floats, Task, column

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 4  # numbers of a vector


class Vectors(Task):
    name = "other"
    summary = "Numbers whose meaning is not known"
    graded = False  # within a tolerance, or not
    searched_by_distance = True

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {"vector": pa.list_(pa.float32(), -1)}

    def keep(self, values: NDArray[np.float32], labels: NDArray[Any] | None) -> Mapping[str, NDArray[Any]]:
        return {"vector": values}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        return np.asarray(relative_distance(*_pair(a, b)) <= tolerance, np.float64)

    def agreement_name(self, tolerance: float = TOLERANCE) -> str:
        return f"within {100 * tolerance:g} % (l2)"

    def signature(self, answers: Answers) -> NDArray[Any]:
        return column(answers, "vector")

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        ours, theirs = _pair(a, b)
        distance, relative = float(np.linalg.norm(ours - theirs, axis=1).mean()), relative_distance(ours, theirs)
        return PairFigures(
            l2=Interval(distance, distance),
            relative_l2=float(relative.mean()),
            median_relative_l2=float(np.median(relative)),
            max_relative_l2=float(relative.max(initial=0)),
            cosine=float(cosine(ours, theirs).mean()),
        )

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return shown_vector(column(answers, "vector")[place])

    def document(self, answers: Answers, place: int, classes: AnswerClasses, sample: Any = None) -> Any:
        return {"values": shortest(column(answers, "vector")[place])}


def shown_vector(vector: NDArray[Any]) -> str:
    """The first numbers of a vector, on one line."""
    more = ", …" if len(vector) > _SHOWN else ""
    return f"[{', '.join(f'{value:.4g}' for value in vector[:_SHOWN])}{more}]"


def relative_distance(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """|a − b| / |a|: 0 where both are 0, infinite where only a is."""
    distance = np.linalg.norm(a - b, axis=1)
    size = np.linalg.norm(a, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / size)


def cosine(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Returns the cosine similarity of each pair of rows; 1 where both are zero."""
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products = np.einsum("ij,ij->i", a, b)
    equal = (a == b).all(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(sizes > 0, products / sizes, equal))


def _pair(a: Answers, b: Answers) -> tuple[Floats, Floats]:
    ours, theirs = column(a, "vector"), column(b, "vector")
    if ours.shape != theirs.shape:
        raise ZoolensError(
            f"The outputs {a.output} and {b.output} do not have answers of the same length.",
            hint="Compare models with outputs of the same length.",
        )
    return ours.astype(np.float64), theirs.astype(np.float64)
