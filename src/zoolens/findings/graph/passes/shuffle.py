"""Reshape, transpose, reshape: the way every source writes a channel shuffle, in either layout.

Works on raw graphs too, so that the layout is tracked through the shuffle instead of ending at its reshape.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite


def fuse_shuffles(graph: Graph) -> Graph:
    return rewrite(graph, {"reshape": _shuffle, "flatten": _shuffle})


def _shuffle(node: Node, editor: Editor) -> Node | str:
    turn = editor.made_by(node.inputs[0], "transpose")
    split = editor.made_by(turn.inputs[0], "reshape") if turn is not None else None
    if turn is None or split is None:
        return node
    whole = editor.maker(split.inputs[0]).shape
    if whole != node.shape or len(whole) < 3:
        return node
    spatial = "DHW"[-(len(whole) - 2) :]
    for channel, axes in ((1, f"NC{spatial}"), (len(whole) - 1, f"N{spatial}C")):
        groups = _groups(whole, split.shape, tuple(turn.get("perm")), channel)
        if groups:
            shuffle = replace(node, op="channel_shuffle", attributes={"groups": groups}, axes=axes)
            return replace(shuffle, inputs=split.inputs)
    return node


def _groups(whole: tuple[int, ...], split: tuple[int, ...], perm: tuple[int, ...], channel: int) -> int:
    """The number of groups, if `split` cuts this axis in two and `perm` swaps the halves; else 0."""
    rank = len(whole)
    apart = (*whole[:channel], *split[channel : channel + 2], *whole[channel + 1 :])
    swapped = (*range(channel), channel + 1, channel, *range(channel + 2, rank + 1))
    return split[channel] if split == apart and perm == swapped else 0
