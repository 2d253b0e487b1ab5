"""The steps of a manifest that turn numbers of tokens into tags of words, or into a span that answers a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from zoolens.inventory.manifests.part import MAX_EXTENT, Part

TAGGING: Final = "token-classification"
ANSWERING: Final = "question-answering"
_MOST_TAGS: Final = 1000


class Viterbi(Part):
    """The best path of a linear-chain CRF instead of the best tag of each token."""

    op: Literal["viterbi"]
    transitions: tuple[tuple[float, ...], ...] = Field(
        description="Scores from the row's tag to the column's, in the order of labels; -.inf forbids."
    )
    start: tuple[float, ...] | None = Field(default=None, description="Score of each tag as the first one.")
    end: tuple[float, ...] | None = Field(default=None, description="Score of each tag as the last one.")

    @model_validator(mode="after")
    def _square(self) -> Self:
        tags = len(self.transitions)
        rows = [*self.transitions, *(row for row in (self.start, self.end) if row is not None)]
        if not 1 <= tags <= _MOST_TAGS or any(len(row) != tags for row in rows):
            raise ValueError("transitions is a square of as many rows and columns as there are labels")
        if any(not score < float("inf") for row in rows for score in row):
            raise ValueError("a score of transitions is NaN or infinite")
        return self


class Subwords(Part):
    """Which token's answer counts for a word that has several."""

    op: Literal["subwords"]
    take: Literal["first", "last"] = "first"


class AnswerSpan(Part):
    """How the best span is chosen from the scores of its first and of its last token."""

    op: Literal["span"]
    longest: int = Field(default=30, ge=1, le=MAX_EXTENT, description="The most tokens of an answer.")
    no_answer: bool = Field(
        default=False,
        description="Answer nothing where the first token of the input scores higher than the best span.",
    )


TextStep = Viterbi | Subwords | AnswerSpan


def check_text_steps(task: str, steps: Sequence[object]) -> None:
    """ValueError where a step belongs to another task."""
    for step in steps:
        owner = ANSWERING if isinstance(step, AnswerSpan) else TAGGING
        if isinstance(step, TextStep) and task != owner:
            raise ValueError(f"{step.op} is for task: {owner}, not for task: {task}")
