"""Layer norms and L2 norms that a source wrote out in reductions and arithmetic get their name."""

from __future__ import annotations

from dataclasses import replace

from zoolens.graph.model import Graph, Node, Value
from zoolens.graph.passes.editing import Editor, rewrite


def name_normalisations(graph: Graph) -> Graph:
    return rewrite(graph, {"mul": _normalisation, "div": _normalisation})


def _normalisation(node: Node, editor: Editor) -> Node | str:
    if len(node.inputs) != 2:
        return node
    pairs = [node.inputs, node.inputs[::-1]] if node.op == "mul" else [node.inputs]
    for x, factor in pairs:
        radicand = _radicand(factor, node.op == "mul", editor)
        if radicand is not None:
            found = _layer_norm(node, x, radicand, editor) or _l2_normalize(node, x, radicand, editor)
            if found is not None:
                return found
    return node


def _radicand(name: str, inverse: bool, editor: Editor) -> str | None:
    """What stands under the root, in a factor that is a root (or, `inverse`, one over it)."""
    node = editor.maker(name)
    if inverse and node.op in ("reciprocal", "div"):
        one_over = node.op == "reciprocal" or (node.get("reverse") and node.get("scalar") == 1)
        return _radicand(node.inputs[0], False, editor) if one_over else None
    power = node.get("scalar") if node.op == "pow" else None
    if node.op == ("rsqrt" if inverse else "sqrt") or power == (-0.5 if inverse else 0.5):
        return node.inputs[0]
    if node.op in ("maximum", "clip") and not inverse:  # a floor under the root
        return _radicand(node.inputs[0], False, editor)
    return None


def _layer_norm(node: Node, centred: str, radicand: str, editor: Editor) -> Node | None:
    """(x - mean) / sqrt(mean((x - mean)²) + epsilon)"""
    shifted, centre = editor.made_by(radicand, "add"), editor.made_by(centred, "sub")
    if shifted is None or centre is None or shifted.get("scalar") is None or len(centre.inputs) != 2:
        return None
    variance, mean = editor.made_by(shifted.inputs[0], "mean"), editor.made_by(centre.inputs[1], "mean")
    if variance is None or mean is None or _squared(variance.inputs[0], editor) != centred:
        return None
    axes = tuple(mean.get("axes"))
    if mean.inputs[0] != centre.inputs[0] or tuple(variance.get("axes")) != axes:
        return None
    attributes: dict[str, Value] = {"epsilon": float(shifted.get("scalar")), "axes": axes}
    return replace(node, op="layer_norm", inputs=(centre.inputs[0],), attributes=attributes)


def _l2_normalize(node: Node, x: str, radicand: str, editor: Editor) -> Node | None:
    """x / sqrt(sum(x²)), with or without a small floor"""
    total = editor.maker(radicand)
    if total.op in ("maximum", "clip", "add") and len(total.inputs) == 1:
        total = editor.maker(total.inputs[0])
    if total.op != "sum" or not total.get("keep", False) or _squared(total.inputs[0], editor) != x:
        return None
    return replace(node, op="l2_normalize", inputs=(x,), attributes={"axes": tuple(total.get("axes"))})


def _squared(name: str, editor: Editor) -> str | None:
    node = editor.maker(name)
    square = node.op == "square" or (node.op == "pow" and node.get("scalar") == 2 and not node.get("reverse"))
    if square or (node.op == "mul" and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]):
        return node.inputs[0]
    return None
