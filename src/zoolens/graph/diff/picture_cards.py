"""What a picture of a diff shows, before anything is drawn: cards with lines, side by side.

A card is a block, or the single layers of one stage between two blocks. Cards that look the same on both sides and
carry the same marks are put together ("blocks 2–6 ×5"), so that a network of 200 layers stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zoolens.graph.blocks import Block, BlockLayer, resolution
from zoolens.graph.diff import settings
from zoolens.graph.diff.alignment import BlockRow, LayerPair
from zoolens.graph.diff.causes import CONSTANTS
from zoolens.graph.diff.place_names import ranges
from zoolens.graph.diff.report import Diff
from zoolens.graph.diff.similarity import channels
from zoolens.graph.model import Node

QUIET: Final = frozenset({"activation", "norm", "add", "concat", "mul", "slice", "reshape", "transpose"})


@dataclass(frozen=True)
class CardLine:
    """One layer on each side; "" where a side has nothing. `marks` are numbers of differences, from 1."""

    a: str
    b: str
    marks: tuple[int, ...] = ()
    major: bool = False
    hint_a: str = ""  # what the source calls it
    hint_b: str = ""


@dataclass(frozen=True)
class Card:
    stage: str
    title_a: str  # "" where the side has nothing
    title_b: str
    lines: tuple[CardLine, ...]
    macs_a: int = 0
    macs_b: int = 0
    indices: tuple[int, ...] = ()  # of the blocks in it, as A counts them
    indices_b: tuple[int, ...] = ()
    kind: str = ""  # of A's blocks; "" where they are layers
    kind_b: str = ""
    whole: tuple[int, ...] = ()  # marks of a block that the other side lacks; its lines are not shown
    alike: bool = True  # of several blocks: the lines, which are those of the first, read the same in all of them

    @property
    def marks(self) -> tuple[int, ...]:
        return self.whole or tuple(sorted({mark for line in self.lines for mark in line.marks}))

    @property
    def major(self) -> bool:
        return bool(self.whole) or any(line.major for line in self.lines)

    @property
    def count(self) -> int:
        return max(len(self.indices), len(self.indices_b), 1)


def cards(diff: Diff) -> list[Card]:
    marks = _marks(diff)
    macs = [{layer.name: layer.macs for layer in cost.layers} for cost in (diff.cost_a, diff.cost_b)]
    merged: list[Card] = []
    for rows in _runs(diff.alignment.rows):
        card = _card(rows, marks, macs)
        if merged and _mergeable(merged[-1], card):
            merged[-1] = _merged(merged[-1], card)
        else:
            merged.append(card)
    return [_titled(card) for card in merged]


Marks = Mapping[tuple[str | None, str | None], list[tuple[int, bool]]]


def _marks(diff: Diff) -> Marks:
    marks: dict[tuple[str | None, str | None], list[tuple[int, bool]]] = {}
    for number, difference in enumerate(diff.differences, 1):
        major = difference.cause not in CONSTANTS or bool(difference.macs)
        for finding in difference.findings:
            marks.setdefault(finding.pair.names, []).append((number, major))
    return marks


def _runs(rows: Sequence[BlockRow]) -> Iterator[list[BlockRow]]:
    """Single layers of a stage together, blocks alone."""
    run: list[BlockRow] = []
    for row in rows:
        block = row.a or row.b
        if run and (block is None or not block.plain or not _beside(run[-1], row)):
            yield run
            run = []
        run.append(row)
        if block is not None and not block.plain:
            yield run
            run = []
    if run:
        yield run


def _beside(above: BlockRow, below: BlockRow) -> bool:
    return (above.a or above.b).stage == (below.a or below.b).stage  # type: ignore[union-attr]


def _card(rows: list[BlockRow], marks: Marks, macs: Sequence[Mapping[str, int]]) -> Card:
    pairs = [pair for row in rows for pair in row.pairs]
    block = rows[0].a or rows[0].b
    assert block is not None
    one_sided = not block.plain and (rows[0].a is None or rows[0].b is None)
    return Card(
        block.stage,
        _kind_title(row.a for row in rows),
        _kind_title(row.b for row in rows),
        () if one_sided else tuple(_lines(pairs, marks)),
        sum(macs[0].get(pair.a.node.name, 0) for pair in pairs if pair.a),
        sum(macs[1].get(pair.b.node.name, 0) for pair in pairs if pair.b),
        _indices(rows[0].a),
        _indices(rows[0].b),
        _block_kind(rows[0].a),
        _block_kind(rows[0].b),
        tuple(sorted({number for pair in pairs for number, _ in marks.get(pair.names, [])})) if one_sided else (),
    )


def _indices(block: Block | None) -> tuple[int, ...]:
    return (block.index,) if block is not None and block.index else ()


def _block_kind(block: Block | None) -> str:
    return block.kind if block is not None and not block.plain else ""


def _kind_title(blocks: Iterable[Block | None]) -> str:
    kinds = [block.kind for block in blocks if block is not None]
    return "" if not kinds else "layers" if kinds[0] == "layer" else kinds[0]


def _lines(pairs: Sequence[LayerPair], marks: Marks) -> Iterator[CardLine]:
    for pair in pairs:
        own = marks.get(pair.names, [])
        if own or pair.either.kind not in QUIET:
            yield CardLine(
                layer_text(pair.a),
                layer_text(pair.b),
                tuple(sorted({number for number, _ in own})),
                any(major for _, major in own),
                pair.a.node.source or pair.a.node.name if pair.a else "",
                pair.b.node.source or pair.b.node.name if pair.b else "",
            )


def layer_text(layer: BlockLayer | None) -> str:
    """Describes a layer in one line, such as "shortcut: 3×3 conv 64 /2, batch norm"."""
    if layer is None:
        return ""
    path = f"{layer.path}: " if layer.path not in ("", "main") else ""
    return path + node_text(layer.node)


def node_text(node: Node) -> str:
    window = "×".join(map(str, settings.kernel(node)))
    words = [window, settings.operator(node)]
    if node.op in ("conv", "conv_transpose", "dense"):
        words.append(f"{channels(node):,}")
    if node.op == "input":
        words.append("×".join(map(str, (*resolution(node.shape), channels(node)))))
    if settings.strides(node):
        words.append(f"/{max(settings.stride(node))}")
    extras = [f"{settings.groups(node)} groups"] if settings.groups(node) > 1 else []
    extras += [f"{settings.normed(node)} norm"] if settings.normed(node) else []
    extras += ["bias"] if node.parameter("bias") else []
    return ", ".join([" ".join(word for word in words if word), *extras])


def _mergeable(above: Card, below: Card) -> bool:
    both = (above, below)
    if above.stage != below.stage or not all(card.indices or card.indices_b for card in both):
        return False
    if (above.kind, above.kind_b) != (below.kind, below.kind_b):
        return False
    if bool(above.indices) != bool(below.indices) or bool(above.indices_b) != bool(below.indices_b):
        return False
    if bool(above.title_a) != bool(below.title_a) or bool(above.title_b) != bool(below.title_b):
        return False
    patterns = [[(line.marks, bool(line.a), bool(line.b)) for line in card.lines] for card in both]
    if above.whole or below.whole:
        return above.whole == below.whole
    quiet = not above.major and not below.major
    return (quiet and above.marks == below.marks and len(patterns[0]) == len(patterns[1])) or patterns[0] == patterns[1]


def _merged(above: Card, below: Card) -> Card:
    return replace(
        above,
        macs_a=above.macs_a + below.macs_a,
        macs_b=above.macs_b + below.macs_b,
        indices=(*above.indices, *below.indices),
        indices_b=(*above.indices_b, *below.indices_b),
        alike=above.alike and _words(above) == _words(below),
    )


def _words(card: Card) -> list[tuple[str, str]]:
    return [(line.a, line.b) for line in card.lines]


def _titled(card: Card) -> Card:
    return replace(
        card,
        title_a=_title(card.title_a, card.kind, card.indices),
        title_b=_title(card.title_b, card.kind_b, card.indices_b),
    )


def _title(title: str, kind: str, indices: Sequence[int]) -> str:
    """What a side calls its blocks, by its own kind and its own count of them."""
    if not title or not indices:
        return title
    times = f" ×{len(indices)}" if len(indices) > 1 else ""
    return f"{kind} block{'s' if len(indices) > 1 else ''} {ranges(sorted(indices))}{times}"
