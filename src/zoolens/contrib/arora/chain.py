"""A network as the theorem of Arora et al. 2018 sees it: linear layers, and activations between them. Nothing else.

Merged batch norms are folded into kernels. Where layers have biases, a constant 1 is carried along as one more channel
(or unit) of every value, and biases are its weights: the network is the same function, and all of it is linear layers.
Grouped convolutions are full ones with zeros. What the theorem does not cover is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Literal

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.contrib.arora import steps
from zoolens.contrib.arora.steps import Step, Window
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, pruned
from zoolens.findings.graph.ir.sliding_windows import reach, spread
from zoolens.findings.graph.passes.proof import without_final_softmax
from zoolens.findings.graph.reference.interpreter import run

_LEARNED: Final = ("conv", "dense")
_LAYERS: Final = (*_LEARNED, "global_avg_pool")
_VIEWS: Final = ("flatten", "reshape")
_MAX_KERNEL: Final = 1 << 26  # 512 MiB in float64: a grouped kernel is spread out to a full one


@dataclass(frozen=True)
class LinearMap:
    """One linear map, and `before` it the activations that its input comes through."""

    name: str
    kind: Literal["conv", "dense", "pool"]
    before: tuple[Step, ...]
    linear: Step
    norm: float  # Frobenius: of the kernel of a convolution, of the matrix of any other
    overlap: int = 1  # ⌈width of the kernel / stride⌉
    window: Window | None = None  # of a convolution

    @property
    def steps(self) -> tuple[Step, ...]:
        return (*self.before, self.linear)


@dataclass(frozen=True)
class Chain:
    graph: Graph
    preparation: Graph  # what is done to an input before the first layer
    layers: tuple[LinearMap, ...]
    constant: bool  # whether a constant is carried along for the biases

    def prepared(self, inputs: Array) -> Array:
        """The value that goes into the first layer, for each input (without a batch axis of its own)."""
        name = self.graph.inputs[0].name
        shape = self.graph.inputs[0].shape
        if inputs.shape[1:] != shape[1:]:
            raise ModelError(f"{self.graph.name} takes inputs of shape {shape[1:]}, not {inputs.shape[1:]}.")
        fed = (example.reshape(shape).astype(np.float64) for example in inputs)
        values = np.concatenate([next(iter(run(self.preparation, {name: example}).values())) for example in fed])
        if not self.constant:
            return values
        return np.concatenate([values, np.ones_like(values[:, :1])], axis=1)


def chain_of(graph: Graph) -> Chain:
    """The chain of a canonical graph with weights; ModelError where the theorem does not cover it."""
    graph = without_final_softmax(graph)
    nodes = _in_a_row(graph)
    first = next((at for at, node in enumerate(nodes) if node.op in _LEARNED), None)
    if first is None:
        raise _uncovered(graph, "has no learned layer")
    constant = any(np.any(_affine(graph, node)[1]) for node in nodes if node.op in _LEARNED)
    layers = tuple(_layers(graph, nodes[first:], constant=constant))
    preparation = pruned(replace(graph, outputs=nodes[first].inputs))
    return Chain(graph, preparation, layers, constant)


def _in_a_row(graph: Graph) -> list[Node]:
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise _uncovered(graph, f"has {len(graph.inputs)} inputs and {len(graph.outputs)} outputs")
    for node in graph.nodes:
        if node.op != "input" and len(node.inputs) != 1:
            raise _uncovered(graph, f"joins {len(node.inputs)} values at {node.name[:60]!r} ({node.op})")
        if len(graph.consumers[node.name]) > 1:
            raise _uncovered(graph, f"branches after {node.name[:60]!r} ({node.op})")
    return list(graph.nodes)


def _uncovered(graph: Graph, why: str) -> ModelError:
    return ModelError(
        f"The bound of Arora et al. 2018 does not cover {graph.name}, which {why}.",
        hint="It is proved for chains of convolutions, dense layers, ReLU and pools that do not overlap.",
    )


def _layers(graph: Graph, nodes: list[Node], *, constant: bool) -> Iterator[LinearMap]:
    last = max(at for at, node in enumerate(nodes) if node.op in _LAYERS)
    trailing = next((node for node in nodes[last + 1 :] if node.op not in _VIEWS), None)
    if trailing is not None:
        raise _uncovered(graph, f"ends with {trailing.op}, not with a linear layer")
    before: list[Step] = []
    for at, node in enumerate(nodes[: last + 1]):
        if node.op in _LAYERS:
            carried = constant and at < last
            yield _layer(graph, node, tuple(before), constant=constant, carried=carried)
            before = []
        else:
            before.append(_activation(graph, node, constant=constant))


def _layer(graph: Graph, node: Node, before: tuple[Step, ...], *, constant: bool, carried: bool) -> LinearMap:
    given = graph.by_name[node.inputs[0]].shape
    if node.op == "global_avg_pool":
        step = steps.global_avg_pool()
        step = step if carried or not constant else steps.without_constant(step)
        norm = ((given[1] + carried) / prod(given[2:])) ** 0.5
        return LinearMap(node.name, "pool", before, step, norm)
    kernel, bias = _affine(graph, node)
    if node.op == "dense":
        if len(given) != 2:
            raise _uncovered(graph, f"applies {node.name[:60]!r} (dense) to several places at once")
        matrix = _with_constant(kernel, bias, (), constant=constant, carried=carried)
        return LinearMap(node.name, "dense", before, steps.dense(matrix), float(np.linalg.norm(matrix)))
    window = _window(graph, node)
    spot = _covered_place(graph, node, window)
    tensor = _with_constant(_full(graph, node, kernel), bias, spot, constant=constant, carried=carried)
    overlap = -(-max(window.kernel) // min(window.stride))
    norm = float(np.linalg.norm(tensor))
    return LinearMap(node.name, "conv", before, steps.conv(tensor, window), norm, overlap, window)


def _affine(graph: Graph, node: Node) -> tuple[Array, Array]:
    """Kernel and bias with a merged norm folded in."""
    values = {tensor.role: _values(graph, node, tensor) for tensor in node.parameters}
    kernel = values["kernel"]
    bias = values.get("bias", np.zeros(len(kernel)))
    if node.get("norm") is None:
        return kernel, bias
    mean = values.get("norm_mean", 0.0)
    variance = values.get("norm_variance", 1.0)
    spread_ = np.sqrt(variance + node.get("epsilon", 0.0)) if node.get("norm") == "batch" else 1.0
    scale = np.broadcast_to(values.get("norm_scale", 1.0) / spread_, bias.shape)
    folded = kernel * scale.reshape(-1, *(1,) * (kernel.ndim - 1))
    return folded, (bias - mean) * scale + values.get("norm_shift", 0.0)


def _values(graph: Graph, node: Node, tensor: Parameter) -> Array:
    values = graph.values(node, tensor)
    if values.dtype.kind != "f":
        raise _uncovered(graph, f"has {values.dtype} numbers for the {tensor.role} of {node.name[:60]!r}")
    return values.astype(np.float64)


def _full(graph: Graph, node: Node, kernel: Array) -> Array:
    groups = node.get("groups", 1)
    if groups == 1:
        return kernel
    if kernel.size * groups > _MAX_KERNEL:
        raise _uncovered(graph, f"has a grouped convolution {node.name[:60]!r} too large to spread out")
    out = len(kernel) // groups
    into = kernel.shape[1]
    full = np.zeros((len(kernel), into * groups, *kernel.shape[2:]))
    for group in range(groups):
        rows = slice(group * out, (group + 1) * out)
        full[rows, group * into : (group + 1) * into] = kernel[rows]
    return full


def _with_constant(kernel: Array, bias: Array, spot: tuple[int, ...], *, constant: bool, carried: bool) -> Array:
    """One more input, whose weights are the biases; and, where it is `carried` on, one more output that repeats it."""
    if not constant:
        return kernel
    grown = np.zeros((kernel.shape[0] + carried, kernel.shape[1] + 1, *kernel.shape[2:]))
    grown[: len(kernel), :-1] = kernel
    place: Any = (slice(None), -1, *spot)
    grown[place] = np.append(bias, np.ones(int(carried)))
    return grown


def _covered_place(graph: Graph, node: Node, window: Window) -> tuple[int, ...]:
    """The place of the kernel, nearest to its middle, that never falls on padding: there the constant is read."""
    extents = graph.by_name[node.inputs[0]].shape[2:]
    outputs = node.shape[2:]
    covered = []
    for axis, (kernel, extent) in enumerate(zip(window.kernel, extents, strict=True)):
        step = window.stride[axis]
        low = window.pads[axis]
        starts = {place: place * window.dilation[axis] - low for place in range(kernel)}
        inside = [p for p, start in starts.items() if start >= 0 and start + (outputs[axis] - 1) * step < extent]
        if not inside:
            raise _uncovered(graph, f"pads {node.name[:60]!r} (conv) beyond its kernel")
        covered.append(min(inside, key=lambda place: abs(place - (kernel - 1) / 2)))
    return tuple(covered)


def _activation(graph: Graph, node: Node, *, constant: bool) -> Step:
    given = graph.by_name[node.inputs[0]].shape
    if node.op == "relu":
        return steps.relu()
    if node.op in _VIEWS and len(node.shape) == 2 and node.shape[0] == given[0]:
        return steps.flatten(_order(graph, node), constant=constant)
    if node.op not in ("max_pool", "avg_pool"):
        raise _uncovered(graph, f"has {node.op} ({node.name[:60]!r}) between its layers")
    window = _window(graph, node)
    sizes = zip(window.kernel, window.dilation, window.stride, strict=True)
    if any(reach(kernel, dilation) > stride for kernel, dilation, stride in sizes):
        raise _uncovered(graph, f"has a pool that overlaps itself ({node.name[:60]!r}), which may amplify differences")
    if (node.get("count_pad", False) and any(window.pads)) or node.get("pad_value") is not None:
        raise _uncovered(graph, f"has a pool ({node.name[:60]!r}) that counts its padding")
    return steps.max_pool(window) if node.op == "max_pool" else steps.avg_pool(window)


def _order(graph: Graph, node: Node) -> Array:
    """Where each number of the output comes from, by letting numbers that say where they are through."""
    source = Node("places", "input", (), graph.by_name[node.inputs[0]].shape)
    alone = Graph(graph.name, (source, replace(node, inputs=("places",))), (node.name,))
    places = np.arange(prod(source.shape)).reshape(source.shape)
    return run(alone, {"places": places})[node.name].reshape(-1)


def _window(graph: Graph, node: Node) -> Window:
    rank = len(node.shape) - 2
    stride = spread(node.get("stride"), rank, 1)
    dilation = spread(node.get("dilation"), rank, 1)
    pads = tuple(node.get("pads") or (0,) * (2 * rank))
    if any(pad < 0 for pad in pads):
        raise _uncovered(graph, f"crops its input at {node.name[:60]!r}")
    return Window(tuple(node.get("kernel")), tuple(stride), tuple(dilation), pads)
