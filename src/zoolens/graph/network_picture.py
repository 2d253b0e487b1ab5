"""A network as a picture: its blocks from input to output, repeated ones folded into one, the costly ones darker."""

from __future__ import annotations

from html import escape
from typing import Final

from zoolens.graph.cost import cost
from zoolens.graph.diff.picture_cards import Card, cards
from zoolens.graph.diff.report import diff
from zoolens.graph.model import Graph
from zoolens.present.figures import count
from zoolens.present.text import shareable

WIDTH: Final = 520
MARGIN: Final = 16
LINE: Final = 16
GAP: Final = 8
LONGEST: Final = 62  # characters of a line
MOST_LINES: Final = 14  # of a block
_COLD, _HOT = (244, 246, 248), (217, 115, 13)


def network_svg(graph: Graph, name: str) -> str:
    """The picture of a canonical graph. The costlier a block, or all blocks that one stands for, the darker it is."""
    shown = [card for card in cards(diff(graph, graph, names=(name, name))) if card.lines or card.macs_a]
    most = max((card.macs_a for card in shown), default=0) or 1
    total = cost(graph).macs or 1
    body: list[str] = []
    y, stage = 52, ""
    for card in shown:
        if card.stage != stage:
            stage = card.stage
            body.append(_text(MARGIN, y + LINE, stage, size=12, fill="#5c6773"))
            y += LINE + GAP
        parts, height = _block(card, y, most, total)
        body += parts
        y += height + GAP
    words = f"{count(cost(graph).macs)} MACs, {count(graph.parameters)} parameters; darker blocks cost more"
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + MARGIN}" width="{WIDTH}" ',
            f'height="{y + MARGIN}" role="img" font-family="system-ui, sans-serif">',
            f'<rect width="{WIDTH}" height="{y + MARGIN}" fill="#ffffff"/>',
            _text(MARGIN, 24, name, size=15, weight=600),
            _text(MARGIN, 42, words, size=12, fill="#5c6773"),
            *body,
            "</svg>",
        ]
    )


def _block(card: Card, y: int, most: int, total: int) -> tuple[list[str], int]:
    lines = [line.a for line in card.lines if line.a]
    told = lines[:MOST_LINES] + ([f"… and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])
    height = LINE * (len(told) + 1) + 12
    share = card.macs_a / most
    parts = [
        f'<rect x="{MARGIN}" y="{y}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="6" fill="{_heat(share)}" '
        'stroke="#c5ccd3"/>',
        _text(MARGIN + 10, y + 17, card.title_a or "layers", size=12, weight=600),
    ]
    if card.macs_a:
        percent = 100 * card.macs_a / total
        figure = f"{count(card.macs_a)} MACs, {f'{percent:.0f} %' if percent >= 0.5 else '< 1 %'}"
        ink = "#1b1f24" if share > 0.3 else "#5c6773"
        parts.append(_text(WIDTH - MARGIN - 10, y + 17, figure, size=12, fill=ink, end=True))
    parts += [
        _text(MARGIN + 18, y + 17 + LINE * place, line, size=11, family="ui-monospace, monospace")
        for place, line in enumerate(told, 1)
    ]
    return parts, height


def _heat(share: float) -> str:
    mixed = (round(cold + (hot - cold) * 0.75 * share) for cold, hot in zip(_COLD, _HOT, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _text(x: int, y: int, text: str, *, size: int, weight: int = 400, fill: str = "#1b1f24", end: bool = False,
          family: str = "") -> str:  # fmt: skip
    anchor = ' text-anchor="end"' if end else ""
    font = f' font-family="{family}"' if family else ""
    safe = escape(shareable(text, LONGEST))
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}"{anchor}{font}>{safe}</text>'
