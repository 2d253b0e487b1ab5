"""Which differences are proved where a network has operators that are not understood.

Such an operator may be anything: one fused operator stands for a block of layers, so that whatever the other side has
in its place is no difference, and the layers around it may be put beside the wrong ones. What proves a difference is a
layer that is understood on one side and that the other side cannot have: it lacks one like it, and none of its
operators that are not understood could hide one. An operator that sorts hides no convolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Final

from zoolens.findings.graph.diff import diff_causes, settings
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import VIEWS, WINDOWED
from zoolens.findings.graph.outline.blocks import LEARNED

# Causes that a layer's own description (`_description`) shows; a bias or a norm may be inside of a neighbour.
_SHOWN: Final = frozenset(
    {
        diff_causes.STRIDE_PLACEMENT,
        diff_causes.STRIDE,
        diff_causes.KERNEL,
        diff_causes.WIDTH,
        diff_causes.CLASSES,
        diff_causes.DEPTH,
        diff_causes.HEAD,
        diff_causes.GROUPS,
        diff_causes.DILATION,
        diff_causes.POOLING,
        diff_causes.SHORTCUT,
        diff_causes.OPERATOR,
        diff_causes.ACTIVATION,
    }
)
_OF_INPUTS: Final = frozenset({diff_causes.INPUT_SIZE, diff_causes.INPUT_CHANNELS})
_POOLS: Final = frozenset({"max_pool", "avg_pool"})
# No pass makes these of a part of something else, as it leaves a sigmoid of an activation that it did not recognise.
_ACTIVATIONS: Final = frozenset({"elu", "selu", "leaky_relu", "prelu", "gelu", "mish", "silu", "hard_swish", "relu6"})


def proved(differences: Sequence[Difference], a: Graph, b: Graph) -> tuple[list[Difference], list[Difference]]:
    """The differences that are proved, and the rest. One that is proved at some of its places is in both."""
    sides = _Side(a), _Side(b)
    if not a.unknown and not b.unknown:
        return list(differences), []
    certain, rest = [], []
    for difference in differences:
        holding = [finding for finding in difference.findings if _is_proved(finding, sides)]
        left = [finding for finding in difference.findings if finding not in holding]
        if holding:
            certain.append(replace(difference, findings=tuple(holding)))
        if left:
            rest.append(replace(difference, findings=tuple(left)))
    return certain, rest


def beside_gaps(found: Sequence[Difference], open_: Sequence[Difference]) -> tuple[list[Difference], list[Difference]]:
    """Return proved and open differences where whole parts are not understood: only the inputs are known then."""
    return _with_causes(found, _OF_INPUTS, open_)


def beside_batches(
    found: Sequence[Difference], open_: Sequence[Difference]
) -> tuple[list[Difference], list[Difference]]:
    """Return proved and open differences where inputs differ in what may be a batch: layers of other kinds and settings
    are proved, while how values are arranged may follow from the batch."""
    return _with_causes(found, _SHOWN, open_)


def _with_causes(
    found: Sequence[Difference], causes: Container[str], open_: Sequence[Difference]
) -> tuple[list[Difference], list[Difference]]:
    proved_ = [difference for difference in found if difference.cause in causes]
    rest = [difference for difference in found if difference.cause not in causes]
    return proved_, [*rest, *open_]


class _Side:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def hides_layers(self) -> bool:
        """Whether an operator that is not understood could be a learned layer, or several. It could, unless its
        importer knows that it multiplies nothing, as in sorting: weights may be in an attribute or in another file."""
        return any(node.get("macs") != 0 for node in self.graph.unknown)

    @cached_property
    def every(self) -> Counter[Hashable]:
        return Counter(map(_description, self.graph))

    @cached_property
    def windows(self) -> set[Hashable]:
        return set(map(_window, self.graph))

    @cached_property
    def certain(self) -> Counter[Hashable]:
        """Without the neighbours of operators that are not understood: those may be one layer in several parts, such
        as a joint projection whose three parts only the operator behind it tells apart."""
        return Counter(_description(node) for node in self.graph if node.name not in self.beside_unknown)

    @cached_property
    def beside_unknown(self) -> set[str]:
        near: set[str] = set()
        for node in self.graph.unknown:
            near.update(name for source in node.inputs for name in self._passing(source))
            near.update(user.name for user in self._users(node))
        return near

    def _passing(self, name: str) -> list[str]:
        """A value and what it was made from, through operators that only arrange values."""
        names = [name]
        while (node := self.graph.by_name[names[-1]]).op in VIEWS and node.inputs:
            names.append(node.inputs[0])
        return names

    def _users(self, node: Node) -> list[Node]:
        found: list[Node] = []
        waiting = list(self.graph.consumers[node.name])
        while waiting:
            user = waiting.pop()
            found.append(user)
            if user.op in VIEWS:
                waiting.extend(self.graph.consumers[user.name])
        return found


def _is_proved(finding: LayerFinding, sides: tuple[_Side, _Side]) -> bool:
    pair = finding.pair
    if finding.cause in _OF_INPUTS:
        return pair.either.node.op == "input"
    if finding.cause not in _SHOWN:
        return False
    on_a = pair.a is not None and _is_lacking(pair.a.node, *sides)
    return on_a or (pair.b is not None and _is_lacking(pair.b.node, *reversed(sides)))


def _is_lacking(node: Node, own: _Side, other: _Side) -> bool:
    """Whether the other side cannot have this layer. A neighbour of an operator that is not understood proves that by
    nothing but a window that the other side has nowhere."""
    if node.op in LEARNED:
        hidden = other.hides_layers
    elif node.op in _POOLS or node.op in _ACTIVATIONS:
        hidden = bool(other.graph.unknown)
    else:
        return False
    if hidden:
        return False
    if node.name in own.beside_unknown:
        return prod(settings.kernel(node)) > 1 and _window(node) not in other.windows
    described = _description(node)
    return own.certain[described] > other.every[described]


def _description(node: Node) -> Hashable:
    kernel = node.parameter("kernel")
    shape = kernel.shape[:2] if kernel else ()
    # A dense layer on tokens and a 1×1 convolution are one layer in two spellings.
    kind = "pointwise" if settings.is_pointwise(node) else _window(node)
    return kind, shape


def _window(node: Node) -> Hashable:
    if node.op not in WINDOWED:
        return node.op
    return node.op, settings.kernel(node), settings.stride(node), settings.dilation(node)
