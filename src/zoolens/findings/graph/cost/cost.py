"""What a network costs, from shapes alone, in one convention.

- **MACs**: multiply-accumulates of convolutions, dense and recurrent layers, matrix products and attention; nothing
  else. A convolution's padding counts as if it were data, as every counter does it.
- **FLOPs**: two per MAC, plus one per output number for a bias, two for a merged or stand-alone norm with fixed
  statistics (a multiplication and an addition), one for every other elementwise step, `window` per output number of a
  pool, twice the window and three more for local response normalisation, five per number for norms that compute their
  statistics and for softmax. Arrangement is free.
- **parameters**: learned numbers, a shared tensor once; running statistics are not among them.
- **activation bytes**: every value that is computed, once. Views (reshape, slice, …) and inputs cost nothing.
- **peak bytes**: parameters and statistics, plus the most that is alive at one time when nodes run in the graph's
  order, nothing is computed in place and a value is freed after its last use.
- **intensity**: FLOPs per byte moved, where a node reads its inputs and parameters once and writes its output.

Values are `bytes_each` bytes wide (4: float32). An operator nobody knows is named in `unknown`; its MACs count where
its importer knows them (`macs`), and otherwise the totals are lower bounds, which `coverage` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from zoolens.base.present.results import Result, frame
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.findings.graph.cost.remedies import remedy
from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import (
    FIXED,
    GRAPH_INSIDE,
    HOLDING_GRAPHS,
    LEAVES,
    NO_LAYERS,
    NOISE,
    POOLS,
    REDUCTIONS,
    VIEWS,
)

_FREE: Final = VIEWS | NOISE | LEAVES | {"concat", "pad", "gather", "embedding"} | {
    "channel_shuffle", "space_to_depth", "depth_to_space", "roll", "tile",
}  # fmt: skip
_STATISTICAL: Final = frozenset(
    {"layer_norm", "rms_norm", "group_norm", "instance_norm", "softmax", "log_softmax", "l2_normalize"}
)
_WINDOWED: Final = frozenset({"max_pool", "avg_pool", "lrn"})
_REDUCING: Final = REDUCTIONS | (POOLS - _WINDOWED)
_MULTIPLIED: Final = frozenset({"kernel", "recurrent_kernel", "projection"})  # of a recurrent cell


@dataclass(frozen=True)
class LayerCost:
    name: str
    op: str
    source: str
    shape: Shape
    macs: int
    flops: int
    parameters: int
    output_bytes: int  # 0 for a view
    moved_bytes: int
    macs_known: bool = True  # False for an operator that is not understood, unless its importer knows its MACs

    @property
    def intensity(self) -> float:
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0

    def as_row(self) -> dict[str, Any]:
        """The cost in columns; what is not known is None, while totals count it as 0."""
        understood = self.op != "unknown"
        row = {**vars(self), "intensity": self.intensity if understood else None}
        row["flops"] = self.flops if understood else None
        row["macs"] = self.macs if row.pop("macs_known") else None
        return row


@dataclass(frozen=True, repr=False)
class Cost(Result):
    """What a network costs in all. `layers` has every node in order, also those that cost nothing; `unknown` counts the
    operators that are not understood, by their own name, and `uncounted` names those of them whose multiply-accumulates
    are not in `macs`."""

    layers: tuple[LayerCost, ...]
    macs: int
    flops: int
    parameters: int
    parameter_bytes: int
    activation_bytes: int
    peak_bytes: int
    moved_bytes: int
    unknown: Mapping[str, int]
    uncounted: frozenset[str] = frozenset()

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each layer. Figures of an operator that is not understood are
        missing."""
        return frame((layer.as_row() for layer in self.layers), "Cost.frame")

    @property
    def intensity(self) -> float:
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0

    @property
    def whole(self) -> bool:
        """Whether every operator was counted. FLOPs, bytes and intensity are lower bounds where this is False."""
        return not self.unknown

    @property
    def macs_whole(self) -> bool:
        """Whether `macs` is the total. It may be where `flops` is not: sorting multiplies nothing."""
        return not self.uncounted

    @property
    def parameters_whole(self) -> bool:
        """Whether `parameters` is the total. Those of a graph inside an operator are not counted."""
        return not any(map(holds_graph, self.unknown))

    @property
    def coverage(self) -> Coverage:
        return self.coverage_of("")

    def coverage_of(self, side: str) -> Coverage:
        """What was understood of the network; `side` names it in the gaps, such as "A", where there are two."""
        layers = [layer for layer in self.layers if layer.op not in NO_LAYERS]
        opaque = [layer for layer in layers if layer.op == "unknown"]
        understood = max(0, self.parameters - sum(layer.parameters for layer in opaque))
        tallies = (
            Tally("layers", len(layers) - len(opaque), len(layers)),
            Tally("parameters", understood, self.parameters if self.parameters_whole else None),
            Tally("MACs", self.macs, self.macs if self.macs_whole else None),
        )
        where = f" in {side}" if side else ""
        gaps = [Gap(f"operator {name}{where}", times, remedy(name)) for name, times in self.unknown.items()]
        return Coverage(tallies, tuple(gaps))


def cost(graph: Graph, *, bytes_each: int = 4) -> Cost:
    shapes = {node.name: node.shape for node in graph.nodes}
    layers = tuple(_layer(node, [shapes[name] for name in node.inputs], bytes_each) for node in graph.nodes)
    stored = _stored_numbers(graph) * bytes_each
    return Cost(
        layers,
        sum(layer.macs for layer in layers),
        sum(layer.flops for layer in layers),
        graph.parameters,
        stored,
        sum(layer.output_bytes for layer in layers),
        stored + _peak(graph, bytes_each),
        sum(layer.moved_bytes for layer in layers),
        dict(Counter(_named(node) for node in graph.unknown)),
        frozenset(_named(node) for node in graph.unknown if node.get("macs") is None),
    )


def _named(node: Node) -> str:
    return str(node.get("source_op", "?"))


def holds_graph(operator: str) -> bool:
    """Whether an operator that is not understood has a graph of its own inside, with parameters that nobody counts."""
    return operator.split(" ", maxsplit=1)[0] in HOLDING_GRAPHS or operator.endswith(GRAPH_INSIDE)


def macs(node: Node, inputs: list[Shape]) -> int:
    """Multiply-accumulates of one node, given the shapes of its inputs."""
    rule = _MACS.get(node.op)
    return rule(node, inputs) if rule else 0


def _told(node: Node, inputs: list[Shape]) -> int:
    """The MACs of an operator that is not understood, as its importer knows them."""
    return int(node.get("macs") or 0)


def _convolution(node: Node, inputs: list[Shape]) -> int:
    kernel = node.parameter("kernel")
    return prod(node.shape) * prod(kernel.shape[1:]) if kernel else 0


def _transposed(node: Node, inputs: list[Shape]) -> int:
    kernel = node.parameter("kernel")
    if kernel and inputs:
        return prod(inputs[0]) * prod(kernel.shape[1:])
    return 0


def _matrix_product(node: Node, inputs: list[Shape]) -> int:
    left = inputs[0]
    is_turned = node.get("transpose_a") and len(left) > 1
    summed = left[-2] if is_turned else left[-1]
    return prod(node.shape) * summed


def _attention(node: Node, inputs: list[Shape]) -> int:
    query, key, value = inputs[:3]
    scores = prod(query[:-1]) * key[-2]
    return scores * query[-1] + scores * value[-1]


def _recurrent(node: Node, inputs: list[Shape]) -> int:
    """Every weight of a cell meets every step of the sequence once; biases, which ONNX keeps as matrices, are added."""
    sequence = inputs[0]
    steps = sequence[0] * sequence[1] if len(sequence) == 3 else 1
    weights = sum(tensor.size for tensor in node.parameters if tensor.role in _MULTIPLIED)
    return steps * weights


def _recurrent_layer(node: Node, inputs: list[Shape]) -> int:
    steps = prod(node.shape[:-1])
    weights = sum(tensor.size for tensor in node.parameters if tensor.role.endswith("kernel"))
    return steps * weights


_MACS: Final[dict[str, Callable[[Node, list[Shape]], int]]] = {
    "conv": _convolution,
    "dense": _convolution,
    "conv_transpose": _transposed,
    "matmul": _matrix_product,
    "attention": _attention,
    "recurrent": _recurrent,
    "unknown": _told,
    "recurrent_layer": _recurrent_layer,
}


def _flops(node: Node, inputs: list[Shape], products: int) -> int:
    numbers = prod(node.shape)
    if node.op == "unknown":
        return 2 * products
    if node.op in _FREE:
        return 0
    if node.op in _MACS:
        beside = (1 if node.parameter("bias") else 0) + (2 if node.get("norm") else 0)
        softmax = 5 * prod(inputs[0][:-1]) * inputs[1][-2] if node.op == "attention" else 0
        return 2 * products + beside * numbers + softmax
    if node.op in _STATISTICAL:
        return 5 * numbers
    if node.op in _WINDOWED:
        return numbers * (prod(node.get("kernel", ())) if node.op != "lrn" else 2 * int(node.get("size", 1)) + 3)
    if node.op in _REDUCING:
        return prod(inputs[0]) if inputs else 0
    return numbers * (2 if node.op in ("batch_norm", "affine") else 1)


def _layer(node: Node, inputs: list[Shape], bytes_each: int) -> LayerCost:
    products = macs(node, inputs)
    free = node.op in VIEWS or node.op in LEAVES
    written = 0 if free else prod(node.shape) * bytes_each
    read = 0 if free else (sum(map(prod, inputs)) + sum(tensor.size for tensor in node.parameters)) * bytes_each
    return LayerCost(
        node.name,
        node.op,
        node.source,
        node.shape,
        products,
        _flops(node, inputs, products),
        node.learned,
        written,
        read + written,
        node.op != "unknown" or node.get("macs") is not None,
    )


def _stored_numbers(graph: Graph) -> int:
    """Parameters and statistics, shared tensors once."""
    sizes: dict[str, int] = {}
    for node in graph.nodes:
        for position, tensor in enumerate(node.parameters):
            sizes[tensor.key or f"{node.name}/{position}"] = tensor.size
    return sum(sizes.values())


def _peak(graph: Graph, bytes_each: int) -> int:
    """The most bytes of values alive at once; a view keeps alive what it looks at."""
    owner: dict[str, str] = {}
    last: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        owner[node.name] = owner[node.inputs[0]] if node.op in VIEWS and node.inputs else node.name
        for name in node.inputs:
            last[owner[name]] = position
    for name in graph.outputs:
        last[owner[name]] = len(graph.nodes)
    alive = peak = 0
    ends: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        if owner[node.name] == node.name and node.op not in FIXED:
            size = prod(node.shape) * bytes_each
            alive += size
            end = last.get(node.name, position)
            ends[end] = ends.get(end, 0) + size
        peak = max(peak, alive)
        alive -= ends.get(position, 0)
    return peak
