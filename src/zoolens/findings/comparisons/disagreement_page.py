"""Disagreements as a page. `contact_sheet` has the pictures, `token_sheet` the texts themselves."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.base.present.pages import Page, Section
from zoolens.findings.comparisons.disagreement_words import DisagreementWords, input_words
from zoolens.findings.comparisons.disagreements import Disagreements
from zoolens.findings.comparisons.text_disagreement_words import text_words
from zoolens.findings.comparisons.text_disagreements import TextDisagreements

AnyDisagreements = Disagreements | TextDisagreements


def disagreement_words(found: AnyDisagreements) -> DisagreementWords:
    return text_words(found) if isinstance(found, TextDisagreements) else input_words(found)


def disagreement_page(found: AnyDisagreements) -> Page:
    """What `zoolens.disagree` found."""
    words = disagreement_words(found)
    return Page(
        f"{found.panel[0].name} and its nearest equivalents",
        f"{found.panel[0].name} in {found.run.stack.runtime}, and nearest to it",
        f"{words.headline}.",
        sections=tuple(_sections(found, words)),
    )


def _sections(found: AnyDisagreements, words: DisagreementWords) -> Iterator[Section]:
    yield Section("Panel", items=tuple(f"{letter}: {said}" for letter, said in words.panel))
    if found.inputs:
        left_out = f"{len(found.inputs):,} of {found.total:,} are listed."
        few = (left_out,) if len(found.inputs) < found.total else ()
        yield Section(f"{words.order[0].upper()}{words.order[1:]}", few, tables=(("", words.table),))
    if found.notes:
        yield Section(items=tuple(f"note: {note}" for note in found.notes))
