"""Blocks that both sides have, in another order.

An alignment never crosses: of two swapped blocks it puts each beside the other one, or leaves one without a partner.
Here neighbouring rows that hold the same blocks on both sides are paired anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.similarity import channels
from zoolens.findings.graph.outline.blocks import Block, BlockLayer

Beside = tuple[Block | None, Block | None]


def reordered(rows: Sequence[Beside]) -> list[Beside]:
    """Pair equal blocks in runs of rows that hold the same blocks on both sides in another order."""
    paired: list[Beside] = []
    number = 0
    while number < len(rows):
        stop = _closing_row(rows, number) if _differs(rows[number]) else None
        if stop:
            paired.extend(_paired_anew(rows[number:stop]))
        else:
            paired.append(rows[number])
        number = stop or number + 1
    return paired


def cycles(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The cycles of a permutation: positions that change places among themselves."""
    seen: set[int] = set()
    for start, place in enumerate(places):
        if start == place or start in seen:
            continue
        cycle = [start]
        while places[cycle[-1]] != start:
            cycle.append(places[cycle[-1]])
        seen.update(cycle)
        yield tuple(sorted(cycle))


def _closing_row(rows: Sequence[Beside], start: int) -> int | None:
    """Where the fewest rows from here end that hold the same blocks on both sides; None if there are none."""
    missing: Counter[Hashable] = Counter()
    for number in range(start, len(rows)):
        a, b = rows[number]
        if any(block is not None and block.plain for block in (a, b)):
            if a is None or b is None:
                return None
            continue
        if a is not None:
            missing[_look(a)] += 1
        if b is not None:
            missing[_look(b)] -= 1
        if not any(missing.values()):
            return number + 1
    return None


def _differs(row: Beside) -> bool:
    """Whether a block stands beside none or another one; another stride alone is a matter of its placement."""
    a, b = row
    if any(block is not None and block.plain for block in row):
        return False
    return a is None or b is None or _look(a, strides=False) != _look(b, strides=False)


def _paired_anew(rows: Sequence[Beside]) -> Iterator[Beside]:
    waiting: dict[Hashable, list[Block]] = {}
    for _, b in rows:
        if b is not None and not b.plain:
            waiting.setdefault(_look(b), []).append(b)
    for a, b in rows:
        if a is not None:
            yield (a, b) if a.plain else (a, waiting[_look(a)].pop(0))


def _look(block: Block, *, strides: bool = True) -> Hashable:
    """Equal for blocks that differ in nothing but what they are given and in constants.

    Without strides, pools on the shortcut are left out too: they are there because a block strides.
    """
    looks: list[Hashable] = []
    for layer in block.layers:
        is_shortcut_pool = layer.path == "shortcut" and layer.kind == "pool"
        if strides or not is_shortcut_pool:
            looks.append(_layer_look(layer, strides=strides))
    return block.kind, *looks


def _layer_look(layer: BlockLayer, *, strides: bool) -> Hashable:
    node = layer.node
    width = channels(node) if node.parameter("kernel") else 0
    window = settings.kernel(node), settings.stride(node) if strides else (), settings.groups(node)
    return layer.path, node.op, *window, width
