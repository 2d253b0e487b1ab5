"""What a picture of a diff shows, before anything is drawn: cards with lines, side by side.

A card is a block, or the single layers of one stage between two blocks. Cards that look the same on both sides and
carry the same marks are put together ("blocks 2–6 ×5"), so that a network of 200 layers stays readable. A card with an
operator that is not understood is neither the same nor different, and what it costs is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from zoolens.base.verdicts import at_least
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import BlockRow, LayerPair
from zoolens.findings.graph.diff.diff_causes import CONSTANTS
from zoolens.findings.graph.diff.phrases import plural
from zoolens.findings.graph.diff.place_names import ranges
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.diff.similarity import channels
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.outline.blocks import Block, BlockLayer, resolution

QUIET: Final = frozenset({"activation", "norm", "add", "concat", "mul", "slice", "reshape", "transpose"})


class State(StrEnum):
    """How a part of A and the part of B beside it compare."""

    SAME = "same"
    CONSTANTS = "constants"  # only constants that cost nothing differ: epsilon, padding side, biases …
    DIFFERS = "differs"
    ONLY_A = "only a"
    ONLY_B = "only b"
    NOT_KNOWN = "not known"  # an operator that is not understood, or what stands beside one


@dataclass(frozen=True)
class PartCost:
    """Multiply-accumulates of a part; a lower bound unless `whole`. `unknown` counts operators that are not
    understood, of which some are known to multiply nothing."""

    macs: int = 0
    unknown: int = 0
    whole: bool = True

    def __add__(self, other: PartCost) -> PartCost:
        return PartCost(self.macs + other.macs, self.unknown + other.unknown, self.whole and other.whole)

    def words(self, figure: str) -> str:
        """The cost in words; `figure` is the number of multiply-accumulates as its page writes it."""
        if self.macs or not self.whole:
            return at_least(figure, "MACs", whole=self.whole)
        return ""

    @property
    def gap(self) -> str:
        """What is not understood, in words."""
        return f"{plural(self.unknown, 'operator')} not understood" if self.unknown else ""


@dataclass(frozen=True)
class CardLine:
    """One layer on each side; "" where a side has nothing. `marks` are numbers of differences, from 1."""

    a: str
    b: str
    marks: tuple[int, ...] = ()
    major: bool = False
    hint_a: str = ""  # what the source calls it
    hint_b: str = ""
    open: bool = False  # an operator that is not understood, or a difference that one beside it leaves unproved

    @property
    def state(self) -> State:
        return _state(self.a, self.b, self.marks, major=self.major, open_=self.open)


def _state(a: str, b: str, marks: Sequence[int], *, major: bool, open_: bool) -> State:
    """What is proved comes before what is not known."""
    if open_ and not major:
        return State.NOT_KNOWN
    if not a or not b:
        return State.ONLY_A if a else State.ONLY_B
    if major:
        return State.DIFFERS
    if marks:
        return State.CONSTANTS
    return State.SAME


@dataclass(frozen=True)
class Card:
    stage: str
    title_a: str  # "" where the side has nothing
    title_b: str
    lines: tuple[CardLine, ...]
    cost_a: PartCost = field(default_factory=PartCost)
    cost_b: PartCost = field(default_factory=PartCost)
    indices: tuple[int, ...] = ()  # of the blocks in it, as A counts them
    indices_b: tuple[int, ...] = ()
    kind: str = ""  # of A's blocks; "" where they are layers
    kind_b: str = ""
    whole: tuple[int, ...] = ()  # marks of a block that the other side lacks; its lines are not shown
    unproved: bool = False  # such a block, beside operators that are not understood, in which it may be hidden
    rearranged: bool = False  # all that differs in the networks is how values are arranged, which may be the same
    uniform: bool = True  # of several blocks: the lines, which are those of the first, read the same in all of them

    @property
    def marks(self) -> tuple[int, ...]:
        return self.whole or tuple(sorted({mark for line in self.lines for mark in line.marks}))

    @property
    def major(self) -> bool:
        lacks_block = bool(self.whole) and not self.rearranged
        return lacks_block or any(line.major for line in self.lines)

    @property
    def open(self) -> bool:
        """Whether something in it is not understood, or not proved."""
        opaque = self.cost_a.unknown or self.cost_b.unknown
        return self.unproved or bool(opaque) or any(line.open for line in self.lines)

    @property
    def state(self) -> State:
        return _state(self.title_a, self.title_b, self.marks, major=self.major, open_=self.open)

    @property
    def count(self) -> int:
        return max(len(self.indices), len(self.indices_b), 1)


def cards(diff: Diff) -> list[Card]:
    context = _Context(diff)
    merged: list[Card] = []
    for rows in _runs(diff.alignment.rows):
        card = _card(rows, context)
        if merged and _mergeable(merged[-1], card):
            merged[-1] = _merged(merged[-1], card)
        else:
            merged.append(card)
    return [_titled(card) for card in merged]


Places = tuple[str | None, str | None]


class _Context:
    """What is said of the layers of a diff: which differences each has, what it costs, what is not proved."""

    def __init__(self, diff: Diff) -> None:
        # The graphs that were compared may have other layers than the networks as they are.
        self.macs = [{layer.name: layer.macs for layer in cost(graph).layers} for graph in (diff.a, diff.b)]
        self.marks: dict[Places, list[tuple[int, bool]]] = {}  # number, and whether it is more than a constant
        self.rearranged = diff.rearranged
        for number, difference in enumerate(diff.differences, 1):
            is_constant = difference.cause in CONSTANTS and not difference.macs
            major = not is_constant and not diff.rearranged
            for finding in difference.findings:
                self.marks.setdefault(finding.pair.names, []).append((number, major))
        open_ = (*diff.unproved, *diff.differences) if diff.rearranged else diff.unproved
        self.unproved = {finding.pair.names for difference in open_ for finding in difference.findings}

    def is_open(self, pair: LayerPair) -> bool:
        opaque = any(layer is not None and layer.node.op == "unknown" for layer in (pair.a, pair.b))
        return opaque or pair.names in self.unproved

    def numbers(self, pair: LayerPair) -> set[int]:
        return {number for number, _ in self.marks.get(pair.names, [])}

    def cost(self, layers: Iterable[BlockLayer | None], side: int) -> PartCost:
        nodes = [layer.node for layer in layers if layer is not None]
        opaque = [node for node in nodes if node.op == "unknown"]
        macs = sum(self.macs[side].get(node.name, 0) for node in nodes)
        return PartCost(macs, len(opaque), all(node.get("macs") is not None for node in opaque))


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


def _card(rows: list[BlockRow], context: _Context) -> Card:
    pairs = [pair for row in rows for pair in row.pairs]
    block = rows[0].a or rows[0].b
    assert block is not None
    one_sided = not block.plain and (rows[0].a is None or rows[0].b is None)
    marks = {number for pair in pairs for number in context.numbers(pair)}
    return Card(
        block.stage,
        _kind_title(row.a for row in rows),
        _kind_title(row.b for row in rows),
        () if one_sided else tuple(_lines(pairs, context)),
        context.cost((pair.a for pair in pairs), 0),
        context.cost((pair.b for pair in pairs), 1),
        _indices(rows[0].a),
        _indices(rows[0].b),
        _block_kind(rows[0].a),
        _block_kind(rows[0].b),
        tuple(sorted(marks)) if one_sided else (),
        one_sided and any(map(context.is_open, pairs)),
        context.rearranged,
    )


def _indices(block: Block | None) -> tuple[int, ...]:
    return (block.index,) if block is not None and block.index else ()


def _block_kind(block: Block | None) -> str:
    return block.kind if block is not None and not block.plain else ""


def _kind_title(blocks: Iterable[Block | None]) -> str:
    kinds = [block.kind for block in blocks if block is not None]
    if not kinds:
        return ""
    if kinds[0] == "layer":
        return "layers"
    return kinds[0]


def _lines(pairs: Sequence[LayerPair], context: _Context) -> Iterator[CardLine]:
    for pair in pairs:
        own = context.marks.get(pair.names, [])
        open_ = context.is_open(pair)
        if own or open_ or pair.either.kind not in QUIET:
            yield CardLine(
                layer_text(pair.a),
                layer_text(pair.b),
                tuple(sorted(context.numbers(pair))),
                any(major for _, major in own),
                pair.a.node.source or pair.a.node.name if pair.a else "",
                pair.b.node.source or pair.b.node.name if pair.b else "",
                open_,
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
    if above.state != below.state:
        return False
    if (above.kind, above.kind_b) != (below.kind, below.kind_b):
        return False
    if bool(above.indices) != bool(below.indices) or bool(above.indices_b) != bool(below.indices_b):
        return False
    if bool(above.title_a) != bool(below.title_a) or bool(above.title_b) != bool(below.title_b):
        return False
    patterns = [[(line.marks, line.open, bool(line.a), bool(line.b)) for line in card.lines] for card in both]
    if above.whole or below.whole:
        return above.whole == below.whole
    quiet = not above.major and not below.major
    return (quiet and above.marks == below.marks and len(patterns[0]) == len(patterns[1])) or patterns[0] == patterns[1]


def _merged(above: Card, below: Card) -> Card:
    return replace(
        above,
        cost_a=above.cost_a + below.cost_a,
        cost_b=above.cost_b + below.cost_b,
        indices=(*above.indices, *below.indices),
        indices_b=(*above.indices_b, *below.indices_b),
        uniform=above.uniform and _words(above) == _words(below),
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
