"""The side-by-side picture as SVG: two columns of cards, what differs coloured and numbered, gaps left open.

Everything written into it may come from a file of unknown origin: all text passes `safe`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from zoolens.base.present.text import shareable
from zoolens.base.verdicts import at_least
from zoolens.findings.graph.diff.phrases import unsigned
from zoolens.findings.graph.diff.picture_cards import Card, CardLine, PartCost, State, cards
from zoolens.findings.graph.diff.report import Diff

COLUMN: Final = 430
GUTTER: Final = 90
MARGIN: Final = 24
LINE: Final = 18
TITLE: Final = 24
GAP: Final = 10
BAR: Final = 5
WIDTH: Final = 2 * MARGIN + 2 * COLUMN + GUTTER
LONGEST: Final = 58  # characters that fit in a line
LEGEND_LONGEST: Final = 140

STYLE: Final = """
text{font:12px system-ui,sans-serif;fill:#1f2933}
.name{font-size:16px;font-weight:600}.stage{font-size:13px;font-weight:600;fill:#52606d}.title{font-weight:600}
.layer{font-family:ui-monospace,monospace;font-size:11px}.dim{fill:#7b8794}
.card{fill:#f5f7fa;stroke:#cbd2d9}.changed{fill:#fff8e6;stroke:#e0a800}
.open{fill:#f1ecfb;stroke:#7a5cc0;stroke-dasharray:6 3}.gone{fill:none;stroke:#cbd2d9;stroke-dasharray:4 4}
.mark{fill:#fdd9a0}.minor{fill:#e3eefb}.only{fill:#fbd0d0}.unsure{fill:#ddd1f5}.bar-a{fill:#4078c0}.bar-b{fill:#c05a40}
.badge{fill:#b35c00}.badge-minor{fill:#6b8fb8}.badge-open{fill:#7a5cc0}.badge-text{fill:#fff;font-size:10px;text-anchor:middle}.paper{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6e9ed}.stage,.dim{fill:#9aa4af}.badge-text{fill:#fff}.paper{fill:#14171b}
.card{fill:#1d2127;stroke:#353c45}.changed{fill:#2e2817;stroke:#a87f0a}.gone{stroke:#353c45}
.open{fill:#241d36;stroke:#9a80d8}.unsure{fill:#43346b}
.mark{fill:#6b4a12}.minor{fill:#24405f}.only{fill:#6a2b2b}}
"""


def safe(text: object, longest: int = LONGEST) -> str:
    """Text for SVG: no markup, no characters that XML forbids, no line without end, no folder of this machine."""
    return escape(shareable(text, longest))


def svg(diff: Diff, *, legend: bool = True) -> str:
    """The whole picture; `legend` lists the numbered differences under it."""
    shown = cards(diff)
    most = max((max(card.cost_a.macs, card.cost_b.macs) for card in shown), default=0) or 1
    body: list[str] = []
    y = 64
    stage = ""
    for card in shown:
        if card.stage != stage:
            stage = card.stage
            y += 14
            body.append(_text(MARGIN, y, stage, "stage"))
            y += 8
        body.extend(_card(card, y, most))
        y += _height(card) + GAP
    y += 10
    if legend:
        for number, difference in enumerate(diff.differences, 1):
            for line in wrap(f"{number}. {difference.text}", LEGEND_LONGEST):
                body.append(_text(MARGIN, y + LINE, line, "", LEGEND_LONGEST))
                y += LINE
        y += LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
        f"<title>{safe(f'{diff.names[0]} and {diff.names[1]}: {diff.verdict}', 400)}</title><style>{STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{y}"/>' + "".join(_header(diff)) + "".join(body) + "</svg>"
    )


def _header(diff: Diff) -> Iterator[str]:
    for side, cost in enumerate((diff.cost_a, diff.cost_b)):
        x = _left(side)
        yield _text(x, 28, diff.names[side], "name", 46)
        macs = at_least(unsigned(cost.macs), "MACs", whole=cost.macs_whole)
        parameters = at_least(unsigned(cost.parameters), "parameters", whole=cost.parameters_whole)
        yield _text(x, 47, f"{macs}, {parameters}", "dim")


def _left(side: int) -> int:
    return MARGIN + side * (COLUMN + GUTTER)


def _height(card: Card) -> int:
    return _head(card) + LINE * len(_shown(card)) + BAR + 6


def _head(card: Card) -> int:
    """Height of what stands above the lines; a card that is not understood as a whole has a line that says so."""
    return TITLE + LINE if card.open else TITLE


def _shown(card: Card) -> tuple[CardLine, ...]:
    """Lines of a card: none of several that do not differ, all of others."""
    return card.lines if card.major or card.open or card.count == 1 else ()


_CARD_STYLES: Final = {
    State.SAME: "card",
    State.CONSTANTS: "card",
    State.NOT_KNOWN: "open",
    State.DIFFERS: "changed",
    State.ONLY_A: "changed",
    State.ONLY_B: "changed",
}
_LINE_STYLES: Final = {
    State.CONSTANTS: "minor",
    State.NOT_KNOWN: "unsure",
    State.DIFFERS: "mark",
    State.ONLY_A: "only",
    State.ONLY_B: "only",
}
_BADGE_STYLES: Final = {State.CONSTANTS: "badge-minor", State.NOT_KNOWN: "badge-open"}


def _card(card: Card, y: int, most: int) -> Iterator[str]:
    height = _height(card)
    for side, (title, cost) in enumerate(((card.title_a, card.cost_a), (card.title_b, card.cost_b))):
        x = _left(side)
        if not title:
            yield f'<rect class="gone" x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="5"/>'
            continue
        style = _CARD_STYLES[card.state]
        yield f'<rect class="{style}" x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="5"/>'
        same = " (the same layers)" if card.state is State.SAME else ""
        yield _text(x + 10, y + 16, title + same, "title")
        if card.open:
            yield _text(x + 10, y + 16 + LINE, _gap(card, cost), "dim")
        figure = safe(cost.words(unsigned(cost.macs)))
        yield f'<text x="{x + COLUMN - 10}" y="{y + 16}" class="dim" text-anchor="end">{figure}</text>'
        bar = round((COLUMN - 20) * cost.macs / most, 1)
        low = y + height - BAR - 3
        yield f'<rect class="bar-{"ab"[side]}" x="{x + 10}" y="{low}" width="{bar}" height="{BAR}" rx="2"/>'
    for number, line in enumerate(_shown(card)):
        yield from _line(line, y + _head(card) + LINE * number)
    if not _shown(card):
        yield from _badges(card.marks, y + 12, card.state)


def _gap(card: Card, cost: PartCost) -> str:
    known = "not known whether the same" if card.state is State.NOT_KNOWN else ""
    return "; ".join(text for text in (cost.gap, known) if text)


def _line(line: CardLine, y: int) -> Iterator[str]:
    style = _LINE_STYLES.get(line.state)
    for side, (text, hint) in enumerate(((line.a, line.hint_a), (line.b, line.hint_b))):
        x = _left(side)
        if text and style:
            yield f'<rect class="{style}" x="{x + 4}" y="{y - 1}" width="{COLUMN - 8}" height="{LINE - 2}" rx="3"/>'
        if text:
            yield f"<g><title>{safe(hint, 200)}</title>{_text(x + 10, y + 11, text, 'layer')}</g>"
    yield from _badges(line.marks, y + 7, line.state)


def _badges(marks: Sequence[int], y: int, state: State) -> Iterator[str]:
    """The numbers of differences; "?" where something is not known."""
    style = _BADGE_STYLES.get(state, "badge")
    middle = MARGIN + COLUMN + GUTTER / 2
    shown = [*map(str, marks[:4]), *(["?"] if state is State.NOT_KNOWN else [])]
    for position, mark in enumerate(shown):
        x = middle + 20 * (position - (len(shown) - 1) / 2)
        yield f'<circle class="{style}" cx="{x:g}" cy="{y}" r="8"/>'
        yield f'<text class="badge-text" x="{x:g}" y="{y + 3.5}">{mark}</text>'


def _text(x: float, y: float, text: str, style: str, longest: int = LONGEST) -> str:
    return f'<text x="{x}" y="{y}" class="{style}">{safe(text, longest)}</text>'
