"""The noise-perturbation estimate: what happens to the answers when noise as large as a segment's difference is put at
its exit, as Sommelier (SIGMOD 2022) does.

It is an estimate and bounds nothing. Noise has no direction, while another segment's difference has one: that may
matter more or less to what follows. Running the stitched model itself is the measurement; this is what can be said
without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.segments.segment import Segment
from zoolens.findings.twins.activations import Feed, as_feed, in_parts, lengths, starting_at, values_of

Floats = NDArray[np.float64]
MEANING: Final = "an estimate from random noise of that size, not a bound and not a measurement of the stitched model"


@dataclass(frozen=True)
class NoiseEstimate:
    """Means over inputs and draws at the first output, each with its standard error over inputs."""

    magnitude: float  # of the noise, relative to the length of the segment's own output
    agreement: float | None  # share of answers with the same first class; None where there are no classes
    agreement_error: float
    change: float  # l2 length of what the outputs change by
    change_error: float
    inputs: int
    draws: int
    meaning: str = field(default=MEANING)


def noise_estimate(
    graph: Graph, segment: Segment, magnitude: float, inputs: Array | Feed, *, draws: int = 8, seed: int = 0
) -> NoiseEstimate:
    """Perturb a segment's output, run the rest of the network, and see what becomes of the outputs.

    `magnitude`: length of the noise over the length of the value it is added to, for each input alike; see
    `relative_difference`. The standard errors are those of these inputs as a sample; a single input has none (0).
    """
    if segment.exit not in graph.by_name:
        raise ModelError(f"{graph.name} has no value {segment.exit[:60]!r}.")
    if not magnitude >= 0 or draws < 1:
        raise ModelError("Noise needs a magnitude of at least 0 and at least one draw.")
    generator = np.random.default_rng(seed)
    parts = [_perturbed(graph, segment.exit, magnitude, feed, draws, generator) for feed in _parts(graph, inputs)]
    same, change = (np.concatenate([part[i] for part in parts], axis=1).mean(axis=0) for i in range(2))
    shape = graph.by_name[graph.outputs[0]].shape
    classes = len(shape) == 2 and shape[1] > 1
    return NoiseEstimate(
        magnitude=magnitude,
        agreement=float(same.mean()) if classes else None,
        agreement_error=_error(same) if classes else 0.0,
        change=float(change.mean()),
        change_error=_error(change),
        inputs=len(same),
        draws=draws,
    )


def relative_difference(
    graph: Graph, segment: Segment, donor: Graph, replacement: Segment, inputs: Array | Feed
) -> float:
    """How far the replacement's output is from the segment's own, given the same values of `graph`: the length of the
    difference over the length of the value, in the root mean square over inputs."""
    part = starting_at(donor, [replacement.entry], [replacement.exit])
    apart = size = 0.0
    for feed in _parts(graph, inputs):
        known = values_of(graph, [segment.entry, segment.exit], feed)
        theirs = values_of(part, [replacement.exit], {replacement.entry: known[segment.entry]})[replacement.exit]
        own = known[segment.exit]
        apart += float(np.square(lengths(np.subtract(theirs, own, dtype=np.float64))).sum())
        size += float(np.square(lengths(own)).sum())
    return sqrt(apart / size) if size else 0.0 if not apart else float("inf")


def _parts(graph: Graph, inputs: Array | Feed) -> list[dict[str, Array]]:
    return list(in_parts(graph, as_feed(graph, inputs)))


def _perturbed(
    graph: Graph, at: str, magnitude: float, feed: Feed, draws: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """For every draw and input: whether the first class is the same, and what the outputs change by."""
    out = graph.outputs[0]
    beside = _beside(graph, at)
    known = values_of(graph, [at, *beside, out], feed)
    rest = starting_at(graph, [at, *beside], [out])
    given = {name: known[name] for name in beside if name in rest.by_name}
    clean = known[out].reshape(len(known[out]), -1)
    same, change = [], []
    for _ in range(draws):
        noisy = {**given, at: _with_noise(known[at], magnitude, generator)}
        answers = values_of(rest, [out], noisy)[out].reshape(clean.shape) if at != out else noisy[at]
        same.append(answers.argmax(axis=1) == clean.argmax(axis=1))
        change.append(lengths(np.subtract(answers, clean, dtype=np.float64)))
    return np.array(same, np.float64), np.array(change)


def _beside(graph: Graph, at: str) -> list[str]:
    """Other values that what follows a value takes in: they pass by the segment."""
    after = {at}
    for node in graph.nodes:
        if any(name in after for name in node.inputs):
            after.add(node.name)
    taken = (name for node in graph.nodes if node.name in after - {at} for name in node.inputs)
    return [name for name in dict.fromkeys(taken) if name not in after and graph.by_name[name].op not in FIXED]


def _with_noise(values: Array, magnitude: float, generator: np.random.Generator) -> Array:
    """Noise of any direction, as long as `magnitude` times the value, for each example."""
    noise = generator.standard_normal(values.shape)
    scale = magnitude * lengths(values) / np.maximum(lengths(noise), np.finfo(np.float64).tiny)
    return np.asarray(values + noise * scale.reshape(-1, *(1,) * (values.ndim - 1)), values.dtype)


def _error(each: Floats) -> float:
    return float(each.std(ddof=1) / sqrt(len(each))) if len(each) > 1 else 0.0
