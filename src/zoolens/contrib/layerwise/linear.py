"""Layers that multiply and add, with merged norms folded in: what their weights do to a difference, and how far two
of them are apart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from zoolens.contrib.layerwise.norms import Geometry, conv_norm
from zoolens.contrib.layerwise.spectra import Proof
from zoolens.findings.graph.ir.model import Array, Graph, Node, Shape
from zoolens.findings.graph.ir.sliding_windows import spread

Floats = NDArray[np.float64]
LINEAR: Final = frozenset({"conv", "conv_transpose", "dense", "batch_norm", "affine"})


@dataclass(frozen=True)
class Linear:
    """A convolution in the form of `norms.conv_norm`; a dense layer is one of a single place."""

    kernel: Array
    shift: Array  # one number for each output channel
    extents: Shape
    stride: Shape
    pads: Shape
    dilation: Shape
    groups: int
    places: int  # output positions of one example, all of which have the shift added

    def norm(self, proof: Proof) -> float:
        geometry = Geometry(self.stride, self.pads, self.dilation, self.groups)
        return conv_norm(self.kernel, self.extents, geometry, proof=proof)

    @property
    def offset(self) -> float:
        """The length of what is added to one example."""
        return float(np.linalg.norm(self.shift)) * sqrt(self.places)

    def minus(self, other: Linear) -> Linear:
        """What the two make different of the same input; both have the same shapes."""
        return replace(self, kernel=self.kernel - other.kernel, shift=self.shift - other.shift)


def norms_of(graph: Graph, nodes: Iterable[Node], *, proof: Proof, workers: int | None = None) -> dict[str, float]:
    """The norm of each of these layers, by name; several are worked on at once, on as many cores as there are."""
    chosen = sorted((node for node in nodes if node.op in LINEAR), key=_work)  # the last to finish should be small
    # a layer a core: BLAS with threads of its own would wait for itself more than it computes
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        norms = pool.map(lambda node: linear(graph, node).norm(proof), chosen)
        return {node.name: norm for node, norm in zip(chosen, norms, strict=True)}


def _work(node: Node) -> int:
    """Less for more of it: products of the kernel's matrices with each other."""
    kernel = node.parameter("kernel")
    if kernel is not None:
        return -kernel.size * min(kernel.shape[:2])
    return 0


def linear(graph: Graph, node: Node) -> Linear:
    """A node of one of the LINEAR ops; ModelError where its weights are not known."""
    learned = values(graph, node)
    if node.op in ("batch_norm", "affine"):
        return _by_channel(graph, node, *_scale_and_shift(learned, "", node))
    kernel = learned["kernel"]
    shift = learned.get("bias")
    out = kernel.shape[1] * node.get("groups", 1) if node.op == "conv_transpose" else kernel.shape[0]
    shift = np.zeros(out) if shift is None else shift.reshape(-1)
    if node.get("norm") is not None:
        scale, more = _scale_and_shift(learned, "norm_", node)
        each = scale.reshape(-1, *(1,) * (kernel.ndim - 1)).astype(kernel.dtype)
        kernel = kernel * each
        shift = shift * scale + more
    if node.op == "dense":
        return _dense(node, kernel, shift)
    return _conv(graph, node, kernel, shift)


def values(graph: Graph, node: Node) -> dict[str, Array]:
    """The parameters of a node by role; ModelError where there are no values."""
    return {tensor.role: _real(graph.values(node, tensor)) for tensor in node.parameters}


def _real(array: Array) -> Array:
    """Single precision stays what it is: millions of numbers need not be copied to be bounded."""
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float64)


def _scale_and_shift(learned: Mapping[str, Array], before: str, node: Node) -> tuple[Floats, Floats]:
    ones = np.ones(1)
    zeros = np.zeros(1)
    scale, shift = (
        learned.get(f"{before}{role}", default).reshape(-1).astype(np.float64)
        for role, default in (("scale", ones), ("shift", zeros))
    )
    if node.op == "affine" or node.get("norm") == "affine":
        return scale, shift
    mean = learned.get(f"{before}mean", zeros)
    variance = learned.get(f"{before}variance", ones)
    scale = scale / np.sqrt(variance.reshape(-1) + node.get("epsilon", 0.0))
    return scale, shift - mean.reshape(-1) * scale


def _conv(graph: Graph, node: Node, kernel: Array, shift: Array) -> Linear:
    rank = kernel.ndim - 2
    turned = node.op == "conv_transpose"  # its adjoint is a convolution of what comes out of it
    return Linear(
        kernel, shift,
        extents=node.shape[2:] if turned else graph.by_name[node.inputs[0]].shape[2:],
        stride=spread(node.get("stride"), rank, 1), pads=spread(node.get("pads"), 2 * rank, 0),
        dilation=spread(node.get("dilation"), rank, 1), groups=node.get("groups", 1), places=prod(node.shape[2:]),
    )  # fmt: skip


def _dense(node: Node, kernel: Array, shift: Array) -> Linear:
    return Linear(kernel[:, :, None], shift, (1,), (1,), (0, 0), (1,), 1, prod(node.shape[1:-1]))


def _by_channel(graph: Graph, node: Node, scale: Floats, shift: Floats) -> Linear:
    channels = max(scale.size, shift.size)
    kernel = np.broadcast_to(scale, (channels,)).reshape(-1, 1, 1)
    places = prod(node.shape[1:]) // channels
    return Linear(kernel, np.broadcast_to(shift, (channels,)), (1,), (1,), (0, 0), (1,), channels, places)
