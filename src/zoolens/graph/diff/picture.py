"""The side-by-side picture as SVG: two columns of cards, what differs coloured and numbered, gaps left open.

Everything written into it may come from a file of unknown origin: all text passes `safe`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import Final

from zoolens.graph.diff.phrases import amount
from zoolens.graph.diff.picture_cards import Card, CardLine, cards
from zoolens.graph.diff.report import Diff
from zoolens.present.text import shareable

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
.gone{fill:none;stroke:#cbd2d9;stroke-dasharray:4 4}
.mark{fill:#fdd9a0}.minor{fill:#e3eefb}.only{fill:#fbd0d0}.bar-a{fill:#4078c0}.bar-b{fill:#c05a40}
.badge{fill:#b35c00}.badge-minor{fill:#6b8fb8}.badge-text{fill:#fff;font-size:10px;text-anchor:middle}.paper{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#e6e9ed}.stage,.dim{fill:#9aa4af}.badge-text{fill:#fff}.paper{fill:#14171b}
.card{fill:#1d2127;stroke:#353c45}.changed{fill:#2e2817;stroke:#a87f0a}.gone{stroke:#353c45}
.mark{fill:#6b4a12}.minor{fill:#24405f}.only{fill:#6a2b2b}}
"""


def safe(text: object, longest: int = LONGEST) -> str:
    """Text for SVG: no markup, no characters that XML forbids, no line without end, no folder of this machine."""
    return escape(shareable(text, longest))


def svg(diff: Diff, *, legend: bool = True) -> str:
    """The whole picture; `legend` lists the numbered differences under it."""
    shown = cards(diff)
    most = max((max(card.macs_a, card.macs_b) for card in shown), default=0) or 1
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
        figures = f"{amount(cost.macs).lstrip('+')} MACs, {amount(cost.parameters).lstrip('+')} parameters"
        yield _text(x, 47, figures, "dim")


def _left(side: int) -> int:
    return MARGIN + side * (COLUMN + GUTTER)


def _height(card: Card) -> int:
    return TITLE + LINE * len(_shown(card)) + BAR + 6


def _shown(card: Card) -> tuple[CardLine, ...]:
    """Lines of a card: all of one that differs, none of several that do not."""
    return card.lines if card.major or card.count == 1 else ()


def _card(card: Card, y: int, most: int) -> Iterator[str]:
    height = _height(card)
    for side, (title, macs) in enumerate(((card.title_a, card.macs_a), (card.title_b, card.macs_b))):
        x = _left(side)
        if not title:
            yield f'<rect class="gone" x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="5"/>'
            continue
        style = "changed" if card.major else "card"
        yield f'<rect class="{style}" x="{x}" y="{y}" width="{COLUMN}" height="{height}" rx="5"/>'
        same = "" if card.marks or not (card.title_a and card.title_b) else " (the same layers)"
        yield _text(x + 10, y + 16, title + same, "title")
        yield f'<text x="{x + COLUMN - 10}" y="{y + 16}" class="dim" text-anchor="end">{_figure(macs)}</text>'
        bar = round((COLUMN - 20) * macs / most, 1)
        low = y + height - BAR - 3
        yield f'<rect class="bar-{"ab"[side]}" x="{x + 10}" y="{low}" width="{bar}" height="{BAR}" rx="2"/>'
    for number, line in enumerate(_shown(card)):
        yield from _line(line, y + TITLE + LINE * number)
    if not _shown(card):
        yield from _badges(card.marks, y + 12, major=card.major)


def _figure(macs: int) -> str:
    return f"{amount(macs).lstrip('+')} MACs" if macs else ""


def _line(line: CardLine, y: int) -> Iterator[str]:
    for side, (text, hint) in enumerate(((line.a, line.hint_a), (line.b, line.hint_b))):
        x = _left(side)
        if text and line.marks:
            style = "only" if not (line.a and line.b) else "mark" if line.major else "minor"
            yield f'<rect class="{style}" x="{x + 4}" y="{y - 1}" width="{COLUMN - 8}" height="{LINE - 2}" rx="3"/>'
        if text:
            yield f"<g><title>{safe(hint, 200)}</title>{_text(x + 10, y + 11, text, 'layer')}</g>"
    yield from _badges(line.marks, y + 7, major=line.major)


def _badges(marks: Sequence[int], y: int, *, major: bool) -> Iterator[str]:
    style = "badge" if major else "badge-minor"
    middle = MARGIN + COLUMN + GUTTER / 2
    shown = list(marks[:4])
    for position, mark in enumerate(shown):
        x = middle + 20 * (position - (len(shown) - 1) / 2)
        yield f'<circle class="{style}" cx="{x:g}" cy="{y}" r="8"/>'
        yield f'<text class="badge-text" x="{x:g}" y="{y + 3.5}">{mark}</text>'


def _text(x: float, y: float, text: str, style: str, longest: int = LONGEST) -> str:
    return f'<text x="{x}" y="{y}" class="{style}">{safe(text, longest)}</text>'
