"""Proves on numbers that canonicalisation changes nothing: both graphs are computed on the same input and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array, Graph, Node, pruned
from zoolens.findings.graph.passes.axis_labels import Labels, canonical_order, labels
from zoolens.findings.graph.passes.canonical import steps
from zoolens.findings.graph.reference.interpreter import run

TOLERANCE: Final = 1e-5  # relative to the largest output; weights are float32 and some are computed anew


@dataclass(frozen=True)
class Proof:
    largest_difference: float
    relative: float  # to the largest output
    passes: Mapping[str, float] = field(default_factory=dict)  # stepwise: the relative difference after each pass


def prove(graph: Graph, *, seed: int = 0, stepwise: bool = False, tolerance: float = TOLERANCE) -> Proof:
    """Compute the raw and the canonical graph (`stepwise`: and all between); ModelError where they differ."""
    graph = without_final_softmax(graph)
    shaken = with_varied_weights(graph, seed)
    feed = random_inputs(shaken, seed)
    expected = list(run(shaken, feed).values())
    if not all(np.isfinite(value).all() for value in expected):
        raise ModelError(f"{graph.name} gives numbers that are not finite, so nothing can be proved.")
    differences: dict[str, float] = {}
    largest, relative, name = 0.0, 0.0, "canonical"
    for name, after, known in _stages(shaken, every=stepwise):
        moved_feed = {key: _canonical(value, known.get(key)) for key, value in feed.items()}
        moved = [_canonical(value, known.get(out)) for out, value in zip(graph.outputs, expected, strict=True)]
        largest, relative = _difference(moved, list(run(after, moved_feed).values()))
        differences[name] = max(relative, differences.get(name, 0.0))
        if not relative <= tolerance:
            where = f"after the pass {name!r}" if stepwise else "once canonical"
            raise ModelError(
                f"{graph.name} gives other numbers {where}: they differ by {relative:.1e} of the largest.",
                hint="Prove it stepwise to find the pass." if not stepwise else None,
            )
    return Proof(largest, relative, differences if stepwise else {})


def without_final_softmax(graph: Graph) -> Graph:
    """The graph with logits for outputs: a softmax of random logits is nearly 0 and 1 and would hide differences."""

    def logits(name: str) -> str:
        node = graph.by_name[name]
        return node.inputs[0] if node.op in ("softmax", "log_softmax") else name

    return pruned(replace(graph, outputs=tuple(logits(name) for name in graph.outputs)))


def _stages(graph: Graph, *, every: bool) -> Iterator[tuple[str, Graph, Labels]]:
    """The graphs to compare, each with the axes of raw inputs and outputs that are in canonical order by then."""
    known: Labels = {}
    before, name, after = graph, "", graph
    for name, after in steps(graph):
        if name == "layout":
            known = _ends(labels(before), graph, before)
        before = after
        if every:
            yield name, after, known
    if not every:
        yield name, after, known


def _ends(axes: Labels, raw: Graph, before: Graph) -> Labels:
    """Labels under the names that the raw graph has for its inputs and outputs."""
    outputs = zip(raw.outputs, before.outputs, strict=True)
    renamed = {out: axes[name] for out, name in outputs if name in axes}
    return renamed | {node.name: axes[node.name] for node in raw.inputs if node.name in axes}


def _canonical(value: Array, axes: str | None) -> Array:
    return value.transpose(canonical_order(axes)) if axes else value


def _difference(expected: list[Array], computed: list[Array]) -> tuple[float, float]:
    """The largest difference, and what part it is of the largest number; shapes may differ by axes of extent 1."""
    largest = relative = 0.0
    for a, b in zip(expected, computed, strict=True):
        if a.size != b.size:
            return float("inf"), float("inf")
        difference = float(np.abs(a.reshape(-1).astype(float) - b.reshape(-1)).max(initial=0.0))
        scale = float(np.abs(a).max(initial=0.0)) or 1.0
        largest = max(largest, difference)
        relative = max(relative, difference / scale)
    return largest, relative


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {node.name: _random_input(graph, node, generator) for node in graph.inputs}


def _random_input(graph: Graph, node: Node, generator: np.random.Generator) -> Array:
    """Numbers around zero, or indices where an embedding looks them up."""
    for user in graph.consumers[node.name]:
        table = user.parameter("table")
        if table is not None:
            return generator.integers(0, table.shape[0], node.shape)
    return generator.standard_normal(node.shape)


def with_varied_weights(graph: Graph, seed: int) -> Graph:
    """Tensors whose numbers are all equal (a fresh norm's scale of 1) are varied: they would hide a mistake."""
    generator = np.random.default_rng(seed + 1)
    roles = {tensor.key: tensor.role for node in graph.nodes for tensor in node.parameters}
    changed = {
        key: varied(np.asarray(values), roles[key], generator)
        for key, values in graph.weights.items()
        if key in roles and is_uniform(np.asarray(values))
    }
    return replace(graph, weights={**graph.weights, **changed})


def is_uniform(values: Array) -> bool:
    """Whether all numbers of a tensor are equal, so that a mistake in their order would not show."""
    return values.size > 1 and values.dtype.kind == "f" and bool((values == values.flat[0]).all())


def varied(values: Array, role: str, generator: np.random.Generator) -> Array:
    """Other numbers in a similar range; variances stay positive."""
    if role.endswith("variance"):
        return np.asarray(values * generator.uniform(0.5, 1.5, values.shape))
    return np.asarray(
        values * generator.uniform(0.5, 1.5, values.shape) + 0.1 * generator.standard_normal(values.shape)
    )
