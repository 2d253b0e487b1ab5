"""Answers that are points in a space, judged by how alike the two texts of each pair are, or by retrieval.

Of a pair, the vectors of both texts are kept one behind the other. Two models are compared by these as they are; the
cosine of the two halves is what the true similarity judges. Where similarities are 0 and 1 alone, pairs are the same or
different, and the area under the ROC curve says how well the cosine verifies that.

For retrieval, queries and documents are inputs like any others. A query is judged by where the cosine ranks the
documents that are relevant to it, among all documents of the dataset. Resampling draws queries; documents stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.statistics.resampling import LEAST_INPUTS, Counts
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.regression import CORRELATIONS
from zoolens.inventory.tasks.scoring.number_figures import correlation_figures
from zoolens.inventory.tasks.scoring.rank_correlation import PairedNumbers, pair_numbers
from zoolens.inventory.tasks.scoring.ranked_scores import RankedScores, weighted_areas
from zoolens.inventory.tasks.scoring.retrieval import query_ndcg, random_ndcg, verification_scores
from zoolens.inventory.tasks.task import Answers, Column, Floats, column, taken_answers
from zoolens.inventory.tasks.vectors import Vectors, cosine

if TYPE_CHECKING:
    import pyarrow as pa

    from zoolens.inventory.datasets.truth import Truth

SIMILARITY: Final = "similarity"  # the kind of truth, and its only column
RELEVANCE: Final = "relevance"  # the other kind, and its columns
OWN, DOCUMENTS, GAINS = "own", "documents", "gains"
VERIFICATION: Final = Metric("verification_auc", blind=0.5)
RANKED: Final = 10  # documents of a query that are looked at
_AT_ONCE: Final = 1 << 22  # cosines


class Embedding(Vectors):
    name = "embedding"
    summary = "Points in a space whose directions mean something"
    directional = True
    truth = SIMILARITY
    other_truths = frozenset({RELEVANCE})
    metric = "spearman"
    ragged = frozenset({DOCUMENTS, GAINS})

    def truth_columns(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        relations = {OWN: pa.string(), DOCUMENTS: pa.list_(pa.string()), GAINS: pa.list_(pa.float64())}
        return {SIMILARITY: pa.float64(), **relations}

    def keep_truth(self, truths: Sequence[Truth | None]) -> Mapping[str, Column]:
        alike = [truth if truth is not None and truth.kind == SIMILARITY else None for truth in truths]
        related = [truth if truth is not None and truth.kind == RELEVANCE else None for truth in truths]
        own = np.empty(len(truths), object)
        own[:] = ["" if truth is None else str(truth[OWN][0]) for truth in related]
        nothing = np.empty(0, object)
        return {
            SIMILARITY: np.array([np.nan if truth is None else float(truth[SIMILARITY][0]) for truth in alike]),
            OWN: own,
            DOCUMENTS: Ragged.of([nothing if truth is None else truth[DOCUMENTS] for truth in related], object),
            GAINS: Ragged.of([np.zeros(0) if truth is None else truth[GAINS] for truth in related], np.float64),
        }

    def judgement(self, answers: Answers) -> Judgement:
        """Spearman's and Pearson's correlation of cosines with true similarities, as STS is judged; nDCG of queries."""
        true = np.asarray(answers.truths[SIMILARITY], np.float64)
        if np.isnan(true).any():
            return retrieval(answers)
        cosines = pair_cosines(answers)
        pairs = pair_numbers(cosines, true)
        notes = tuple(_zero_vectors(answers))
        if set(np.unique(true).tolist()) != {0.0, 1.0}:
            return Judgement(CORRELATIONS, lambda weights: correlation_figures(pairs, weights), notes)
        ranked = verification_scores(cosines, true == 1)
        same = int(true.sum())
        notes += (f"{same:,} of {len(true):,} pairs {'is' if same == 1 else 'are'} the same, the others different",)
        return Judgement((*CORRELATIONS, VERIFICATION), lambda weights: _verified(pairs, ranked, weights), notes)

    def show(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        if np.isnan(_similarity(answers, place)):
            return super().show(answers, place, names)
        pair = taken_answers(answers, np.array([place]))
        return f"cosine of the pair {pair_cosines(pair)[0]:.4f}"

    def show_truth(self, answers: Answers, place: int, names: Sequence[str] | None = None) -> str:
        if not np.isnan(alike := _similarity(answers, place)):
            return f"similarity {alike:.4g}"
        if own := answers.truths[OWN][place]:
            return f"the document {own}"
        gains = answers.truths[GAINS][place]
        return f"a query with {int((gains > 0).sum())} relevant documents"


def _similarity(answers: Answers, place: int) -> float:
    """How alike the texts of a pair are; NaN where the input is no pair, or nobody said it."""
    known = answers.truths.get(SIMILARITY)
    return float("nan") if known is None else float(known[place])


def pair_cosines(answers: Answers) -> Floats:
    """The cosine of the vectors of each pair's two texts. A vector of zeros is like nothing, also not like another."""
    first, second = _halves(answers)
    return np.where(first.any(axis=1) & second.any(axis=1), cosine(first, second), 0.0)


def _zero_vectors(answers: Answers) -> Iterator[str]:
    first, second = _halves(answers)
    if zero := int(np.count_nonzero(~(first.any(axis=1) & second.any(axis=1)))):
        yield f"{zero:,} of {len(first):,} pairs have a vector of zeros, whose cosine counts as 0"


def _halves(answers: Answers) -> tuple[Floats, Floats]:
    """The vectors of the first and of the second text of each pair."""
    vectors = np.asarray(column(answers, "vector"), np.float64)
    if vectors.shape[1] % 2:
        raise ZoolensError(f"{answers.output} has {vectors.shape[1]} numbers a pair, not two vectors of one length.")
    half = vectors.shape[1] // 2
    return vectors[:, :half], vectors[:, half:]


def _verified(pairs: PairedNumbers, ranked: RankedScores, weights: Counts) -> Floats:
    _, areas = weighted_areas(ranked, weights.T.astype(np.float64))
    return np.column_stack([correlation_figures(pairs, weights), areas])


# --- retrieval


def retrieval(answers: Answers) -> Judgement:
    """nDCG@10 of the queries, of which each counts as often as it is drawn."""
    values, by_chance, unfound = query_figures(answers)
    judged = np.isfinite(values)
    gains: Ragged = answers.truths[GAINS]
    queries, documents = int(judged.sum()), int(np.sum([len(own) > 0 for own in answers.truths[OWN]]))
    notes = [f"{queries:,} queries, {documents:,} documents"]
    if without := sum(len(row) > 0 and not (row > 0).any() for row in gains):
        notes.append(f"{without:,} queries have no relevant document and do not count")
    if themselves := sum(bool(np.isnan(row).any()) for row in gains):
        notes.append(f"{themselves:,} queries have the id of a document, which is left out of their ranking as in BEIR")
    if unfound:
        notes.append(f"{unfound:,} relevant documents are not among the inputs, and count as never found")
    # Fewer queries than an interval needs inputs: it would rest on them alone, however many documents there are.
    blind = float(by_chance[judged].mean()) if judged.any() else None
    metric = Metric(f"ndcg_at_{RANKED}", interval=queries >= LEAST_INPUTS, blind=blind)
    gained = np.where(judged, values, 0.0)

    def aggregate(weights: Counts) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(weights @ gained / (weights @ judged))[:, None]

    return Judgement((metric,), aggregate, tuple(notes))


def query_figures(answers: Answers) -> tuple[Floats, Floats, int]:
    """nDCG@10 of each input that is a query, NaN of all others and of those without a relevant document; the same of
    documents in random order; and how many relevant documents are not there. A document with a gain of NaN is not
    ranked; if it was also judged as relevant, it counts as never found."""
    own: list[str] = list(answers.truths[OWN])
    wanted: Ragged = answers.truths[DOCUMENTS]
    gains: Ragged = answers.truths[GAINS]
    places = {name: place for place, name in enumerate(name for name in own if name)}
    vectors = np.asarray(column(answers, "vector"), np.float64)
    if not np.isfinite(vectors).all():
        raise ModelError(f"A vector of {answers.output} holds NaN or infinity, so that nothing is ranked by it.")
    units = _units(vectors)
    documents = units[[place for place, name in enumerate(own) if name]]
    (values, by_chance), unfound = np.full((2, len(own)), np.nan), 0
    queries = np.flatnonzero(wanted.lengths > 0)
    step = max(1, _AT_ONCE // max(1, len(documents)))
    for begin in range(0, len(queries), step):
        some = queries[begin : begin + step]
        for query, cosines in zip(some.tolist(), units[some] @ documents.T, strict=True):
            own_gains = list(zip(wanted[query].tolist(), gains[query].tolist(), strict=True))
            unranked = {name for name, gain in own_gains if np.isnan(gain)}
            relevance, missing = np.zeros(len(documents)), []
            for name, gain in own_gains:
                if name in places and name not in unranked:
                    relevance[places[name]] = gain
                elif gain > 0:
                    missing.append(gain)
                    unfound += name not in places
            left_out = [places[name] for name in unranked if name in places]
            if left_out:
                cosines, relevance = np.delete(cosines, left_out), np.delete(relevance, left_out)
            values[query] = query_ndcg(cosines, relevance, RANKED, missing).value
            by_chance[query] = random_ndcg(relevance, RANKED, missing)
    return values, by_chance, unfound


def _units(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
