"""What changes nothing disappears: identities, dropout, casts, and arrangements that arrange nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import NOISE
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite


def remove_noise(graph: Graph) -> Graph:
    return rewrite(graph, _RULES)


def remove_identities(graph: Graph) -> Graph:
    """Removes only what is noise by its name. A shuffle is looked for before reshapes in a row are joined."""
    return rewrite(graph, dict.fromkeys(NOISE, _skip))


def _skip(node: Node, _: Editor) -> Node | str:
    return node.inputs[0]


def _same_shape(node: Node, editor: Editor) -> Node | str:
    """An operator that does nothing where the shape stays as it is."""
    if editor.maker(node.inputs[0]).shape == node.shape:
        return node.inputs[0]
    return node


def _reshape(node: Node, editor: Editor) -> Node | str:
    """Removes a reshape that changes nothing, and the first of two reshapes in a row."""
    if editor.maker(node.inputs[0]).shape == node.shape:
        return node.inputs[0]
    inner = editor.made_by(node.inputs[0], "reshape")
    if inner is None:
        return node
    if editor.maker(inner.inputs[0]).shape == node.shape:
        return inner.inputs[0]
    return replace(node, inputs=inner.inputs)


def _transpose(node: Node, editor: Editor) -> Node | str:
    perm = tuple(node.get("perm"))
    inner = editor.made_by(node.inputs[0], "transpose")
    source = node.inputs
    if inner is not None:
        perm = tuple(inner.get("perm")[axis] for axis in perm)
        source = inner.inputs
    if perm == tuple(range(len(perm))):
        return source[0]
    if inner is None:
        return node
    return replace(node.with_attributes(perm=perm), inputs=source)


def _slice(node: Node, editor: Editor) -> Node | str:
    whole = node.get("step", 1) == 1 and editor.maker(node.inputs[0]).shape == node.shape
    return node.inputs[0] if whole else node


def _pad(node: Node, _: Editor) -> Node | str:
    return node if any(node.get("pads")) else node.inputs[0]


def _concat(node: Node, _: Editor) -> Node | str:
    return node.inputs[0] if len(node.inputs) == 1 else node


def _pool(node: Node, _: Editor) -> Node | str:
    kernel = node.get("kernel")
    stride = node.get("stride") or (1,)
    plain = set(kernel) == {1} and set(stride) == {1} and not any(node.get("pads") or ())
    return node.inputs[0] if plain else node


def _neutral(value: float, *, left: bool) -> Rule:
    def rule(node: Node, editor: Editor) -> Node | str:
        if node.get("scalar") != value or (node.get("reverse") and not left):
            return node
        return _same_shape(node, editor)

    return rule


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(NOISE, _skip),
    **dict.fromkeys(("expand", "resize", "adaptive_avg_pool", "adaptive_max_pool", "flatten"), _same_shape),
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "max_pool": _pool,
    "avg_pool": _pool,
    "add": _neutral(0, left=True),
    "sub": _neutral(0, left=False),
    "mul": _neutral(1, left=True),
    "div": _neutral(1, left=False),
    "pow": _neutral(1, left=False),
}
