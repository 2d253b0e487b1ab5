"""What a structure's signature does not hold although it changes a network: told as not known, never as agreement.

Signatures pass over norms, biases and single numbers, because exporters fold and move them. Where these can be seen not
to be folded but to be missing or added, a network with the right signature may still be another one.
"""

from __future__ import annotations

from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import ARITHMETIC, NORMS
from zoolens.findings.graph.signatures.signatures import LEARNED

# Networks that scale or shift values between their layers by design (found by reading 28 networks of two zoos).
_SCALED_BY_DESIGN: Final = ("inception_resnet_v2", "swin_v2", "swinv2", "_frn")
_REMEDY: Final = "Compare it with the network that is meant: `zoolens diff`."


def blind_spots(graph: Graph, architectures: tuple[str, ...]) -> tuple[Gap, ...]:
    """What the signature of a graph does not hold, and what would make it known."""
    gaps = []
    scaled = [] if any(mark in id_ for id_ in architectures for mark in _SCALED_BY_DESIGN) else _inner_numbers(graph)
    if scaled:
        what = f"{scaled[0].op} of the number {scaled[0].get('scalar')} between layers"
        gaps.append(Gap(what, len(scaled), _REMEDY))
    if _lacks_norms(graph):
        gaps.append(Gap("norms, which are neither there nor folded into biases", 1, _REMEDY))
    return tuple(gaps)


def _inner_numbers(graph: Graph) -> list[Node]:
    """Arithmetic with one number that stands behind one learned layer and before another."""
    behind: set[str] = set()
    for node in graph.nodes:
        if any(name in behind or graph.by_name[name].op in LEARNED for name in node.inputs):
            behind.add(node.name)
    before: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op in LEARNED or node.name in before:
            before.update(node.inputs)
    inner = behind & before
    return [node for node in graph if node.name in inner and node.op in ARITHMETIC and len(node.inputs) == 1]


def _lacks_norms(graph: Graph) -> bool:
    """A norm that is folded leaves a bias, so that convolutions without norm and bias never had one. Attention comes
    with at least one norm for each, which cannot be folded."""
    norms = sum(node.op in NORMS or bool(node.get("norm")) for node in graph)
    convolutions = [node for node in graph if node.op == "conv"]
    plain = sum(node.parameter("bias") is None for node in convolutions)
    attention = sum(node.op == "attention" for node in graph)
    return norms < attention or (not norms and 2 * plain > len(convolutions))
