"""A map of one place is a vector: (N, C, 1, 1) is worked on as (N, C), and a convolution that covers its map is dense.

The reshape from vector to map sinks through every operator that does not care, until it meets the flatten that undoes
it or the map that it multiplies.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite

_SINKING: Final = (ACTIVATIONS - {"prelu"}) | ARITHMETIC | {
    "batch_norm", "affine", "concat", "slice", "softmax", "log_softmax", "exp", "square", "sqrt", "rsqrt", "neg", "abs",
    "layer_norm", "rms_norm", "l2_normalize",
}  # fmt: skip


def shrink_maps(graph: Graph) -> Graph:
    return _without_final_reshape(rewrite(graph, _RULES))


def _vector(name: str, editor: Editor) -> str | None:
    """The vector (N, C) that a map (N, C, 1, 1) was made from."""
    grown = editor.made_by(name, "reshape")
    if grown is None or not is_point(grown.shape):
        return None
    if editor.maker(grown.inputs[0]).shape == grown.shape[:2]:
        return grown.inputs[0]
    return None


def is_point(shape: Shape) -> bool:
    return len(shape) > 2 and set(shape[2:]) == {1}


def _sink(node: Node, editor: Editor) -> Node | str:
    if not is_point(node.shape):
        return node
    vectors = [_vector(name, editor) for name in node.inputs]
    inputs = [name for name in vectors if name is not None]
    along_channels = node.get("axis", 1) == 1 and tuple(node.get("axes", (1,))) == (1,)
    if len(inputs) != len(vectors) or not along_channels:
        return node
    vector = editor.emit(
        node.op, inputs, node.shape[:2], base=node.name, source=node.source, parameters=node.parameters,
        **node.attributes,
    )  # fmt: skip
    return replace(node, op="reshape", inputs=(vector,), attributes={}, parameters=())


def _conv(node: Node, editor: Editor) -> Node | str:
    if not is_point(node.shape):
        return node
    source = editor.maker(node.inputs[0])
    kernel = tuple(node.get("kernel"))
    covers = kernel == source.shape[2:] and not any(node.get("pads") or ())
    spread = set(node.get("dilation") or (1,)) != {1} and set(kernel) != {1}
    if not covers or spread or node.get("groups", 1) != 1:
        return node
    flat = _vector(source.name, editor) or _flattened(source, editor)
    width = editor.maker(flat).shape[1]
    learned = node.parameter("kernel")
    assert learned is not None  # a convolution has one
    parameters = node.with_parameters(kernel=replace(learned, shape=(node.shape[1], width))).parameters
    vector = editor.emit(
        "dense", (flat,), node.shape[:2], base=node.name, source=node.source, parameters=parameters,
        norm=node.get("norm"), epsilon=node.get("epsilon"),
    )  # fmt: skip
    return replace(node, op="reshape", inputs=(vector,), attributes={}, parameters=())


def _flattened(source: Node, editor: Editor) -> str:
    shape = (source.shape[0], prod(source.shape[1:]))
    return editor.emit("flatten", (source.name,), shape, base=source.name)


def _flatten(node: Node, editor: Editor) -> Node | str:
    vector = _vector(node.inputs[0], editor)
    if vector is not None and editor.maker(vector).shape == node.shape:
        return vector
    shape = editor.maker(node.inputs[0]).shape
    batch = editor.graph.inputs[0].shape[0] if editor.graph.inputs else 1
    if node.op == "reshape" and len(shape) > 3 and len(node.shape) == 2 and shape[0] == node.shape[0] == batch:
        return replace(node, op="flatten")
    return node


def _pooled(node: Node, editor: Editor) -> Node | str:
    """The mean over one place is that place."""
    vector = _vector(node.inputs[0], editor)
    if vector is None or any(node.get("pads") or ()):
        return node
    if node.shape == editor.maker(node.inputs[0]).shape:
        return node.inputs[0]
    return vector if node.shape == editor.maker(vector).shape else node


def _without_final_reshape(graph: Graph) -> Graph:
    """An output that is a map of one place is given as the vector."""

    def vector(name: str) -> str:
        node = graph.by_name[name]
        if node.op != "reshape" or not is_point(node.shape):
            return name
        source = node.inputs[0]
        if graph.by_name[source].shape == node.shape[:2]:
            return source
        return name

    outputs = tuple(vector(name) for name in graph.outputs)
    if outputs == graph.outputs:
        return graph
    return rewrite(replace(graph, outputs=outputs), {"reshape": _flatten})


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_SINKING, _sink),
    **dict.fromkeys(("global_avg_pool", "global_max_pool", "max_pool", "avg_pool"), _pooled),
    "conv": _conv,
    "flatten": _flatten,
    "reshape": _flatten,
}
