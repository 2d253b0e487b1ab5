"""Blocks put into stages: input, stem, stage 1 …, head."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from zoolens.findings.graph.ir.model import Shape
from zoolens.findings.graph.ir.vocabulary import POOLS
from zoolens.findings.graph.outline.block_regions import only
from zoolens.findings.graph.outline.blocks import Block, resolution

SCALING: Final = frozenset({"affine", "mul", "add", "sub", "div", "batch_norm"})  # what preprocessing consists of


def staged(blocks: list[Block]) -> list[Block]:
    first, last = _body(blocks)
    entry = _entry_length(blocks)
    staged: list[Block] = []
    stage = 0
    shape_before: Shape | None = None
    for number, block in enumerate(blocks):
        if block.kind == "auxiliary" or number < entry or not first <= number <= last:
            name = "auxiliary" if block.kind == "auxiliary" else "input" if number < entry else "stem"
            staged.append(replace(block, stage="head" if number > last and name == "stem" else name))
            continue
        shape = block.output.shape
        moved = shape_before is not None and not _same_extent(shape_before, shape) and not _closes_stage(block)
        if shape_before is None or moved or (stage and _projects(block) and number > first):
            stage += 1
        shape_before = shape if shape_before is None or not _closes_stage(block) else shape_before
        staged.append(replace(block, stage=f"stage {stage}"))
    return staged


def _same_extent(shape_a: Shape, shape_b: Shape) -> bool:
    """Whether two shapes have one resolution, or one number of elements as tokens here and as a map there."""
    if resolution(shape_a) == resolution(shape_b):
        return True
    return len(shape_a) != len(shape_b) and prod(shape_a) == prod(shape_b)


def _closes_stage(block: Block) -> bool:
    """Downsampling that ends a stage instead of beginning one: a pool, or a strided block of unchanged width."""
    return only(block) in POOLS or block.kind == "transition" or _keeps_stage(block)


def _keeps_stage(block: Block) -> bool:
    """A residual block that strides without a projection (max-pool on its shortcut) is the last of its stage."""
    pools = any(layer.path == "shortcut" and layer.kind == "pool" for layer in block.layers)
    return block.kind == "residual" and pools and not _projects(block)


def _projects(block: Block) -> bool:
    return block.kind == "residual" and any(layer.path == "shortcut" and layer.kind == "conv" for layer in block.layers)


def _body(blocks: list[Block]) -> tuple[int, int]:
    """First and last block between stem and head; without any blocks, all that has a resolution."""
    real = [
        n for n, block in enumerate(blocks) if not block.plain and block.kind not in ("gate", "region", "auxiliary")
    ]
    if real:
        return real[0], real[-1]
    spatial = [n for n, block in enumerate(blocks) if resolution(block.output.shape) and block.kind != "auxiliary"]
    return _entry_length(blocks), spatial[-1] if spatial else -1


def _entry_length(blocks: list[Block]) -> int:
    """The input and what scales it before the first layer."""
    length = 0
    while length < len(blocks) and (only(blocks[length]) == "input" or _scales_input(blocks[length], length)):
        length += 1
    return length


def _scales_input(block: Block, position: int) -> bool:
    return position > 0 and only(block) in SCALING
