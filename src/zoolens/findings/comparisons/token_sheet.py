"""Contested texts as one page: every token is coloured by how little the models agree on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from markupsafe import Markup, escape

from zoolens.base.present.pages import render
from zoolens.findings.comparisons.coloured_tokens import (
    ColouredToken,
    agreement_legend,
    compared_tokens,
    visible,
    words_asked,
)
from zoolens.findings.comparisons.origins import open_inputs
from zoolens.findings.comparisons.text_disagreement_words import text_words
from zoolens.findings.comparisons.text_disagreements import ContestedText, TextDisagreements
from zoolens.findings.comparisons.token_texts import RunTokenizer, TokenText

MOST_TOKENS: Final = 2_000  # of a text that are shown; the page has some 300 bytes for each
_TOKEN: Final = Markup('<span class="{}" data-said="{}">{}</span>')


def token_sheet(found: TextDisagreements) -> str:
    """The page. The data are opened again where the run found them; refused where they have changed."""
    with closing(open_inputs(found.run)) as dataset, closing(RunTokenizer(found.run)) as tokenizer:
        texts = [(text, dataset.read(text.index).value.item()) for text in found.inputs]
        split = [tokenizer.split(content, text.at.following) for text, content in texts]
        words = tokenizer.words([number for text in found.inputs for number in words_asked(text.at)])
        problem = tokenizer.problem
    told = text_words(found)
    letters = [letter for letter, _ in told.panel]
    return render(
        "tokensheet.html",
        title=f"Where {found.panel[0].name} and its nearest equivalents disagree",
        headline=told.headline,
        panel=list(told.panel),
        legend=list(enumerate(agreement_legend())),
        notes=[*([problem] if problem else []), *found.notes],
        cards=[_card(text, tokens, words, letters) for text, tokens in zip(found.inputs, split, strict=True)],
    )


def _card(text: ContestedText, tokens: TokenText, words: Mapping[int, str], letters: Sequence[str]) -> dict[str, Any]:
    left_out = max(0, text.positions - MOST_TOKENS)
    shown = compared_tokens(text.at, tokens.pieces[: text.positions - left_out], words, letters)
    return {
        "input": text.input,
        "figures": f"{text.positions:,} tokens, mean agreement {100 * text.agreement:.2f} %, KL {text.divergence:.4f} "
        f"nats; at {text.differing:,} not all find the same token most likely",
        "before": escape(visible(tokens.before)),
        "tokens": Markup().join(map(_token, shown)),
        "behind": escape("" if left_out else visible(tokens.behind)),
        "left_out": left_out,
    }


def _token(token: ColouredToken) -> Markup:
    kind = f"t{token.level} other" if token.other else f"t{token.level}"
    return _TOKEN.format(kind, token.said, token.text)
