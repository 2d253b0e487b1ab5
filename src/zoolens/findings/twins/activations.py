"""The values inside a network, for a few inputs: computed by the numpy reference, several examples at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array, Graph, Node, pruned
from zoolens.findings.graph.onnx_writer.free_batch import carriers
from zoolens.findings.graph.reference.interpreter import run

_NUMBERS: Final = 1 << 25  # of all values of one part of the examples
Feed = Mapping[str, Array]  # by name of an input, examples along the first axis


def as_feed(graph: Graph, inputs: Array | Feed) -> dict[str, Array]:
    """The examples by name of an input, in double precision: what is small must not drown in rounding.

    ModelError where they do not fit the graph.
    """
    given = inputs if isinstance(inputs, Mapping) else {graph.inputs[0].name: inputs}
    for node in graph.inputs:
        if node.name not in given:
            raise ModelError(f"{graph.name} needs values for its input {node.name[:60]!r}.")
        if given[node.name].shape[1:] != node.shape[1:] or not len(given[node.name]):
            raise ModelError(
                f"The input {node.name[:60]!r} of {graph.name} has the shape {node.shape[1:]} for each example, not "
                f"{given[node.name].shape[1:]}.",
                hint="Give at least one example, in the axis order of the canonical graph.",
            )
    return {node.name: _double(np.asarray(given[node.name])) for node in graph.inputs}


def _double(given: Array) -> Array:
    return given.astype(np.float64) if given.dtype.kind == "f" else given


def in_parts(graph: Graph, feed: Feed) -> Iterator[dict[str, Array]]:
    """Split examples into parts whose values all fit into memory."""
    count = len(next(iter(feed.values())))
    together = max(1, _NUMBERS // sum(prod(node.shape) for node in graph.nodes))
    for start in range(0, count, together):
        yield {name: value[start : start + together] for name, value in feed.items()}


def values_of(graph: Graph, names: Sequence[str], feed: Feed) -> dict[str, Array]:
    """These values of the network for all examples of the feed, at once if the graph allows it."""
    asked = pruned(replace(graph, outputs=tuple(dict.fromkeys(names))))
    fed = {node.name: feed[node.name] for node in asked.inputs}
    count = len(next(iter(fed.values())))
    wide = batched(asked, count)
    if wide is not None:
        return run(wide, fed)
    each = [run(asked, {name: value[i : i + 1] for name, value in fed.items()}) for i in range(count)]
    return {name: np.concatenate([part[name] for part in each]) for name in asked.outputs}


def batched(graph: Graph, count: int) -> Graph | None:
    """The graph for so many examples; None where it mixes the first axis with others."""
    wide = carriers(graph)
    if wide is None:
        return None

    def grown(node: Node) -> Node:
        return replace(node, shape=(node.shape[0] * count, *node.shape[1:])) if node.name in wide else node

    return replace(graph, nodes=tuple(grown(node) for node in graph.nodes))


def starting_at(graph: Graph, known: Iterable[str], outputs: Sequence[str]) -> Graph:
    """The part of a network that makes these outputs from values that are known, which become its inputs."""
    given = set(known)
    nodes = tuple(
        Node(node.name, "input", (), node.shape) if node.name in given else node
        for node in graph.nodes
        if node.op != "input" or node.name in given
    )
    needed = set(outputs)
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(node.inputs)
    kept = tuple(node for node in nodes if node.name in needed)
    return replace(graph, nodes=kept, outputs=tuple(outputs))


def lengths(values: Array) -> Array:
    """The l2 length of each example."""
    return np.asarray(np.linalg.norm(np.asarray(values, np.float64).reshape(len(values), -1), axis=1))
