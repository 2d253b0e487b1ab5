"""How the input tensors of two sides differ: their preprocessing, in words and in lines of the manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.base.phrases import first_few
from zoolens.findings.comparisons.model_difference import differing_lines
from zoolens.findings.divergence.alignment import EQUAL, Aligned, paired_inputs
from zoolens.findings.divergence.divergence_causes import Cause, Kind
from zoolens.findings.divergence.examined import relative_difference
from zoolens.findings.divergence.holes import holes_of
from zoolens.findings.divergence.sides import Side
from zoolens.findings.graph.ir.model import Array, Node

_LISTED: Final = 5  # lines that are named one by one


def fed_to(b: Side, graphs: Aligned, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """A's input tensors under the names of B's graph; None where the shapes do not fit."""
    pairs = _own_inputs(graphs)
    if len(pairs) != len(graphs.b.inputs) or len(graphs.a.inputs) != len(graphs.b.inputs):
        return None  # or where holes have values of B's own inputs
    if any(inputs[ours.name].shape != theirs.shape for ours, theirs in pairs):
        return None
    return {theirs.name: inputs[ours.name] for ours, theirs in pairs}


def _own_inputs(graphs: Aligned) -> list[tuple[Node, Node]]:
    """The inputs of both files beside each other, without holes."""
    holes = holes_of(graphs.a).keys() | holes_of(graphs.b).keys()
    pairs = paired_inputs(graphs.a, graphs.b)
    return [(ours, theirs) for ours, theirs in pairs if not {ours.name, theirs.name} & holes]


def inputs_differ(inputs: tuple[Mapping[str, Array], Mapping[str, Array]], graphs: Aligned) -> bool:
    for ours, theirs in _own_inputs(graphs):
        if relative_difference(inputs[1][theirs.name], inputs[0][ours.name]) > EQUAL:
            return True
    return False


def preprocessing(a: Side, b: Side, inputs: tuple[Mapping[str, Array], Mapping[str, Array]], graphs: Aligned) -> Cause:
    """Return what is different about the input tensors, in words, and the lines of the manifests that differ."""
    pairs = []
    for ours, theirs in _own_inputs(graphs):
        pairs.append((ours.source or ours.name, inputs[0][ours.name], inputs[1][theirs.name]))
    name, fed_a, fed_b = max(pairs, key=lambda pair: relative_difference(pair[2], pair[1]))
    which = f"other input tensors {name}" if len(pairs) > 1 else "other input tensors"
    words = f"The two are fed {which}: {_input_words(fed_a, fed_b)}"
    if lines := manifest_lines(a, b):
        words += f"; the manifests differ in {lines}"
    return Cause(Kind.PREPROCESSING, words)


def manifest_lines(a: Side, b: Side) -> str:
    ours, theirs = (side.job.manifest.model_dump(mode="json")["inputs"] for side in (a, b))
    lines = list(differing_lines("inputs", ours, theirs))
    return first_few([line.words for line in lines], _LISTED, between="; ")


def token_words(fed_a: Array, fed_b: Array) -> str:
    """Where two rows of tokens part, by their numbers."""
    ours, theirs = fed_a.reshape(-1), fed_b.reshape(-1)
    shorter = min(len(ours), len(theirs))
    apart = np.flatnonzero(ours[:shorter] != theirs[:shorter])
    first = int(apart[0]) if len(apart) else shorter
    shown = [str(row[first]) if first < len(row) else "none" for row in (ours, theirs)]
    words = f"A as {len(ours):,} and B as {len(theirs):,}, from token {first + 1} on ({shown[0]} in A, {shown[1]} in B)"
    more = len(theirs) - len(ours)
    label, longer, rest = ("B", theirs, ours) if more > 0 else ("A", ours, theirs)
    if np.array_equal(longer[first + abs(more) :], rest[first:]):
        other = "A" if label == "B" else "B"
        added = "that one token" if abs(more) == 1 else f"these {abs(more):,} tokens"
        return f"{words}; without {added}, {label}'s are the same as {other}'s"
    return words


def _input_words(fed_a: Array, fed_b: Array) -> str:
    if fed_a.shape != fed_b.shape:
        return f"shapes {fed_a.shape} and {fed_b.shape}"
    if fed_a.ndim == 4 and fed_a.shape[1] == 3:
        turned = _fit(fed_a[:, ::-1], fed_b)
        if turned is not None:
            return f"red and blue are swapped{turned}"
    scaled = _fit(fed_a, fed_b)
    if scaled is not None:
        return f"the same picture on another scale{scaled}"
    error = deviation_of_finite(fed_b, fed_a).error
    return f"another picture, off by {error:.1e} of its size (resize, crop, decoder or layout)"


def _fit(fed_a: Array, fed_b: Array) -> str | None:
    """Return words for the factor and offset of each channel that turn one tensor into the other; None if none do."""
    channels = fed_a.shape[1] if fed_a.ndim > 1 else 1
    x, y = (np.moveaxis(value, min(1, value.ndim - 1), 0).reshape(channels, -1) for value in (fed_a, fed_b))
    mean_x, mean_y = x.mean(1, keepdims=True), y.mean(1, keepdims=True)
    spread = np.square(x - mean_x).sum(1)
    if not spread.all():
        return None
    factors = ((x - mean_x) * (y - mean_y)).sum(1) / spread
    offsets = mean_y[:, 0] - factors * mean_x[:, 0]
    fitted = x * factors[:, None] + offsets[:, None]
    if deviation_of_finite(fitted, y).error > 1e-5:
        return None
    if np.allclose(factors, 1, atol=1e-5) and np.allclose(offsets, 0, atol=1e-5):
        return ""
    first = zip(factors[:3], offsets[:3], strict=True)
    listed = ", ".join(f"×{factor:.4g} {offset:+.4g}" for factor, offset in first)
    return f" (B = A {listed} by channel)"
