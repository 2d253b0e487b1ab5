"""A network laid out for a picture that folds: stages, equal neighbouring blocks put together, and the layers of each
block on a grid.

Whoever draws it decides on pixels only. Every line of the picture is an input of a node: none is drawn because two
things happen to stand beside each other. The heat of a thing is its share of what the whole network costs, on a scale
with fixed limits, so that a colour means the same whatever is unfolded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff.picture_cards import node_text
from zoolens.findings.graph.diff.place_names import ranges
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.blocks import Block, resolution
from zoolens.findings.graph.outline.outline import outline

MEASURES: Final = {"macs": "multiply-accumulates", "parameters": "parameters", "moved_bytes": "bytes moved"}
LIMITS: Final = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)  # shares at which the next heat begins; 0 has a heat of its own
MOST_LAYERS: Final = 3000  # of networks with more, the insides of blocks are not laid out

UNCOUNTED: Final = "uncounted"  # beside the measures: how many layers are in no sum, because nobody can count them

Amounts = Mapping[str, int]  # by the keys of MEASURES, and UNCOUNTED


@dataclass(frozen=True)
class PlacedLayer:
    """One layer at a row and a column of its block; rows are in order of computation."""

    words: str
    source: str
    shape: str
    row: int
    column: int
    amounts: Amounts


@dataclass(frozen=True)
class PlacedBlock:
    """A block, or a single layer outside any. Layers and blocks are named by their places in a tuple."""

    title: str
    shape: str
    layers: tuple[PlacedLayer, ...]  # empty where the network has too many
    lines: tuple[tuple[int, int], ...]  # from layer to layer; from −1 where the value comes from outside the block
    ends: tuple[int, ...]  # layers whose values are used outside
    inputs: tuple[int, ...]  # blocks of its part whose values it uses, and −1 for a value from outside the part
    count: int  # of layers, also where `layers` is empty
    amounts: Amounts


@dataclass(frozen=True)
class NetworkPart:
    """Equal blocks behind one another, or one block, or one layer."""

    stage: str
    title: str
    shape: str
    single: bool  # one layer
    blocks: tuple[PlacedBlock, ...]
    inputs: tuple[int, ...]  # places of the parts whose values it uses, in the order of the network
    amounts: Amounts


@dataclass(frozen=True)
class NetworkLayout:
    """A network as parts on a grid, with what each costs."""

    parts: tuple[NetworkPart, ...]
    totals: Amounts  # of the whole network
    layers: int
    unknown: Mapping[str, int]  # operators without a known cost, by their own names: they are in no sum
    whole: bool  # whether the insides of blocks are laid out

    def share(self, amounts: Amounts, measure: str) -> float:
        """The part of the whole network that a layer, a block or a part of it makes."""
        if self.totals[measure]:
            return amounts[measure] / self.totals[measure]
        return 0.0


def heat(share: float) -> int:
    """0 for nothing, then 1 to 7: how many of the limits a share has reached, and one more."""
    if share <= 0:
        return 0
    return 1 + sum(share >= limit for limit in LIMITS)


def network_layout(graph: Graph, most: int = MOST_LAYERS) -> NetworkLayout:
    """Lay out a canonical graph. With more than `most` layers its blocks stay folded."""
    spent = cost(graph)
    learned = dict.fromkeys(graph.by_name, 0)  # a shared tensor counts where it is used first, so that sums are right
    for node, tensor in graph.learned_tensors():
        learned[node.name] += tensor.size
    amounts = {
        layer.name: {
            "macs": layer.macs,
            "parameters": learned[layer.name],
            "moved_bytes": layer.moved_bytes,
            UNCOUNTED: int(layer.op == "unknown" and not layer.macs),
        }
        for layer in spent.layers
    }
    whole = len(graph) <= most
    runs = list(_runs(outline(graph)))
    home = {layer.node.name: place for place, run in enumerate(runs) for block in run for layer in block.layers}
    parts = tuple(_part(run, place, home, graph, amounts, whole=whole) for place, run in enumerate(runs))
    return NetworkLayout(parts, _sum(amounts.values()), len(graph), dict(spent.unknown), whole)


def _runs(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Neighbouring blocks of one stage that are equal by themselves and give values of one shape; layers alone."""

    def look(numbered: tuple[int, Block]) -> tuple[object, ...]:
        number, block = numbered
        if block.plain:
            return (number,)
        return (block.stage, block.signature, block.output.shape)

    for _, run in groupby(enumerate(blocks), look):
        yield [block for _, block in run]


def _part(
    run: Sequence[Block],
    place: int,
    home: Mapping[str, int],
    graph: Graph,
    amounts: Mapping[str, Amounts],
    *,
    whole: bool,
) -> NetworkPart:
    nodes = [layer.node for block in run for layer in block.layers]
    sources = {home[name] for node in nodes for name in node.inputs if name in home}
    own = {layer.node.name: number for number, block in enumerate(run) for layer in block.layers}
    return NetworkPart(
        run[0].stage,
        _title(run),
        _shape(run[-1].output),
        run[0].plain,
        tuple(_block(block, own, graph, amounts, whole=whole) for block in run),
        tuple(sorted(sources - {place})),
        _sum(amounts[node.name] for node in nodes),
    )


def _title(run: Sequence[Block]) -> str:
    first = run[0]
    if first.plain:
        return node_text(first.layers[0].node)
    numbers = ranges([block.index for block in run if block.index])
    times = f" ×{len(run)}" if len(run) > 1 else ""
    return f"{first.kind} block{'s' if len(run) > 1 else ''}{f' {numbers}' if numbers else ''}{times}"


def _shape(node: Node) -> str:
    """Height, width and channels of an image-like value; every extent of another."""
    extents = (*resolution(node.shape), node.shape[1]) if len(node.shape) == 4 else node.shape[1:]
    return "×".join(map(str, extents))


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    total = dict.fromkeys((*MEASURES, UNCOUNTED), 0)
    for each in amounts:
        for name in total:
            total[name] += each[name]
    return total


# --- the inside of a block


def _block(
    block: Block, own: Mapping[str, int], graph: Graph, amounts: Mapping[str, Amounts], *, whole: bool
) -> PlacedBlock:
    """`own`: in which block of the part each of its layers is."""
    nodes = [layer.node for layer in block.layers]
    places = {node.name: place for place, node in enumerate(nodes)}
    grid = _grid(block) if whole else ()
    lines = [(places.get(name, -1), place) for place, node in enumerate(nodes) for name in dict.fromkeys(node.inputs)]
    used_outside = [
        place
        for place, node in enumerate(nodes)
        if node.name in graph.outputs or any(user.name not in places for user in graph.consumers[node.name])
    ]
    return PlacedBlock(
        _title([block]),
        _shape(block.output),
        tuple(
            PlacedLayer(node_text(node), node.source or node.name, _shape(node), row, column, amounts[node.name])
            for node, (row, column) in zip(nodes, grid, strict=False)
        ),
        tuple(dict.fromkeys(lines)) if whole else (),
        tuple(used_outside) if whole else (),
        tuple(sorted({own.get(name, -1) for node in nodes for name in node.inputs if name not in places})),
        len(nodes),
        _sum(amounts[node.name] for node in nodes),
    )


def _grid(block: Block) -> list[tuple[int, int]]:
    """A row and a column for each layer: below all that it uses, in the column of its path, each cell once."""
    columns = {path: place for place, path in enumerate(path for path in block.paths if path)}
    depth: dict[str, int] = {}
    taken: set[tuple[int, int]] = set()
    grid = []
    for layer in block.layers:
        node = layer.node
        row = 1 + max((depth[name] for name in node.inputs if name in depth), default=-1)
        depth[node.name] = row
        column = columns.get(layer.path, 0)
        while (row, column) in taken:
            column += 1
        taken.add((row, column))
        grid.append((row, column))
    return grid
