"""Blocks that only one side closes with a shortcut.

Without its shortcut a residual block falls apart into single layers, and no alignment of blocks would put those beside
the block of the other side. Here such a run of layers becomes one block of kind "chain".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Final

from zoolens.graph.blocks import Block, Layer
from zoolens.graph.diff import settings
from zoolens.graph.diff.similarity import RESIDUAL, channels

CHAIN: Final = "chain"
Look = Callable[[Layer], Hashable]


def by_kind(layer: Layer) -> Hashable:
    """What a layer is, without its widths and strides."""
    return layer.kind, settings.kernel(layer.node)


def by_setting(layer: Layer) -> Hashable:
    """What a layer is, with its widths, strides and groups."""
    node = layer.node
    kernel = node.parameter("kernel")
    taken = kernel.shape if kernel else ()
    return node.op, settings.kernel(node), settings.stride(node), settings.groups(node), channels(node), taken


def with_chains(blocks: Sequence[Block], other: Sequence[Block], look: Look) -> list[Block]:
    """The same blocks, with each run of layers joined that is a residual block of the other side but for its shortcut.

    Longer runs come first, so that a block is never mistaken for a smaller one that it begins with.
    """
    models: dict[Hashable, Block] = {}
    for block in other:
        if _is_closed(block):
            models.setdefault(_content(_without_shortcut(block), look), block)
    sizes = sorted({len(_without_shortcut(block)) for block in models.values()}, reverse=True)
    found: list[Block] = []
    number = 0
    while number < len(blocks):
        run, model = _run_at(blocks, number, sizes, models, look)
        found.append(_chain(run, model, look) if model else blocks[number])
        number += len(run) or 1
    return found


def _run_at(
    blocks: Sequence[Block], start: int, sizes: Sequence[int], models: dict[Hashable, Block], look: Look
) -> tuple[Sequence[Block], Block | None]:
    for size in sizes:
        stop, length = start, 0
        while stop < len(blocks) and length < size and not _is_closed(blocks[stop]):
            length += len(blocks[stop].layers)
            stop += 1
        run = blocks[start:stop]
        if length == size and len(run) > 1:
            model = models.get(_content([layer for block in run for layer in block.layers], look))
            if model is not None:
                return run, model
    return (), None


def _is_closed(block: Block) -> bool:
    """Whether a block ends in the addition of a shortcut."""
    return block.kind in RESIDUAL and any(_is_closing(layer) for layer in block.layers)


def _is_closing(layer: Layer) -> bool:
    return layer.node.op == "add" and layer.path == ""


def _without_shortcut(block: Block) -> list[Layer]:
    return [layer for layer in block.layers if layer.path != "shortcut" and not _is_closing(layer)]


def _content(layers: Sequence[Layer], look: Look) -> Hashable:
    return frozenset(Counter(map(look, layers)).items())


def _chain(run: Sequence[Block], model: Block, look: Look) -> Block:
    """The run as one block, each layer on the path on which the other side has its like."""
    paths: dict[Hashable, list[str]] = {}
    for layer in _without_shortcut(model):
        paths.setdefault(look(layer), []).append(layer.path)
    layers = (layer for block in run for layer in block.layers)
    return Block(CHAIN, tuple(replace(layer, path=paths[look(layer)].pop(0)) for layer in layers))
