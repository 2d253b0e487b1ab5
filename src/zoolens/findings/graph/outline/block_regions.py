"""From cuts to blocks: regions with paths, and the chains between them that belong to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final
from zlib import crc32

from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, COMMUTATIVE, POOLS
from zoolens.findings.graph.outline.blocks import Block, BlockLayer, is_depthwise

LARGE_REGION: Final = 24  # nodes; beyond, a region with several concats is split at them
FIRE_CHAIN: Final = 2  # a squeeze convolution and its activation
Code = tuple[int, int]  # the depth of a node in its region, and a checksum of what leads to it


def grouped(segments: Iterable[list[Node]]) -> list[Block]:
    blocks: list[Block] = []
    for segment in segments:
        if len(segment) == 1:
            blocks.append(Block("layer", (BlockLayer(segment[0]),)))
        else:
            blocks.extend(_regions(segment))
    for join in (_with_exits, _with_entries, _fires, _transitions, _inverted):
        blocks = join(blocks)
    return blocks


def _regions(nodes: list[Node]) -> list[Block]:
    concats = [number for number, node in enumerate(nodes) if node.op == "concat"]
    if len(concats) > 1 and _nested([nodes[number] for number in concats]):
        return _dense_layers(nodes, concats)
    if len(nodes) > LARGE_REGION and len(concats) > 1:
        return _cells(nodes, concats)
    return [_region(nodes)]


def _nested(concats: Sequence[Node]) -> bool:
    """Whether each collects all that the one before it did, and more."""
    return all(set(before.inputs) < set(after.inputs) for before, after in pairwise(concats))


def _dense_layers(nodes: list[Node], concats: list[int]) -> list[Block]:
    """A dense block is one region; each concat in it begins a layer of its own, and the last one only collects."""
    ends_in_concat = concats[-1] == len(nodes) - 1
    begins = concats[:-1] if ends_in_concat else concats
    blocks = []
    for start, stop in pairwise([0, *begins, len(nodes)]):
        if stop > start:
            blocks.append(Block("dense", tuple(BlockLayer(node) for node in nodes[start:stop])))
    return blocks


def _cells(nodes: list[Node], concats: list[int]) -> list[Block]:
    """Cells that also use the cell before the last (NASNet) leave no cut between them: split after each concat."""
    inner = [number + 1 for number in concats if number + 1 < len(nodes)]
    bounds = pairwise([0, *inner, len(nodes)])
    return [_region(nodes[start:stop], kind="cell") for start, stop in bounds if stop > start]


def _region(nodes: list[Node], kind: str = "") -> Block:
    nodes = _in_own_order(nodes)
    merge = nodes[-1]
    kinds = {"add": "residual", "concat": "branches", "mul": "gate"}
    kind = kind or kinds.get(merge.op, "region")
    if kind == "residual":
        kind = _residual_kind(nodes)
    if kind == "gate" and _multiplies_convolution(nodes):
        kind = "region"
    paths = _paths(nodes, residual=merge.op == "add")
    return Block(kind, tuple(BlockLayer(node, paths.get(node.name, "")) for node in nodes))


def _multiplies_convolution(nodes: list[Node]) -> bool:
    """Whether the last node multiplies what came in by what a convolution of the same size made of it: a residual block
    with a product for its sum, since a gate has one factor a channel or values between 0 and 1."""
    made = {node.name: node for node in nodes}
    factors = [made.get(name) for name in nodes[-1].inputs]
    convolved = [factor for factor in factors if factor is not None and factor.op == "conv"]
    return len(factors) == 2 and None in factors and any(factor.shape == nodes[-1].shape for factor in convolved)


def _in_own_order(nodes: list[Node]) -> list[Node]:
    """Sort nodes into an order of computation that depends on what they are, not on how the file lists them."""
    inside = {node.name: node for node in nodes}
    codes: dict[str, Code] = {}
    for node in nodes:
        before = sorted(codes[name] for name in node.inputs if name in inside)
        text = repr((node.op, node.get("kernel"), node.get("stride"), before))
        codes[node.name] = (max((depth for depth, _ in before), default=0) + 1, crc32(text.encode()))
    ordered: dict[str, Node] = {}
    used = {name for node in nodes for name in node.inputs}
    for end in (node for node in nodes if node.name not in used or node is nodes[-1]):
        _visit(end, inside, codes, ordered)
    if nodes[-1].name == next(reversed(ordered)):
        return list(ordered.values())
    return nodes


def _visit(end: Node, inside: Mapping[str, Node], codes: Mapping[str, Code], ordered: dict[str, Node]) -> None:
    """Depth first and without recursion: the deepest input of a commutative node first."""
    waiting = [(end, False)]
    while waiting:
        node, ready = waiting.pop()
        if node.name in ordered:
            continue
        if ready:
            ordered[node.name] = node
            continue
        waiting.append((node, True))
        inputs = [inside[name] for name in node.inputs if name in inside and name not in ordered]
        if node.op in COMMUTATIVE:
            inputs.sort(key=lambda source: codes[source.name], reverse=True)
        waiting.extend((source, False) for source in reversed(inputs))


def _residual_kind(nodes: list[Node]) -> str:
    if any(node.op in ("attention", "matmul", "softmax") for node in nodes):
        return "attention"
    convs = [node for node in nodes if node.op == "conv"]
    if not any(map(is_depthwise, convs)):
        return "residual"
    *inner, last = convs
    widest = max((node.shape[1] for node in inner), default=0)
    is_inverted = last.shape == nodes[-1].shape and widest > last.shape[1]
    return "inverted residual" if is_inverted else "residual"


def _paths(nodes: list[Node], *, residual: bool) -> dict[str, str]:
    """The path of each node: what an input of the last node depends on and no earlier input does."""
    by_name = {node.name: node for node in nodes}
    taken: dict[str, str] = {}
    for number, name in enumerate(nodes[-1].inputs, 1):
        path = f"branch {number}"
        if residual:
            path = "main" if number == 1 else "shortcut"
        waiting = [name]
        while waiting:
            current = waiting.pop()
            if current in by_name and current not in taken:
                taken[current] = path
                waiting.extend(by_name[current].inputs)
    return taken


def only(block: Block) -> str:
    return block.layers[0].node.op if block.plain else ""


def _with_exits(blocks: list[Block]) -> list[Block]:
    """The activation, shuffle or layer norm right after a region belongs to it, and what scales a sum before these."""
    joined: list[Block] = []
    for block in blocks:
        op = only(block)
        scales = op in ARITHMETIC and len(block.output.inputs) == 1
        trailing = op in ACTIVATIONS or scales or op in ("channel_shuffle", "layer_norm", "rms_norm")
        if joined and not joined[-1].plain and joined[-1].kind != "gate" and trailing:
            joined[-1] = replace(joined[-1], layers=(*joined[-1].layers, *block.layers))
        else:
            joined.append(block)
    return joined


def _with_entries(blocks: list[Block]) -> list[Block]:
    """Pre-activation: batch norm and activation right before a residual region belong to it."""
    joined: list[Block] = []
    for block in blocks:
        if block.kind in ("residual", "inverted residual"):
            while joined and (only(joined[-1]) == "batch_norm" or _is_preactivation(joined)):
                entry = replace(joined.pop().layers[0], path="main")
                block = replace(block, layers=(entry, *block.layers))
        joined.append(block)
    return joined


def _is_preactivation(blocks: list[Block]) -> bool:
    return len(blocks) > 1 and only(blocks[-1]) in ACTIVATIONS and only(blocks[-2]) == "batch_norm"


def _fires(blocks: list[Block]) -> list[Block]:
    """A 1×1 convolution that feeds all branches of a region, after another region or a pool: the squeeze of a fire."""
    joined: list[Block] = []
    for block in blocks:
        if block.kind == "branches" and len(joined) > FIRE_CHAIN and _is_squeeze(joined):
            squeeze = tuple(layer for part in joined[-FIRE_CHAIN:] for layer in part.layers)
            del joined[-FIRE_CHAIN:]
            block = replace(block, kind="fire", layers=(*squeeze, *block.layers))
        joined.append(block)
    return joined


def _is_squeeze(blocks: list[Block]) -> bool:
    conv = blocks[-2]
    activation = blocks[-1]
    before = blocks[-3]
    pointwise = only(conv) == "conv" and set(conv.layers[0].node.get("kernel", ())) == {1}
    return pointwise and only(activation) in ACTIVATIONS and (not before.plain or only(before) in POOLS)


def _transitions(blocks: list[Block]) -> list[Block]:
    """Norm, activation, convolution and pool between two dense blocks."""
    joined: list[Block] = []
    for block in blocks:
        previous = joined[-1] if joined else None
        opens = previous is not None and previous.kind == "dense" and only(block) == "batch_norm"
        if opens:
            joined.append(Block("transition", (replace(block.layers[0], path="transition"),)))
        elif previous is not None and previous.kind == "transition" and previous.output.op not in POOLS and block.plain:
            joined[-1] = replace(previous, layers=(*previous.layers, replace(block.layers[0], path="transition")))
        else:
            joined.append(block)
    return [piece for block in joined for piece in _unless_pooled(block)]


def _unless_pooled(block: Block) -> list[Block]:
    """Takes a transition apart unless it ends in a pool: what follows the last dense block belongs to the head."""
    if block.kind == "transition" and (block.output.op not in POOLS or block.output.op.startswith("global")):
        return [Block("layer", (replace(layer, path=""),)) for layer in block.layers]
    return [block]


def _inverted(blocks: list[Block]) -> list[Block]:
    """Chains that end in a convolution without activation: inverted residuals whose shortcut does not fit."""
    joined: list[Block] = []
    for number, block in enumerate(blocks):
        joined.append(block)
        following = only(blocks[number + 1]) if number + 1 < len(blocks) else "end"
        linear = only(block) == "conv" and following not in ACTIVATIONS and following not in ("lrn", "end", "affine")
        start = _bottleneck_start(joined) if linear and following != "batch_norm" else None
        if start is not None:
            layers = tuple(layer for part in joined[start:] for layer in part.layers)
            joined[start:] = [Block("inverted residual", tuple(replace(layer, path="main") for layer in layers))]
    return joined


def _bottleneck_start(blocks: list[Block]) -> int | None:
    """Where the block that the last (linear) convolution closes begins; None if it closes none."""
    start = len(blocks) - 1
    while start > 0 and (only(blocks[start - 1]) in ACTIVATIONS or blocks[start - 1].kind == "gate"):
        start -= 1
    widest = only(blocks[start - 1]) == "conv" and start > 0
    if not widest or start == len(blocks) - 1:
        return None
    start -= 1
    if not is_depthwise(blocks[start].layers[0].node):
        grows = blocks[start].output.shape[1] > blocks[-1].output.shape[1]
        return start if grows else None
    if start > 1 and only(blocks[start - 1]) in ACTIVATIONS and _is_expansion(blocks[start - 2]):
        start -= 2
    return start


def _is_expansion(block: Block) -> bool:
    return only(block) == "conv" and set(block.layers[0].node.get("kernel", ())) == {1}
