"""Whether a language model works at all: three answers, of which one is that the texts do not tell.

Bits per byte alone do not say it of few texts: what they are compared with, how often each token is, is not known from
a few hundred tokens. Whether the answers belong to their positions can be told, by exchanging them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.significance import sign_flip
from zoolens.findings.audit.doctor.evidence import ALPHA, FEWEST, Evidence
from zoolens.findings.audit.doctor.evidence_figures import JudgedAnswers
from zoolens.findings.audit.doctor.figure_words import FigureWords
from zoolens.findings.audit.doctor.search import found_nothing
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.tasks.foreseen_columns import answered_positions
from zoolens.inventory.tasks.task import Answers

LEAST_TEXTS: Final = 6  # with fewer, no pattern of signs has a probability below 5 %
_RARE: Final = 1.64  # standard deviations of a count, beyond which one in twenty lies


class Works(StrEnum):
    YES = "works"
    NO = "does not work"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class NextTokenSense:
    """Whether a language model works on some texts, and the sentence that says why."""

    works: Works
    sentence: str


@dataclass(frozen=True)
class _Foreseen:
    """Next tokens that are right, and how many would be if answers were exchanged between all positions."""

    right: int
    exchanged: float
    positions: int
    p_value: float  # of the sign flips of texts; 1 where there are no more right ones than when exchanged

    @property
    def more_than_exchanged(self) -> bool:
        """Whether so many right ones would be rare if answers were exchanged: that texts do not prove more, as where
        only a few of them have any, does not say that there is nothing."""
        return self.p_value < ALPHA or self.right > self.exchanged + _RARE * math.sqrt(max(self.exchanged, 1.0))

    @property
    def words(self) -> str:
        return (
            f"{self.right:,} of {self.positions:,} next tokens are right, and {self.exchanged:,.1f} would be if its "
            "answers were exchanged between positions"
        )


def next_token_sense(evidence: Evidence, noun: str, *, corrected: bool = False) -> NextTokenSense | None:
    """None for models that are no language models, or that cannot run. `corrected`: the evidence is that of another
    variant than the declared one."""
    figure = evidence.figure
    if not isinstance(figure, JudgedAnswers) or figure.answers.task != PREDICTING:
        return None
    found = _foreseen(figure.answers)
    metric = figure.metric
    figures = FigureWords(metric.name, metric.unit)
    bits = f"{metric.name} is {figures.value(evidence.value)}"
    if metric.blind is not None:
        bits += f", and {figures.value(metric.blind)} for answers that know only how often each token is there"
    if evidence.n < LEAST_TEXTS:
        sentence = (
            f"Whether the model works cannot be told from {_count(evidence.n, noun)}: {found.words}, but {LEAST_TEXTS} "
            f"{noun} are the fewest that can show that this is no chance ({bits})."
        )
        return NextTokenSense(Works.UNKNOWN, sentence)
    facts = f"{found.words} (p = {found.p_value:.2g} over {evidence.n:,} {noun}); {bits}"
    model = "As corrected the model" if corrected else "The model"
    depends, nothing = found.p_value < ALPHA, found_nothing(evidence)
    if depends and not nothing:
        return NextTokenSense(Works.YES, f"{model} works on these {noun}: {facts}.")
    if not found.more_than_exchanged and nothing and evidence.n >= FEWEST:
        return NextTokenSense(Works.NO, f"{model} does not work on these {noun}: {facts}.")
    return NextTokenSense(Works.UNKNOWN, f"Whether the model works cannot be told from these {noun}: {facts}.")


def _count(number: int, noun: str) -> str:
    return f"one {noun.removesuffix('s')}" if number == 1 else f"{number:,} {noun}"


def _foreseen(answers: Answers) -> _Foreseen:
    following, best = zip(*(_of_text(answers, place) for place in range(len(answers))), strict=True)
    every = np.concatenate(following)
    if not len(every):
        return _Foreseen(0, 0.0, 0, 1.0)
    numbers, times = np.unique(np.concatenate(best), return_counts=True)
    right = np.array([np.count_nonzero(a == b) for a, b in zip(following, best, strict=True)], np.float64)
    exchanged = np.array([_times(text, numbers, times).sum() / len(every) for text in following])
    more = right - exchanged
    p_value = sign_flip(more)[0] if more.sum() > 0 else 1.0
    return _Foreseen(int(right.sum()), float(exchanged.sum()), len(every), p_value)


def _of_text(answers: Answers, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens that follow in a text, and those that the model finds most likely there."""
    following, kept = answered_positions(answers, place)
    return following.astype(np.int64), kept.ids[:, 0].astype(np.int64)


def _times(tokens: NDArray[np.int64], numbers: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each of these tokens is the most likely one, over all positions of all texts."""
    places = np.minimum(np.searchsorted(numbers, tokens), len(numbers) - 1)
    return np.where(numbers[places] == tokens, times[places], 0)
