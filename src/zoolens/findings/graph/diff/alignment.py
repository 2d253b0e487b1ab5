"""Which part of one network stands beside which part of the other.

Blocks first, over the whole network at once (stages weigh in their similarity, so a stage with more blocks, or a
stride that sits a block later, does not pull the rest apart); then the layers of each pair of blocks, path by path.
Both by dynamic programming: the sum of similarities, weighted by what a thing is worth, is the largest possible, and
where several alignments are equally good, gaps come late. Before that, the layers of a block that only the other side
closes with a shortcut are joined (`open_shortcuts`); after it, blocks in another order are put beside their like
(`block_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Final

from zoolens.base.numerics.sequence_alignment import best_pairs
from zoolens.findings.graph.diff.block_order import Beside, reordered
from zoolens.findings.graph.diff.open_shortcuts import chained
from zoolens.findings.graph.diff.similarity import LEAST, block_similarity, block_weight, node_similarity, weight
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.blocks import Block, BlockLayer
from zoolens.findings.graph.outline.outline import groups_of, laid_out

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class LayerPair:
    """Two layers that stand for each other, or one that has no partner. Positions are those of its own side."""

    a: BlockLayer | None
    b: BlockLayer | None

    @property
    def names(self) -> tuple[str | None, str | None]:
        """The names of both nodes; None on the side that has no layer here."""
        name_a = self.a.node.name if self.a else None
        name_b = self.b.node.name if self.b else None
        return name_a, name_b

    @property
    def either(self) -> BlockLayer:
        """The layer of a, or that of b where a has none."""
        layer = self.a or self.b
        assert layer is not None  # a pair without any layer is never made
        return layer


@dataclass(frozen=True)
class BlockRow:
    a: Block | None
    b: Block | None
    pairs: tuple[LayerPair, ...]


@dataclass(frozen=True)
class Alignment:
    rows: tuple[BlockRow, ...]

    @property
    def pairs(self) -> list[LayerPair]:
        return [pair for row in self.rows for pair in row.pairs]

    @cached_property
    def partner(self) -> dict[str, Node]:
        """Node of b beside each node of a, by name."""
        return {pair.a.node.name: pair.b.node for pair in self.pairs if pair.a and pair.b}

    @cached_property
    def reverse(self) -> dict[str, Node]:
        return {pair.b.node.name: pair.a.node for pair in self.pairs if pair.a and pair.b}


def align(a: Graph, b: Graph) -> Alignment:
    groups = groups_of(a), groups_of(b)
    best, most = _aligned(*groups)
    for joined in chained(*groups):
        rows, gained = _aligned(*joined)
        if gained > most + _ROUNDING:
            best, most = rows, gained
    return Alignment(tuple(_row(from_a, from_b) for from_a, from_b in reordered(best)))


def _aligned(from_a: list[Block], from_b: list[Block]) -> tuple[list[Beside], float]:
    """The best alignment of two networks' blocks, and the sum of its scores."""
    left = laid_out(from_a)
    right = laid_out(from_b)
    cache: dict[tuple[object, ...], float] = {}
    codes = _codes([*left, *right])
    weights = {id(block): block_weight(block) for block in (*left, *right)}

    def score(from_a: Block, from_b: Block) -> float:
        key = (codes[id(from_a)], codes[id(from_b)], from_a.stage == from_b.stage, from_a.index == from_b.index)
        if key not in cache:
            cache[key] = _worth(block_similarity(from_a, from_b), weights[id(from_a)], weights[id(from_b)])
        return cache[key]

    rows = best_pairs(left, right, score)
    return rows, sum(score(from_a, from_b) for from_a, from_b in rows if from_a and from_b)


def _codes(blocks: Sequence[Block]) -> dict[int, int]:
    """A small number for each distinct (signature, resolution), so that similarity is computed once for each."""
    known: dict[object, int] = {}
    codes: dict[int, int] = {}
    for block in blocks:
        look = (block.signature, block.output.shape)
        codes[id(block)] = known.setdefault(look, len(known))
    return codes


def _worth(similarity: float, weight_a: float, weight_b: float) -> float:
    return similarity * (weight_a + weight_b) / 2 if similarity >= LEAST else 0.0


def _row(a: Block | None, b: Block | None) -> BlockRow:
    if a is None or b is None:
        only_a = [LayerPair(layer, None) for layer in a.layers] if a else []
        return BlockRow(a, b, tuple(only_a or [LayerPair(None, layer) for layer in (b.layers if b else ())]))
    if a.signature == b.signature:
        return BlockRow(
            a, b, tuple(LayerPair(from_a, from_b) for from_a, from_b in zip(a.layers, b.layers, strict=True))
        )
    pairs: list[LayerPair] = []
    for from_a, from_b in _matched_paths(a, b):
        left = a.on(from_a) if from_a is not None else []
        right = b.on(from_b) if from_b is not None else []
        pairs.extend(_layer_pairs(left, right))
    return BlockRow(a, b, tuple(_in_order(pairs, a, b)))


def _layer_pairs(left: Sequence[BlockLayer], right: Sequence[BlockLayer]) -> list[LayerPair]:
    def score(layer_a: BlockLayer, layer_b: BlockLayer) -> float:
        return _worth(node_similarity(layer_a.node, layer_b.node), weight(layer_a), weight(layer_b))

    return [LayerPair(layer_a, layer_b) for layer_a, layer_b in best_pairs(left, right, score)]


def _matched_paths(a: Block, b: Block) -> list[tuple[str | None, str | None]]:
    """Paths of the same name where names mean something; branches by similarity, best first."""
    named_a = set(a.paths)
    named_b = set(b.paths)
    if "" in named_a ^ named_b and len(named_a) == len(named_b) == 1:
        return [(a.paths[0], b.paths[0])]  # a chain beside a chain, whatever each is called
    both = sorted(path for path in named_a & named_b if not path.startswith("branch"))
    left = [path for path in a.paths if path not in both]
    right = [path for path in b.paths if path not in both]
    scored = sorted(
        ((_path_score(a.on(p), b.on(q)) + 0.01 * (p == q), p, q) for p, q in product(left, right)),
        key=lambda item: -item[0],
    )
    matched: list[tuple[str | None, str | None]] = [(path, path) for path in both]
    for value, from_a, from_b in scored:
        if value > 0.1 and from_a in left and from_b in right:
            matched.append((from_a, from_b))
            left.remove(from_a)
            right.remove(from_b)
    return [*matched, *((from_a, None) for from_a in left), *((None, from_b) for from_b in right)]


def _path_score(left: Sequence[BlockLayer], right: Sequence[BlockLayer]) -> float:
    total = sum(map(weight, left)) + sum(map(weight, right))
    gained = sum(
        _worth(node_similarity(pair.a.node, pair.b.node), weight(pair.a), weight(pair.b))
        for pair in _layer_pairs(left, right)
        if pair.a and pair.b
    )
    return 2 * gained / total if total else 1.0


def _in_order(pairs: list[LayerPair], a: Block, b: Block) -> list[LayerPair]:
    """Sorts pairs as their layers come in a; what only b has stands where b has it."""
    place_a = {id(layer): number for number, layer in enumerate(a.layers)}
    place_b = {id(layer): number for number, layer in enumerate(b.layers)}
    scale = len(a.layers) / max(len(b.layers), 1)

    def place(pair: LayerPair) -> float:
        if pair.a:
            return place_a[id(pair.a)]
        return place_b[id(pair.b)] * scale

    return sorted(pairs, key=place)
