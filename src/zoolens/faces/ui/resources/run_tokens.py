"""/runs/{run}/tokens: texts of language models, token by token.

Each token has a colour: how likely the run found it, or how little two runs agree on it.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from zoolens.base.store.records import MEASURED_KINDS
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, RequestError, RunName, Shown
from zoolens.faces.ui.input_reader import InputState
from zoolens.faces.ui.resources.run_inputs import Place
from zoolens.faces.ui.resources.runs import LONGEST
from zoolens.findings.comparisons.behaviour import check_paired
from zoolens.findings.comparisons.coloured_tokens import (
    agreement_legend,
    compared_tokens,
    likelihood_legend,
    likely_tokens,
    visible,
    words_asked,
    words_of_one,
)
from zoolens.findings.comparisons.signatures import Signature
from zoolens.findings.comparisons.text_disagreements import compared_text
from zoolens.findings.comparisons.token_texts import RunTokenizer
from zoolens.inventory.datasets.previews import LETTERS_OF_WHOLE
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.tasks.foreseen_columns import answered_positions

MOST_TEXTS: Final = 24
MOST_TOKENS: Final = 600  # of a text


def _lines(text: str) -> str:
    kept = (sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return "".join(kept)[: 2 * LETTERS_OF_WHOLE]


Lines = Annotated[str, BeforeValidator(_lines)]


class TokensQuery(Query):
    run: RunName
    other: str = Field("", max_length=LONGEST, description="Another run on the same texts, to be compared with.")
    index: list[Place] = Field([], max_length=MOST_TEXTS, description="The places of the texts, counted from 0.")


class TokenItem(Answer):
    text: Lines
    level: int
    """The colour as a level from 0 to 5, as `legend` has them."""
    other: bool
    """Whether another token was found most likely: than the one that follows, or by the other run."""
    said: Lines
    """What was expected here, in lines."""


class TokenTextItem(Answer):
    """A text in pieces: before the tokens that were to be foreseen, these, and `more` of them that are not listed."""

    index: int
    before: Lines
    tokens: list[TokenItem]
    more: int


class RunTokens(Answer):
    run: str
    other: str
    state: InputState
    """While it is "opening", ask again in a second."""
    sentence: Shown
    """Why there are no texts, or not yet, or why tokens are shown by their numbers."""
    title: Shown
    """What colours stand for."""
    underlined: Shown
    """What an underlined token is."""
    legend: list[Shown]
    """What each level stands for."""
    rows: list[TokenTextItem]
    """Without texts of more than 16,000 characters, and those that two runs split into different tokens."""


def tokens(context: Context, query: TokensQuery) -> RunTokens:
    ours = _foreseen(context, query.run)
    theirs = _foreseen(context, query.other) if query.other else None
    if theirs is not None:
        check_paired(ours, theirs)
    seen = context.inputs.look(ours.run, query.index)
    rows, sentence = [], seen.sentence
    if seen.inputs:
        with closing(RunTokenizer(ours.run)) as tokenizer:
            items = [_text(tokenizer, ours, theirs, shown.index, shown.whole) for shown in seen.inputs]
        rows, sentence = [item for item in items if item is not None], tokenizer.problem
    return RunTokens(
        run=ours.run.id,
        other="" if theirs is None else theirs.run.id,
        state=seen.state,
        sentence=sentence,
        title="Probability of the token that follows" if theirs is None else "1 − agreement on the next token",
        underlined="another token was most likely" if theirs is None else "the most likely tokens differ",
        legend=likelihood_legend() if theirs is None else agreement_legend(),
        rows=rows,
    )


def _foreseen(context: Context, name: str) -> Signature:
    answers = context.answers.answers(context.store.measured_run(name, MEASURED_KINDS))
    if answers.main.task != PREDICTING:
        raise RequestError(f"Run {answers.run.id[:8]} does {answers.main.task}: it foresees no tokens.")
    return answers


def _text(
    tokenizer: RunTokenizer, ours: Signature, theirs: Signature | None, place: int, text: str
) -> TokenTextItem | None:
    """None where the text is too long to be read whole, or where two runs split it into different tokens."""
    if not text:
        return None
    following, kept = answered_positions(ours.main, place)
    split = tokenizer.split(text, following)
    pieces = split.pieces[:MOST_TOKENS]
    if theirs is None:
        shown = likely_tokens(following, kept, pieces, tokenizer.words(words_of_one(following, kept)))
    else:
        at = compared_text(ours.main, theirs.main, place)
        if at is None:
            return None
        shown = compared_tokens(at, pieces, tokenizer.words(words_asked(at)), ("A", "B"))
    items = [TokenItem.of(token) for token in shown]
    return TokenTextItem(index=place, before=visible(split.before), tokens=items, more=len(following) - len(items))


ENDPOINTS: Final = (Endpoint("/runs/{run}/tokens", "Texts of a language model, token by token", tokens),)
