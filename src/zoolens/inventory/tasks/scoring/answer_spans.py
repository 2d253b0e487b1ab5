"""Extractive question answering: exact match and F1 as SQuAD's evaluation scripts compute them, and the best span.

Version 1.1 expects an answer to each question. Version 2.0 has questions without one, for which the empty text is the
right answer. The two scripts differ where a text has no words left after normalisation: F1 of two such texts is 0 in
version 1.1 and 1 in version 2.0.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.score import Flags, Floats, MeanScore, checked_weights, weighted_mean

Version = Literal[1, 2]

_COMMON: Final = 0.02  # of the questions
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and repeated white space, in SQuAD's order."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", plain).split())


@dataclass(frozen=True)
class AnswerParts:
    """One row an input. `answerable`: the question has a reference answer."""

    exact: Floats
    f1: Floats
    answerable: Flags


class _Judgement(NamedTuple):
    exact: bool
    f1: float
    answerable: bool


def answer_parts(answers: Sequence[str], references: Sequence[Sequence[str]], version: Version = 2) -> AnswerParts:
    """The best exact match and the best F1 of each answer over its references. No reference means: no answer."""
    if len(answers) != len(references):
        raise ZoolensError(f"There are {len(answers)} answers but references for {len(references)} questions.")
    judged = [_judge(*pair, version) for pair in zip(answers, references, strict=True)]
    return AnswerParts(
        np.array([one.exact for one in judged], np.float64),
        np.array([one.f1 for one in judged], np.float64),
        np.array([one.answerable for one in judged], np.bool_),
    )


def best_constant_f1(references: Sequence[Sequence[str]], version: Version = 2) -> float:
    """The mean F1 of answering every question alike: with nothing, or with the commonest true answer."""
    nothing = float(np.mean([not any(map(normalize_answer, texts)) for texts in references])) if version == 2 else 0.0
    counts = Counter(text for texts in references for text in {normalize_answer(text) for text in texts} if text)
    commonest, times = max(counts.items(), key=lambda item: item[1], default=("", 0))
    # Of an answer that few questions have, words in common with other answers add little, and take long to count.
    if times <= _COMMON * len(references):
        return max(nothing, times / len(references))
    return max(nothing, float(answer_parts([commonest] * len(references), references, version).f1.mean()))


def _judge(answer: str, references: Sequence[str], version: Version) -> _Judgement:
    true = [normalize_answer(reference) for reference in references]
    if version == 2:
        true = [text for text in true if text] or [""]
    elif not true:
        raise ZoolensError(
            "A question has no reference answer, which SQuAD 1.1 does not allow.", hint="Score it as version 2.0."
        )
    ours = normalize_answer(answer)
    words = Counter(ours.split())
    return _Judgement(ours in true, max(_f1(words, Counter(text.split()), version) for text in true), bool(references))


def _f1(ours: Counter[str], true: Counter[str], version: Version) -> float:
    if version == 2 and not (ours and true):
        return float(ours == true)
    common = (ours & true).total()
    if not common:
        return 0.0
    precision, recall = common / ours.total(), common / true.total()
    return 2 * precision * recall / (precision + recall)


def exact_match(parts: AnswerParts, weights: ArrayLike | None = None) -> MeanScore:
    return weighted_mean(parts.exact, weights, "")


def answer_f1(parts: AnswerParts, weights: ArrayLike | None = None) -> MeanScore:
    return weighted_mean(parts.f1, weights, "")


def f1_of_answerable(parts: AnswerParts, weights: ArrayLike | None = None) -> MeanScore:
    """SQuAD's HasAns_f1."""
    return _mean_of(parts.f1, parts.answerable, weights, "No question has an answer.")


def f1_of_unanswerable(parts: AnswerParts, weights: ArrayLike | None = None) -> MeanScore:
    """SQuAD's NoAns_f1."""
    return _mean_of(parts.f1, ~parts.answerable, weights, "Each question has an answer.")


def _mean_of(values: Floats, chosen: Flags, weights: ArrayLike | None, reason: str) -> MeanScore:
    checked_weights(weights, len(values))
    return weighted_mean(np.where(chosen, values, np.nan), weights, reason)


class Span(NamedTuple):
    """`first` and `last`: places of tokens, both inclusive. `score`: sum of both logits."""

    first: int
    last: int
    score: float


def best_span(
    starts: NDArray[np.floating], ends: NDArray[np.floating], longest: int, permitted: NDArray[np.bool_] | None = None
) -> Span | None:
    """The span of at most `longest` tokens with the largest sum of start and end logit; of equal ones, the first.
    `permitted`: tokens at which a span may start and end, those of the context; None: all. None: there is no span."""
    if starts.ndim != 1 or starts.shape != ends.shape:
        raise ZoolensError(f"Start and end logits must be rows of one length; got {starts.shape} and {ends.shape}.")
    if longest < 1:
        raise ZoolensError(f"The longest answer must have at least 1 token; got {longest}.")
    first, last = starts.astype(np.float64), ends.astype(np.float64)
    # The sum of both infinities is NaN too.
    if not (np.maximum(first, last) < np.inf).all():
        raise ZoolensError("A start or end logit is NaN or infinite, so that no best answer exists.")
    if permitted is not None:
        first, last = np.where(permitted, first, -np.inf), np.where(permitted, last, -np.inf)
    best: Span | None = None
    # One pass for each length: memory stays that of one row.
    for length in range(min(longest, len(first))):
        sums = first[: len(first) - length] + last[length:]
        place = int(np.argmax(sums))
        found = Span(place, place + length, float(sums[place]))
        if best is None or (found.score, -found.first) > (best.score, -best.first):
            best = found
    return best if best is not None and best.score > -np.inf else None
