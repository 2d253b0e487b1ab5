"""Contested texts as one page: every token is coloured by how little the models agree on it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final

from markupsafe import Markup, escape

from zoolens.base.present.pages import render
from zoolens.findings.comparisons.text_disagreement_page import member_lines, text_headline
from zoolens.findings.comparisons.text_disagreements import ContestedText, TextDisagreements, TextPositions
from zoolens.findings.comparisons.token_texts import TokenText, TokenTexts

MOST_TOKENS: Final = 2_000  # of a text that are shown; the page has some 300 bytes for each
LEVELS: Final = (0.02, 0.05, 0.1, 0.2, 0.4)  # of 1 − agreement: where the next colour begins
_SIGNS: Final = {"\n": "↵\n", "\t": "⇥\t", "\r": "␍"}
_LONGEST: Final = 60  # characters of a token in words
_PART: Final = "·"  # a token that holds only a part of the character before it
_TOKEN: Final = Markup('<span class="{}" data-said="{}">{}</span>')


def token_sheet(found: TextDisagreements) -> str:
    """The page. The data are opened again where the run found them; refused where they have changed."""
    with closing(TokenTexts(found.run)) as texts:
        split = [texts.of(text.index, text.at.following) for text in found.inputs]
        asked = [int(number) for text in found.inputs for number in (*text.at.following, *text.at.best.flat)]
        words = {number: _named(word) for number, word in texts.words(asked).items()}
        problem = texts.problem
    letters = [letter for letter, _ in member_lines(found)]
    return render(
        "tokensheet.html",
        title=f"Where {found.panel[0].name} and its nearest equivalents disagree",
        headline=text_headline(found),
        panel=list(member_lines(found)),
        legend=list(_legend()),
        notes=[*([problem] if problem else []), *found.notes],
        cards=[_card(text, tokens, words, letters) for text, tokens in zip(found.inputs, split, strict=True)],
    )


def _legend() -> list[tuple[int, str]]:
    """The number of each colour, and what it stands for."""
    ends = [f"{100 * level:g} %" for level in LEVELS]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return list(enumerate([f"below {ends[0]}", *between, f"{ends[-1]} and more"]))


def _card(text: ContestedText, tokens: TokenText, words: Mapping[int, str], letters: Sequence[str]) -> dict[str, Any]:
    left_out = max(0, text.positions - MOST_TOKENS)
    shown = [_token(text.at, place, tokens.pieces[place], words, letters) for place in range(text.positions - left_out)]
    return {
        "input": text.input,
        "figures": f"{text.positions:,} tokens, mean agreement {100 * text.agreement:.2f} %, KL {text.divergence:.4f} "
        f"nats; at {text.differing:,} not all find the same token most likely",
        "before": escape(_visible(tokens.before)),
        "tokens": Markup().join(shown),
        "behind": escape("" if left_out else _visible(tokens.behind)),
        "left_out": left_out,
    }


def _token(at: TextPositions, place: int, piece: str, words: Mapping[int, str], letters: Sequence[str]) -> Markup:
    level = bisect_right(LEVELS, 1 - float(at.agreement[place]))
    differs = bool((at.best[:, place] != at.best[0, place]).any())
    kind = f"t{level} other" if differs else f"t{level}"
    return _TOKEN.format(kind, _said(at, place, words, letters), _visible(piece) or _PART)


def _said(at: TextPositions, place: int, words: Mapping[int, str], letters: Sequence[str]) -> str:
    """What is told of a token to whoever points at it."""
    agreement = f"agreement {100 * float(at.agreement[place]):.1f} %, KL {float(at.divergence[place]):.4f} nats"
    lines = [f"{words[int(at.following[place])]} follows: {agreement}"]
    for letter, best, log, true in zip(
        letters, at.best[:, place], at.best_logs[:, place], at.true_logs[:, place], strict=True
    ):
        lines.append(f"{letter}: {words[int(best)]} {_share(log)} most likely, {_share(true)} for what follows")
    return "\n".join(lines)


def _share(log: float) -> str:
    return f"{100 * math.exp(float(log)):.3g} %"


def _named(word: str) -> str:
    shown = "".join(sign if sign.isprintable() else _SIGNS.get(sign, "�").strip() for sign in word[:_LONGEST])
    return f"“{shown}”"


def _visible(text: str) -> str:
    """A text with its lines, without signs that steer how it is shown."""
    return "".join(sign if sign.isprintable() else _SIGNS.get(sign, "�") for sign in text)
