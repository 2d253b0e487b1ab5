"""Answers that are classes: the best few with their probabilities. The best class is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.statistics.intervals import Interval
from zoolens.inventory.tasks.pair_figures import UNKNOWN, PairFigures
from zoolens.inventory.tasks.probabilities import TOP, probability_distance
from zoolens.inventory.tasks.task import TOLERANCE, Answers, Floats, Task, column

if TYPE_CHECKING:
    import pyarrow as pa

_SCORED: Final = ("score", "sum_squares", "digest")  # which networks that were trained here do not have


class Classification(Task):
    name = "classification"
    summary = "One of several classes"
    discrete = True
    graded = False
    judged = True
    metric = "top1"
    unit = "classes"

    def columns(self, *, main: bool) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        of_labels = {"label_score": pa.float32()} if main else {}  # the probability of the true class
        return {
            "top": pa.list_(pa.int32(), -1),  # best classes, best first
            "score": pa.list_(pa.float32(), -1),  # their probabilities
            **of_labels,
            # Over all probabilities: the Brier score needs it.
            "sum_squares": pa.float32(),
        }

    def keep(self, values: NDArray[np.float32], labels: NDArray[Any] | None) -> Mapping[str, NDArray[Any]]:
        classes, rows = values.shape[1], np.arange(len(values))
        top = best_classes(values, min(TOP, classes))
        columns: dict[str, NDArray[Any]] = {
            "top": top.astype(np.int32),
            "score": values[rows[:, None], top],
            "sum_squares": np.einsum("ij,ij->i", values, values),
        }
        if labels is None:
            return columns
        if labels.max(initial=0) >= classes:
            raise ModelError(
                f"The dataset has class {int(labels.max())} but the model has only the classes 0 to {classes - 1}.",
                hint="Is it the right dataset? A label_map in the manifest translates between class orders.",
            )
        # Without a label: unknown.
        score = np.where(labels >= 0, values[rows, np.maximum(labels, 0)], np.nan)
        return {**columns, "label_score": score.astype(np.float32)}

    def agreement(self, a: Answers, b: Answers, tolerance: float = TOLERANCE) -> Floats:
        return np.asarray(best(a) == best(b), np.float64)

    def signature(self, answers: Answers) -> NDArray[Any]:
        return best(answers)

    def scores(self, answers: Answers, labels: NDArray[Any]) -> Floats | None:
        return np.asarray(best(answers) == labels, np.float64)

    def figures(self, a: Answers, b: Answers) -> PairFigures:
        ours, theirs = column(a, "top"), column(b, "top")
        l2 = UNKNOWN
        if all(name in side.columns for side in (a, b) for name in _SCORED):
            low, high = probability_distance(a, b)
            l2 = Interval(float(low.mean()), float(high.mean()))
        overlap = float((ours[:, :, None] == theirs[:, None, :]).any(axis=2).mean())
        return PairFigures(l2, top5_overlap=overlap)

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        answer = int(best(answers)[place])
        name = names[answer] if names and answer < len(names) else f"class {answer}"
        score = answers.columns.get("score")
        return name if score is None else f"{name} ({100 * score[place, 0]:.0f} %)"


def best(answers: Answers) -> NDArray[np.int32]:
    """The class that is answered to each input."""
    return column(answers, "top")[:, 0]


def best_classes(probabilities: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Indices of the k largest per row, best first; ties go to the lower class, so that ranks are repeatable.

    The bits of floats sort like the floats once negative ones are flipped. Value above, class below, in one integer:
    no ties are left, and a partition (far cheaper than a sort of 1,000 classes) is exact.
    """
    classes = probabilities.shape[1]
    scores = np.ascontiguousarray(probabilities, np.float32) + np.float32(0)  # −0.0 becomes 0.0
    bits = scores.view(np.uint32)
    sign = np.uint32(0x80000000)
    ordered = np.where(bits & sign, ~bits, bits | sign)
    keys = ordered.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(classes - 1, -1, -1, dtype=np.uint64)
    chosen = np.argpartition(keys, classes - k, axis=1)[:, classes - k :]
    order = np.argsort(np.take_along_axis(keys, chosen, axis=1), axis=1)[:, ::-1]
    return np.take_along_axis(chosen, order, axis=1)
