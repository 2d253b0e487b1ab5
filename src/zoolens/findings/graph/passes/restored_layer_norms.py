"""Layer norms, RMS norms and L2 norms that a source wrote out in reductions and arithmetic get their name."""

from __future__ import annotations

from dataclasses import replace
from math import isclose, sqrt
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Value
from zoolens.findings.graph.passes.editor import Editor, rewrite

_NEGLIGIBLE: Final = 1e-6  # added to a sum of squares: it moves a vector of length 1 by half a millionth
_CLOSE: Final = 1e-5  # a quantised file may write 2 as 255 steps


def name_normalisations(graph: Graph) -> Graph:
    return rewrite(graph, {"mul": _normalisation, "div": _normalisation})


def _normalisation(node: Node, editor: Editor) -> Node | str:
    if len(node.inputs) != 2:
        return node
    pairs = [node.inputs, node.inputs[::-1]] if node.op == "mul" else [node.inputs]
    for x, factor in pairs:
        root = _root(factor, node.op == "mul", editor)
        if root is None:
            continue
        radicand, floor = root
        named = None
        if not floor:
            named = _layer_norm(node, x, radicand, editor) or _rms_norm(node, x, radicand, editor)
        named = named or _l2_normalize(node, x, radicand, floor, editor)
        if named is not None:
            return named
    return node


def _root(name: str, inverse: bool, editor: Editor) -> tuple[str, float] | None:
    """What stands under the root, in a factor that is a root (or, `inverse`, one over it), and the root's floor."""
    node = editor.maker(name)
    if node.op == "expand":
        return _root(node.inputs[0], inverse, editor)
    if inverse and node.op in ("reciprocal", "div"):
        one_over = node.op == "reciprocal" or (node.get("reverse") and node.get("scalar") == 1)
        return _root(node.inputs[0], False, editor) if one_over else None
    power = node.get("scalar") if node.op == "pow" else None
    if node.op == ("rsqrt" if inverse else "sqrt") or power == (-0.5 if inverse else 0.5):
        return node.inputs[0], 0.0
    floor = floor_of(node)
    root = _root(node.inputs[0], False, editor) if floor is not None and not inverse else None
    if root is not None and floor is not None:
        return (root[0], max(root[1], floor))
    return None


def floor_of(node: Node) -> float | None:
    """The number below which a value may not fall, if that is all that a node sees to."""
    if node.op == "clip" and node.get("high") is None:
        return float(node.get("low", 0.0))
    if node.op == "maximum" and node.get("scalar") is not None:
        return float(node.get("scalar"))
    return None


def _layer_norm(node: Node, centred: str, radicand: str, editor: Editor) -> Node | None:
    """Restores (x - mean) / sqrt(mean((x - mean)²) + epsilon)."""
    shifted = editor.made_by(radicand, "add")
    centre = editor.made_by(centred, "sub")
    if shifted is None or centre is None or shifted.get("scalar") is None or len(centre.inputs) != 2:
        return None
    variance = editor.made_by(shifted.inputs[0], "mean")
    mean = editor.made_by(centre.inputs[1], "mean")
    if variance is None or mean is None or _squared(variance.inputs[0], editor) != centred:
        return None
    axes = tuple(mean.get("axes"))
    if mean.inputs[0] != centre.inputs[0] or tuple(variance.get("axes")) != axes:
        return None
    attributes: dict[str, Value] = {"epsilon": float(shifted.get("scalar")), "axes": axes}
    return replace(node, op="layer_norm", inputs=(centre.inputs[0],), attributes=attributes)


def _rms_norm(node: Node, x: str, radicand: str, editor: Editor) -> Node | None:
    """Restores x / sqrt(mean(x²) + epsilon) over the last axis."""
    shifted = editor.made_by(radicand, "add")
    if shifted is None or shifted.get("scalar") is None:
        return None
    mean = editor.made_by(shifted.inputs[0], "mean")
    if mean is None or _squared(mean.inputs[0], editor) != x or not mean.get("keep", False):
        return None
    attributes: dict[str, Value] = {"epsilon": float(shifted.get("scalar")), "axes": tuple(mean.get("axes"))}
    return replace(node, op="rms_norm", inputs=(x,), attributes=attributes)


def _l2_normalize(node: Node, x: str, radicand: str, floor: float, editor: Editor) -> Node | None:
    """Restores x / max(sqrt(sum(x²)), epsilon). A floor of the sum, or a negligible number added to it, is the square
    of a floor of its root. With a larger number it is another function, which stays written out."""
    total = editor.maker(radicand)
    if total.op == "add" and float(total.get("scalar") or 0.0) > _NEGLIGIBLE:
        return None
    under = float(total.get("scalar") or 0.0) if total.op == "add" and len(total.inputs) == 1 else floor_of(total)
    if under is not None and len(total.inputs) == 1 and total.op in ("maximum", "clip", "add"):
        floor = max(floor, sqrt(under))
        total = editor.maker(total.inputs[0])
    if total.op != "sum" or not total.get("keep", False) or _squared(total.inputs[0], editor) != x:
        return None
    attributes: dict[str, Value] = {"axes": tuple(total.get("axes")), "epsilon": floor or None}
    return replace(node, op="l2_normalize", inputs=(x,), attributes={}).with_attributes(**attributes)


def _squared(name: str, editor: Editor) -> str | None:
    node = editor.maker(name)
    is_power = node.op == "pow" and not node.get("reverse")
    is_second_power = is_power and isclose(node.get("scalar") or 0, 2, rel_tol=_CLOSE)
    is_own_product = node.op == "mul" and len(node.inputs) == 2 and node.inputs[0] == node.inputs[1]
    return node.inputs[0] if node.op == "square" or is_second_power or is_own_product else None
