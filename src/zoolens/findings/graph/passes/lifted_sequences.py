"""Convolutions and pools over sequences as those over maps of height 1, which other sources write.

TensorFlow has no other convolution over sequences than this one, and a diff has one rule for channels and extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph, Node, Parameter, Shape
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, WINDOWED
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite
from zoolens.findings.graph.passes.noise import remove_noise
from zoolens.findings.graph.passes.order import settle_order

_BY_CHANNEL: Final = frozenset({"batch_norm", "instance_norm", "group_norm"})
_GLOBAL: Final = {"mean": "global_avg_pool", "max": "global_max_pool"}


def has_sequences(graph: Graph) -> bool:
    """Whether something slides over one axis."""
    return any(node.op in WINDOWED and len(node.get("kernel", ())) == 1 for node in graph)


def lift_sequences(graph: Graph) -> Graph:
    """Works on canonical graphs."""
    lifted = _with_lifted_inputs(rewrite(graph, _RULES))
    return lifted if lifted is graph else settle_order(remove_noise(lifted))


def _window(node: Node, editor: Editor) -> Node | str:
    if len(node.get("kernel", ())) != 1:
        return node
    settings: dict[str, Any] = {**node.attributes, "kernel": (1, *node.get("kernel"))}
    for name, at_height in (("stride", 1), ("dilation", 1), ("output_pads", 0)):
        if node.get(name):
            settings[name] = (at_height, *node.get(name))
    if node.get("pads"):
        begin, end = node.get("pads")
        settings["pads"] = (0, begin, 0, end)
    parameters = tuple(_with_height(tensor) for tensor in node.parameters)
    return _squeezed(node, (_as_map(node.inputs[0], editor),), parameters, settings, editor)


def _with_height(tensor: Parameter) -> Parameter:
    if tensor.role != "kernel":
        return tensor
    return replace(tensor, shape=(*tensor.shape[:2], 1, *tensor.shape[2:]))


def _elementwise(node: Node, editor: Editor) -> Node | str:
    inputs = _maps(node, editor)
    if inputs is None:
        return node
    return _squeezed(node, inputs, node.parameters, node.attributes, editor)


def _along_channels(node: Node, editor: Editor) -> Node | str:
    return _elementwise(node, editor) if node.get("axis") == 1 else node


def _over_places(node: Node, editor: Editor) -> Node | str:
    inputs = _maps(node, editor)
    if inputs is None or tuple(node.get("axes", ())) != (2,) or node.get("keep"):
        return node
    return replace(node, op=_GLOBAL[node.op], inputs=inputs, attributes={})


def _maps(node: Node, editor: Editor) -> tuple[str, ...] | None:
    """The maps of height 1 that the inputs were made from; None where one was not."""
    found = [_map_before(name, editor) for name in node.inputs]
    if None not in found:
        return tuple(name for name in found if name is not None)
    return None


def _map_before(name: str, editor: Editor) -> str | None:
    reshape = editor.made_by(name, "reshape")
    if reshape is None or len(reshape.shape) != 3:
        return None
    if editor.maker(reshape.inputs[0]).shape == _lifted(reshape.shape):
        return reshape.inputs[0]
    return None


def _as_map(name: str, editor: Editor) -> str:
    before = _map_before(name, editor)
    return before or editor.emit("reshape", (name,), _lifted(editor.maker(name).shape), base=name)


def _lifted(shape: Shape) -> Shape:
    batch, channels, extent = shape
    return batch, channels, 1, extent


def _squeezed(
    node: Node, inputs: Sequence[str], parameters: tuple[Parameter, ...], settings: Any, editor: Editor
) -> Node:
    """The node computed on maps, and a reshape in its place."""
    value = editor.emit(
        node.op, inputs, _lifted(node.shape), base=node.name, source=node.source, parameters=parameters, **settings
    )
    return replace(node, op="reshape", inputs=(value,), attributes={}, parameters=())


def _with_lifted_inputs(graph: Graph) -> Graph:
    """Inputs that are only used as maps are maps."""
    changed = {}
    for node in graph.inputs:
        users = graph.consumers[node.name]
        if len(node.shape) == 3 and users and node.name not in graph.outputs:
            shape = _lifted(node.shape)
            if all(user.op == "reshape" and user.shape == shape for user in users):
                changed[node.name] = replace(node, shape=shape)
    if changed:
        return replace(graph, nodes=tuple(changed.get(node.name, node) for node in graph.nodes))
    return graph


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(ACTIVATIONS - {"softmax", "log_softmax"}, _elementwise),
    **dict.fromkeys(ARITHMETIC, _elementwise),
    **dict.fromkeys(_BY_CHANNEL, _elementwise),
    **dict.fromkeys(WINDOWED, _window),
    **dict.fromkeys(("affine", "concat"), _along_channels),
    **dict.fromkeys(_GLOBAL, _over_places),
}
