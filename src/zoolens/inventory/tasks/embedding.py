"""Answers that are points in a space, judged by how alike the two texts of each pair are.

Of a pair, the vectors of both texts are kept one behind the other. Two models are compared by these as they are; the
cosine of the two halves is what the true similarity judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.judgement import Judgement
from zoolens.inventory.tasks.regression import CORRELATIONS
from zoolens.inventory.tasks.scoring.number_figures import correlation_figures
from zoolens.inventory.tasks.scoring.rank_correlation import pair_numbers
from zoolens.inventory.tasks.task import Answers, Column, Floats, column, taken_answers
from zoolens.inventory.tasks.vectors import Vectors, cosine

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth

SIMILARITY: Final = "similarity"  # the kind of truth, and its only column


class Embedding(Vectors):
    name = "embedding"
    summary = "Points in a space whose directions mean something"
    directional = True
    truth = SIMILARITY
    metric = "spearman"

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {SIMILARITY: pa.float64()}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        numbers = [np.nan if truth is None else float(truth[SIMILARITY][0]) for truth in truths]
        return {SIMILARITY: np.array(numbers, np.float64)}

    def judgement(self, answers: Answers) -> Judgement:
        """Spearman's and Pearson's correlation of cosines with true similarities, as STS is judged."""
        pairs = pair_numbers(pair_cosines(answers), np.asarray(answers.truths[SIMILARITY], np.float64))
        return Judgement(CORRELATIONS, lambda weights: correlation_figures(pairs, weights))

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        if not answers.truths:
            return super().show(answers, place, names)
        pair = taken_answers(answers, np.array([place]))
        return f"cosine of the pair {pair_cosines(pair)[0]:.4f}"

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        return f"similarity {answers.truths[SIMILARITY][place]:.4g}"


def pair_cosines(answers: Answers) -> Floats:
    """The cosine of the vectors of each pair's two texts."""
    vectors = np.asarray(column(answers, "vector"), np.float64)
    if vectors.shape[1] % 2:
        raise ZoolensError(f"{answers.output} has {vectors.shape[1]} numbers a pair, not two vectors of one length.")
    half = vectors.shape[1] // 2
    return cosine(vectors[:, :half], vectors[:, half:])
