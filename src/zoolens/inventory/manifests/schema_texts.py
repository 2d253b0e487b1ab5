"""The steps of a manifest that turn numbers of tokens into tags of words or an answer, symbols into a text, and scores
of tokens into what is kept of a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from zoolens.inventory.manifests.part import MAX_EXTENT, Part

TAGGING: Final = "token-classification"
ANSWERING: Final = "question-answering"
RECOGNISING: Final = "text-recognition"
PREDICTING: Final = "language-model"
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


class CtcDecode(Part):
    """Greedy CTC decoding: the best symbol of each step, of which repeats count once and blanks are left out."""

    op: Literal["ctc"]
    blank: int = Field(
        default=0, ge=-1, le=MAX_EXTENT, description="Place of the blank among the symbols of the tensor; -1: the last."
    )
    layout: Literal["NTC", "NCT"] = Field(
        default="NTC", description="Axes of the tensor: inputs, steps and symbols. Of TNC, say batch_axis: 1."
    )
    alphabet: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_EXTENT,
        description="The characters in the tensor's order, without the blank; instead of labels or labels_file.",
    )
    use_space_char: bool = Field(
        default=False, description="A space follows the labels as a symbol of its own, as in PaddleOCR."
    )
    word_delimiter: str | None = Field(default=None, description="The symbol that stands for a space, such as '|'.")
    skip: tuple[str, ...] = Field(default=(), description="Symbols that no text has, such as <s> and <unk>.")
    case: Literal["keep", "lower", "upper"] = Field(
        default="keep", description="What is done to the letters of an answer before it is kept."
    )
    beam: int = Field(default=1, description="Only 1: the best symbol of each step.")

    @model_validator(mode="after")
    def _greedy(self) -> Self:
        if self.beam != 1:
            raise ValueError("prefix beam search is not done: leave beam out for greedy decoding")
        return self


class NextTokens(Part):
    """How much is kept of each distribution over the next token."""

    op: Literal["next_tokens"]
    top: int = Field(default=20, ge=1, le=1000, description="How many of the most likely tokens are kept.")


TextStep = Viterbi | Subwords | AnswerSpan | CtcDecode | NextTokens
_OWNERS: Final = {
    "viterbi": TAGGING,
    "subwords": TAGGING,
    "span": ANSWERING,
    "ctc": RECOGNISING,
    "next_tokens": PREDICTING,
}


def check_text_steps(task: str, steps: Sequence[object]) -> None:
    """ValueError where a step belongs to another task."""
    for step in steps:
        if isinstance(step, TextStep) and task != _OWNERS[step.op]:
            raise ValueError(f"{step.op} is for task: {_OWNERS[step.op]}, not for task: {task}")
