"""Blocks that only one side closes with a shortcut.

Without its shortcut a residual block falls apart into single layers, and no alignment of blocks would put those beside
the block of the other side. Here such a run of layers becomes one block of kind "chain".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.similarity import RESIDUAL, channels
from zoolens.findings.graph.outline.blocks import Block, BlockLayer

CHAIN: Final = "chain"
# `block_regions` takes these for the end of the block before wherever nothing else uses what they are given.
_LEADING: Final = frozenset({"layer_norm", "rms_norm"})
Look = Callable[[BlockLayer], Hashable]


def by_kind(layer: BlockLayer) -> Hashable:
    """What a layer is, without its widths and strides."""
    return layer.kind, settings.kernel(layer.node)


def by_setting(layer: BlockLayer) -> Hashable:
    """What a layer is, with its widths, strides and groups."""
    node = layer.node
    kernel = node.parameter("kernel")
    taken = kernel.shape if kernel else ()
    return node.op, settings.kernel(node), settings.stride(node), settings.groups(node), channels(node), taken


def chained(a: list[Block], b: list[Block]) -> Iterator[tuple[list[Block], list[Block]]]:
    """Both sides with chains, in every way in which they can be read that leaves at least one."""
    for look in (by_setting, by_kind):
        for split in (_whole, _without_last_norms):
            joined_a = with_chains(split(a), b, look)
            joined_b = with_chains(split(b), a, look)
            if not _chains(joined_a) and not _chains(joined_b):
                continue
            if _is_plausible(joined_a, a, b, look) and _is_plausible(joined_b, b, a, look):
                yield _rejoined(joined_a), _rejoined(joined_b)


def with_chains(blocks: Sequence[Block], other: Sequence[Block], look: Look) -> list[Block]:
    """Join each run of layers that is a residual block of the other side but for its shortcut.

    Longer runs come first, so that a block is never mistaken for a smaller one that it begins with.
    """
    models: dict[Hashable, Block] = {}
    for block in other:
        if _is_closed(block):
            models.setdefault(_content(_without_shortcut(block), look), block)
    sizes = sorted({len(_without_shortcut(block)) for block in models.values()}, reverse=True)
    joined: list[Block] = []
    number = 0
    while number < len(blocks):
        run, model = _run_at(blocks, number, sizes, models, look)
        joined.append(_chain(run, model, look) if model else blocks[number])
        number += len(run) or 1
    return joined


def _chains(blocks: Sequence[Block]) -> int:
    return sum(block.kind == CHAIN for block in blocks)


def _is_plausible(joined: Sequence[Block], before: Sequence[Block], other: Sequence[Block], look: Look) -> bool:
    """A network without any shortcut is another network (VGG), unless half of the other's blocks are in it exactly."""
    if not _chains(joined) or any(map(_is_closed, before)):
        return True
    return look is by_setting and 2 * _chains(joined) >= sum(map(_is_closed, other))


def _whole(blocks: list[Block]) -> list[Block]:
    return blocks


def _without_last_norms(blocks: list[Block]) -> list[Block]:
    """Norms that end a residual block as layers of their own: they may begin what comes next."""
    separated: list[Block] = []
    for block in blocks:
        if _is_closed(block) and block.output.op in _LEADING:
            separated.append(replace(block, layers=block.layers[:-1]))
            separated.append(Block("layer", (replace(block.layers[-1], path=""),)))
        else:
            separated.append(block)
    return separated


def _rejoined(blocks: list[Block]) -> list[Block]:
    """Norms that begin no chain are put back where they were taken from."""
    joined: list[Block] = []
    for block in blocks:
        if joined and _is_closed(joined[-1]) and block.plain and block.output.op in _LEADING:
            joined[-1] = replace(joined[-1], layers=(*joined[-1].layers, *block.layers))
        else:
            joined.append(block)
    return joined


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
    return block.kind in RESIDUAL and _closing(block) is not None


def _closing(block: Block) -> BlockLayer | None:
    """The last addition outside the paths; those before it add up what attention is given (a bias and a mask)."""
    sums = [layer for layer in block.layers if layer.node.op == "add" and layer.path == ""]
    return sums[-1] if sums else None


def _without_shortcut(block: Block) -> list[BlockLayer]:
    closing = _closing(block)
    return [layer for layer in block.layers if layer.path != "shortcut" and layer is not closing]


def _content(layers: Sequence[BlockLayer], look: Look) -> Hashable:
    """The layers in any order, but for the last: all others lead to it, whatever the order in which they are listed."""
    looks = [look(layer) for layer in layers]
    counted = frozenset(Counter(looks).items())
    return counted, *looks[-1:]


def _chain(run: Sequence[Block], model: Block, look: Look) -> Block:
    """The run as one block, each layer on the path on which the other side has its like."""
    paths: dict[Hashable, list[str]] = {}
    for layer in _without_shortcut(model):
        paths.setdefault(look(layer), []).append(layer.path)
    layers = (layer for block in run for layer in block.layers)
    return Block(CHAIN, tuple(replace(layer, path=paths[look(layer)].pop(0)) for layer in layers))
