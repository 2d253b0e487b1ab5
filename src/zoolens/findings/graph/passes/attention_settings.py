"""What a file writes out around attention, as the settings of attention that compute the same.

Exporters add a causal mask as numbers, and repeat keys and values for the heads of queries that share them. Tables of
rotary positions that are equal become one, because some files keep them for each layer. Works on canonical graphs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.mask_values import CAUSAL, HIDES_NOTHING
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.rotary_tables import RATES, ROTARY
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.noise import remove_noise
from zoolens.findings.graph.passes.order import settle_order
from zoolens.findings.graph.passes.tokens import unify_tokens

_VIEWS: Final = ("reshape", "expand")


def set_causal(graph: Graph) -> Graph:
    """Drops masks that hide exactly what comes later, and lets attention say so; and masks that hide nothing."""
    return _ordered(rewrite(graph, {"attention": _without_mask}), graph)


def keep_few_heads(graph: Graph) -> Graph:
    """Gives attention its keys and values as they are before each is repeated for several heads of queries."""
    changed = rewrite(graph, {"attention": _with_few_heads})
    return graph if changed is graph else settle_order(unify_tokens(remove_noise(changed)))


def share_tables(graph: Graph) -> Graph:
    """Keeps each table of rotary positions once."""
    first: dict[Hashable, str] = {}

    def shared(node: Node, _: Editor) -> Node | str:
        if node.get(RATES) is None:
            return node
        kept = first.setdefault((node.get(ROTARY), node.get(RATES), node.shape), node.name)
        return node if kept == node.name else kept

    return _ordered(rewrite(graph, {"constant": shared}), graph)


def _ordered(changed: Graph, before: Graph) -> Graph:
    return before if changed is before else settle_order(changed)


def _without_mask(node: Node, editor: Editor) -> Node | str:
    if len(node.inputs) != 4:
        return node
    rows, columns = (editor.maker(name).shape[-2] for name in node.inputs[:2])
    mask = editor.maker(node.inputs[3])
    while mask.op in _VIEWS and editor.maker(mask.inputs[0]).shape[-2:] == (rows, columns):
        mask = editor.maker(mask.inputs[0])
    if mask.get("mask") == HIDES_NOTHING:
        return replace(node, inputs=node.inputs[:3])
    # A triangle of other axes tells apart samples of a batch, or heads.
    if mask.get("mask") != CAUSAL or mask.get("weak") or mask.shape[-2:] != (rows, columns) or rows != columns:
        return node
    return replace(node.with_attributes(causal=True), inputs=node.inputs[:3])


def _with_few_heads(node: Node, editor: Editor) -> Node | str:
    query, *kept = (editor.maker(name) for name in node.inputs[:3])
    before = [_before_repeating(each, editor) for each in kept]
    if len(query.shape) != 4 or None in before:
        return node
    sources = [each for each in before if each is not None]
    if len({each.shape[1] for each in sources}) != 1:
        return node
    few = [
        editor.emit("reshape", (each.name,), (*each.shape[:2], *each.shape[3:]), base=each.name, source=each.source)
        for each in sources
    ]
    return replace(node, inputs=(node.inputs[0], *few, *node.inputs[3:]))


def _before_repeating(heads: Node, editor: Editor) -> Node | None:
    """(N, heads, 1, tokens, width) of a value each of whose heads stands several times in a row; None where it is no
    such value."""
    spread = editor.maker(heads.inputs[0]) if heads.op == "reshape" else heads
    if spread.op != "expand" or len(heads.shape) != 4 or len(spread.shape) != 5:
        return None
    source = editor.maker(spread.inputs[0])
    batch, kept, times, *rest = spread.shape
    if source.shape != (batch, kept, 1, *rest) or heads.shape != (batch, kept * times, *rest):
        return None
    return source
