"""What a network is, in few words: its layers and how they hang together, blind to what zoos do as they please.

Left out are norms, biases, epsilons, image size, the number of classes, what scales the input and what turns the last
layer into scores, so that a folded, quantised or retrained copy has the signature of its original. Padding, which many
frameworks derive from the image size, has a digest of its own that says something at one image size only. Four digests
cover the whole network: with everything, with activations of any kind, without activations, and without widths
too. Beside them stand the counts of all layers and of all links between layers, from which similarity is computed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log2, prod
from typing import Any, Final

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.sliding_windows import reach
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, COMMUTATIVE, FIXED, LEAVES, NORMS
from zoolens.findings.graph.outline.blocks import resolution

VERSION: Final = 1  # of this description; raised when known signatures must be made anew

LEARNED: Final = frozenset({"conv", "conv_transpose", "dense", "recurrent", "recurrent_layer", "embedding"})
_VIEWS: Final = frozenset({"flatten", "reshape", "transpose", "expand", "identity", "dropout", "cast", "output_of"})
_SCORES: Final = frozenset({"softmax", "log_softmax", "sigmoid"})
_UNORDERED: Final = COMMUTATIVE | {"concat"}
_JOINS: Final = frozenset({"add", "concat"})
_DIGEST_BYTES: Final = 8
_KERNEL: Final = re.compile(r"(\w+)(?: conv)? (?:([\d×]+)\S*(?: dilated \d+)?(?: in (\d+) groups)? )?(\d+)→(\d+)")


@dataclass(frozen=True)
class StructureSignature:
    """A network in few words. `stages` has (downsampling, learned layers, widest of them) from the finest resolution to
    the coarsest."""

    digest: str
    activated: str  # with every activation called the same
    skeleton: str  # without activations
    outline: str  # without activations and widths
    layers: Mapping[str, int] = field(hash=False)  # "conv 3×3/2 3→64": 1
    links: Mapping[tuple[str, str], int] = field(hash=False)
    activations: Mapping[str, int] = field(hash=False)
    stages: tuple[tuple[int, int, int], ...] = ()
    parameters: int = 0  # as the graph has them, norms and classes included
    macs: int = 0  # at `size`
    size: tuple[int, ...] = ()
    padding: str = ""  # of what every window pads at `size`; "" where it is not known


def signature(graph: Graph) -> StructureSignature:
    """The signature of a canonical graph."""
    walk = _Walk(graph)
    ends = [name for output in graph.outputs for name in walk.carriers(output)]
    sizes = resolution(graph.inputs[0].shape) if graph.inputs else ()
    total = cost(graph)
    return StructureSignature(
        _digest(sorted(walk.full[name] for name in ends)),
        _digest(sorted(walk.activated[name] for name in ends)),
        _digest(sorted(walk.bare[name] for name in ends)),
        _digest(sorted(walk.loose[name] for name in ends)),
        dict(walk.layers),
        dict(walk.links),
        dict(walk.activations),
        _stages(graph, sizes),
        total.parameters,
        total.macs,
        sizes,
        _digest(sorted(walk.paddings)),
    )


def without_width(layer: str) -> str:
    """The words for a layer without its widths: "conv 3×3/2" for "conv 3×3/2 3→64"."""
    kind, _, width = layer.rpartition(" ")
    return kind if kind and ("→" in width or width.isdecimal()) else layer


def least_parameters(known: StructureSignature) -> int:
    """How many numbers the kernels have together, less those whose size depends on the image or on the number of
    classes: a network with these layers has at least as many parameters."""
    kernels = sum(count * _kernel_size(layer) for layer, count in known.layers.items())
    return min(kernels, known.parameters)  # where layers share their kernels


def _kernel_size(layer: str) -> int:
    match = _KERNEL.fullmatch(layer)
    if match is None:
        return 0
    kind, window, groups, taken, width = match.groups()
    depth = 1 if kind == "depthwise" else int(taken) // int(groups or 1)
    if window:
        return prod(map(int, window.split("×"))) * depth * int(width)
    return depth * int(width)


class _Walk:
    """Digests of every node from those of its inputs, and counts of layers and links on the way."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.final = final_nodes(graph)
        self.layers: Counter[str] = Counter()
        self.links: Counter[tuple[str, str]] = Counter()
        self.activations: Counter[str] = Counter()
        self.paddings: list[str] = []
        self.full: dict[str, str] = {}
        self.activated: dict[str, str] = {}
        self.bare: dict[str, str] = {}
        self.loose: dict[str, str] = {}
        self._activated_values: set[str] = set()  # relu and then a cap are one activation
        self._seen: dict[str, tuple[str, ...]] = {}  # what stands for a node that is passed over
        self._token: dict[str, tuple[str, ...]] = {}  # the layers directly before a value, activations passed over
        for node in graph:
            self._visit(node)

    def carriers(self, name: str) -> tuple[str, ...]:
        return self._seen.get(name, (name,))

    def _visit(self, node: Node) -> None:
        inputs = tuple(name for given in node.inputs for name in self.carriers(given))
        if inputs and (_passed_over(node) or (node.op in _SCORES and node.name in self.final)):
            self._seen[node.name] = inputs[:1]
            return
        if inputs and (node.op in ACTIVATIONS or self._caps(node, inputs)):
            self._activation(node, inputs[0])
            return
        token = self._describe(node)
        before = [text for name in inputs for text in self._token[name]]
        self.layers[token] += node.op not in LEAVES
        self.links.update((text, token) for text in before)
        if any(pads := _padding(node, self.graph)):
            self.paddings.append(f"{without_width(token)} {pads} {node.get('pad_value')}")
        self._token[node.name] = (token,)
        loose = without_width(token)
        for table, text in ((self.full, token), (self.activated, token), (self.bare, token), (self.loose, loose)):
            parts = [table[name] for name in inputs]
            table[node.name] = _digest([text, *(sorted(parts) if node.op in _UNORDERED else parts)])

    def _caps(self, node: Node, inputs: tuple[str, ...]) -> bool:
        """A relu6 whose cap differs from channel to channel is a minimum with a constant."""
        constant = [self.graph.by_name[name].op in FIXED for name in inputs[1:]]
        return node.op in ("minimum", "maximum") and bool(constant) and all(constant)

    def _activation(self, node: Node, given: str) -> None:
        self.activations[node.op] += 1
        self.full[node.name] = _digest([node.op, self.full[given]])
        again = given in self._activated_values
        self.activated[node.name] = self.activated[given] if again else _digest(["activation", self.activated[given]])
        self._activated_values.add(node.name)
        self.bare[node.name], self.loose[node.name] = self.bare[given], self.loose[given]
        self._token[node.name] = self._token[given]

    def _describe(self, node: Node) -> str:
        if node.op in LEARNED:
            return _learned(node, self.graph, classes=node.name in self.final)
        if node.op in ("max_pool", "avg_pool"):
            return f"{node.op} {_window(node)}"
        if node.op in _JOINS and len(node.shape) > 1:
            return f"{node.op} {node.shape[1] if len(node.shape) == 4 else node.shape[-1]}"
        if node.op == "slice" and len(node.shape) == 4 and node.get("axis") == 1:
            return f"slice {node.get('start')}→{node.get('stop')}"
        detail = {"attention": "heads", "channel_shuffle": "groups", "unknown": "source_op"}.get(node.op)
        return f"{node.op} ({node.get(detail)})" if detail else node.op


def _passed_over(node: Node) -> bool:
    return node.op in NORMS or node.op in _VIEWS or (node.op in ARITHMETIC and len(node.inputs) == 1)


def final_nodes(graph: Graph) -> frozenset[str]:
    """Nodes after which nothing is learned any more, the last learned layers included."""
    final: set[str] = set()
    for node in reversed(graph.nodes):
        users = graph.consumers[node.name]
        if all(user.name in final and user.op not in LEARNED for user in users):
            final.add(node.name)
    return frozenset(final)


def _learned(node: Node, graph: Graph, *, classes: bool) -> str:
    kernel = node.parameter("kernel")
    out = "classes" if classes else str(node.shape[1] if node.op != "dense" and len(node.shape) > 2 else node.shape[-1])
    if kernel is None:
        return f"{node.op} ?→{out}"
    if node.op == "dense":
        flattened = graph.by_name[node.inputs[0]].op == "flatten"
        return f"dense {'map' if flattened else kernel.shape[1]}→{out}"
    groups = int(node.get("groups", 1))
    depthwise = groups > 1 and kernel.shape[1] == 1
    kind = "depthwise" if depthwise else "conv" if node.op == "conv" else "transposed conv"
    grouped = f" in {groups} groups" if groups > 1 and not depthwise else ""
    return f"{kind} {_window(node)}{grouped} {kernel.shape[1] * groups}→{out}"


def _window(node: Node) -> str:
    stride = max(node.get("stride") or (1,))
    dilation = max(node.get("dilation") or (1,))
    text = "×".join(map(str, node.get("kernel", ())))
    return text + (f"/{stride}" if stride > 1 else "") + (f" dilated {dilation}" if dilation > 1 else "")


def _padding(node: Node, graph: Graph) -> tuple[int, ...]:
    """What a window pads at the beginning and at the end of each axis, less what no window reaches: a 3×3 window of
    stride 2 that pads 1 on both sides of an even extent never sees the last."""
    pads = node.get("pads") or ()
    kernel = node.get("kernel") or ()
    rank = len(kernel)
    if not any(pads) or node.op == "conv_transpose" or len(pads) != 2 * rank or len(node.shape) != 2 + rank:
        return tuple(pads)
    ones = (1,) * rank
    stride = node.get("stride") or ones
    dilation = node.get("dilation") or ones
    before = graph.by_name[node.inputs[0]].shape[2:]
    axes = zip(node.shape[2:], stride, kernel, dilation, strict=True)
    spans = [(out - 1) * step + reach(size, spacing) for out, step, size, spacing in axes]
    ends = [max(0, span - begin - have) for span, begin, have in zip(spans, pads[:rank], before, strict=True)]
    return (*pads[:rank], *ends)


def _stages(graph: Graph, size: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    stages: dict[int, tuple[int, int]] = {}
    for node in graph:
        here = resolution(node.shape)
        if node.op == "conv" and here and size and here[0]:
            factor = 2 ** round(log2(max(size[0] / here[0], 1)))
            layers, widest = stages.get(factor, (0, 0))
            stages[factor] = (layers + 1, max(widest, node.shape[1]))
    return tuple((factor, *stages[factor]) for factor in sorted(stages))


def _digest(parts: Iterable[str]) -> str:
    return blake2b("\n".join(parts).encode(), digest_size=_DIGEST_BYTES).hexdigest()


UNPADDED: Final = _digest(())  # the padding of a network in which no window pads anything


def as_json(signature: StructureSignature) -> dict[str, Any]:
    return {
        "digest": signature.digest,
        "activated": signature.activated,
        "skeleton": signature.skeleton,
        "outline": signature.outline,
        "stages": [list(stage) for stage in signature.stages],
        "parameters": signature.parameters,
        "macs": signature.macs,
        "size": list(signature.size),
        "layers": dict(signature.layers),
        "activations": dict(signature.activations),
    }
