"""The outline of a network, as an engineer would draw it: stages, blocks in them, layers in those.

A *cut* is a node through whose value everything flows. What lies between two cuts is one layer, or a *region* with
paths: residual, branches, a gate. Regions and the chains between them become blocks; blocks are put into stages by
resolution. The order of nodes in the file decides nothing: a cut is a cut in every order of computation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.block_regions import grouped
from zoolens.findings.graph.outline.blocks import Block, BlockLayer
from zoolens.findings.graph.outline.stages import staged


def outline(graph: Graph) -> tuple[Block, ...]:
    """All nodes of a canonical graph, in blocks, in order."""
    return laid_out(groups_of(graph))


def laid_out(groups: list[Block]) -> tuple[Block, ...]:
    """Blocks in their stages, numbered."""
    return _numbered(staged(groups))


def groups_of(graph: Graph) -> list[Block]:
    """The blocks of a canonical graph, not yet in stages."""
    trunk, aside, auxiliary = _parts(graph)
    groups = grouped(_segments(trunk, graph))
    groups = _with_aside(groups, aside, graph)
    if auxiliary:
        groups.append(Block("auxiliary", tuple(BlockLayer(node) for node in auxiliary), "auxiliary"))
    return groups


def _parts(graph: Graph) -> tuple[list[Node], list[Node], list[Node]]:
    """What leads from the first input to the first output; what comes in aside (class tokens, masks); the rest."""
    main_input = next((node.name for node in graph if node.op == "input"), graph.nodes[0].name)
    below = {main_input}
    for node in graph:
        if any(name in below for name in node.inputs):
            below.add(node.name)
    above = set(graph.outputs[:1])
    for node in reversed(graph.nodes):
        if node.name in above:
            above.update(node.inputs)
    trunk = [node for node in graph if node.name in below and node.name in above]
    aside = [node for node in graph if node.name in above and node.name not in below]
    return trunk, aside, [node for node in graph if node.name not in above]


def _segments(trunk: Sequence[Node], graph: Graph) -> list[list[Node]]:
    """Nodes from one cut to the next: one node, or a region that ends where its paths have joined."""
    names = {node.name for node in trunk}
    waiting = {node.name: sum(user.name in names for user in graph.consumers[node.name]) for node in trunk}
    live: set[str] = set()
    segments: list[list[Node]] = [[]]
    for node in trunk:
        segments[-1].append(node)
        for name in node.inputs:
            if name in names:
                waiting[name] -= 1
                if not waiting[name]:
                    live.discard(name)
        if waiting[node.name]:
            live.add(node.name)
        if live <= {node.name}:
            segments.append([])
    return [segment for segment in segments if segment]


def _with_aside(groups: list[Block], aside: Sequence[Node], graph: Graph) -> list[Block]:
    """Each node that comes in from aside joins the block that first uses it."""
    if not aside:
        return groups
    if not groups:  # the output does not depend on the input
        return [Block("region", tuple(BlockLayer(node) for node in aside))]
    home = {layer.node.name: number for number, block in enumerate(groups) for layer in block.layers}
    joined: dict[int, list[BlockLayer]] = {}
    for node in reversed(aside):
        number = min((home[user.name] for user in graph.consumers[node.name] if user.name in home), default=0)
        home[node.name] = number
        joined.setdefault(number, []).insert(0, BlockLayer(node))
    for number, layers in joined.items():
        kind = "region" if groups[number].plain else groups[number].kind
        groups[number] = replace(groups[number], kind=kind, layers=(*layers, *groups[number].layers))
    return groups


def _numbered(blocks: list[Block]) -> tuple[Block, ...]:
    counts: Counter[tuple[str, ...]] = Counter()
    numbered = []
    for block in blocks:
        index = 0
        after = counts[block.stage,] if block.plain else 0
        if not block.plain and block.kind != "transition":
            counts[block.stage,] += 1
            index = counts[block.stage,]
        scope = (block.stage, str(index))
        layers = []
        for layer in block.layers:
            key = (*scope, layer.path, layer.kind)
            counts[key] += 1
            layers.append(replace(layer, index=counts[key]))
        numbered.append(replace(block, index=index, after=after, layers=tuple(layers)))
    return tuple(numbered)
