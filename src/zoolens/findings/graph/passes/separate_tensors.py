"""Equal tensors that a file stores once, as one for each layer.

Optimisers store equal initializers once, such as the zeros of many biases. Layers that share weights share a kernel;
layers with kernels of their own have biases, scales and shifts of their own, whatever their file shares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.editor import Editor, rewrite

_WEIGHTS: Final = frozenset({"kernel", "recurrent_kernel", "projection", "table", "value"})


def separate_tensors(graph: Graph) -> Graph:
    shared = _shared_keys(graph)
    lent = {node.name for node in graph if _borrowed(node, shared)}
    if not lent:
        return graph

    def own(node: Node, editor: Editor) -> Node | str:
        if node.name not in lent:
            return node
        keys = {tensor.role: _copied(tensor, node, editor) for tensor in _borrowed(node, shared)}
        return node.with_parameters(**keys)

    return rewrite(graph, dict.fromkeys({node.op for node in graph if node.name in lent}, own))


def _shared_keys(graph: Graph) -> set[str]:
    uses = Counter(tensor.key for node in graph for tensor in node.parameters if tensor.key)
    return {key for key, count in uses.items() if count > 1}


def _borrowed(node: Node, shared: set[str]) -> list[Parameter]:
    """Tensors of a layer that others have too, unless the layer shares its weights."""
    weights = [tensor for tensor in node.parameters if tensor.role in _WEIGHTS]
    if any(tensor.key in shared for tensor in weights) or node.op in FIXED:
        return []
    return [tensor for tensor in node.parameters if tensor.key in shared]


def _copied(tensor: Parameter, node: Node, editor: Editor) -> Parameter:
    key = editor.derived(f"{tensor.key}@{node.name}:{tensor.role}", lambda values: values, tensor.key)
    return replace(tensor, key=key)
