"""The analytic, layer-wise bound: how far the outputs of a stitched model can be from the original's, from their
weights.

Where the two have the same layer with other weights, f(x) − f′(x′) = (W − W′)·x + W′·(x − x′) + b − b′, so that
‖W − W′‖·‖x‖ + ‖b − b′‖ is new, and what was there before is stretched by ‖W′‖ at most. Where what stands in for a
segment is built otherwise, what is new is the difference that it makes of the original's own values, measured. Then
every operator on the way to the outputs passes differences on by its Lipschitz constant.

The lengths ‖x‖ are those of the original's values for the inputs given. So the bound holds for these inputs and says
nothing about others: it depends on the data, and no name for it should hide that. It multiplies worst cases of layers
that no input attains together; `looseness` says by how much it exceeds what was measured on the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise.linear import LINEAR, linear, norms_of, values
from zoolens.contrib.layerwise.lipschitz import Gain, gain, joined
from zoolens.contrib.layerwise.places import Places, places, spliced_segments
from zoolens.contrib.layerwise.spectra import Proof
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.proof import without_final_softmax
from zoolens.findings.twins.activations import Feed, as_feed, in_parts, lengths, starting_at, values_of

Floats = NDArray[np.float64]
MEANING: Final = "an upper bound for these inputs alone, from weights and from activations measured on them"


@dataclass(frozen=True)
class SegmentShare:
    """What one spliced segment, named by its exit, adds to the bound; the worst of the inputs."""

    segment: str
    value: float


@dataclass(frozen=True)
class AnalyticBound:
    """A bound of ‖f(x) − f′(x)‖ at the first output, before a final softmax. `value` and `measured` are those of the
    worst input."""

    value: float
    measured: float
    each: Floats  # the bound of every input
    each_measured: Floats
    unchanged: float | None  # the share of inputs whose first class cannot have changed; None without classes
    shares: tuple[SegmentShare, ...]
    reasons: tuple[str, ...] = ()  # why it is infinite, or larger than it need be
    meaning: str = field(default=MEANING)

    @property
    def looseness(self) -> float:
        """How many times what was measured; of inputs that differ at all, the least loose."""
        differ = self.each_measured > 0
        if differ.any():
            return float((self.each[differ] / self.each_measured[differ]).min())
        return 1.0

    @property
    def vacuous(self) -> bool:
        """Whether it promises nothing about any input's first class."""
        return self.unchanged == 0 or self.value == inf


def bound_twin(original: Graph, twin: Graph, inputs: Array | Feed, *, proof: Proof = "cholesky") -> AnalyticBound:
    """Bound how far a stitched model's outputs are from the original's on these inputs; both graphs carry weights.

    `inputs`: examples along the first axis, in the axis order of the canonical graph. ModelError where the graphs do
    not fit, or an operator has no reference.
    """
    if [node.shape for node in original.inputs] != [node.shape for node in twin.inputs]:
        raise ModelError(f"{original.name} and {twin.name} take inputs of other shapes: they cannot be compared.")
    original = without_final_softmax(original)
    twin = without_final_softmax(twin)
    work = _TwinBound(original, twin, proof)
    parts = [work.bounded(feed) for feed in in_parts(original, as_feed(original, inputs))]
    each, measured, margins = (np.concatenate([part[i] for part in parts], axis=-1) for i in range(3))
    whole = each.sum(axis=0)
    classes = original.by_name[original.outputs[0]].shape
    return AnalyticBound(
        value=float(whole.max()),
        measured=float(measured.max()),
        each=whole,
        each_measured=measured,
        unchanged=float((whole * sqrt(2) < margins).mean()) if len(classes) == 2 and classes[1] > 1 else None,
        shares=tuple(SegmentShare(name, float(row.max())) for name, row in zip(work.sources, each, strict=True)),
        reasons=tuple(dict.fromkeys(work.reasons)),
    )


class _TwinBound:
    """What does not depend on the inputs: pairs of nodes, distances of weights, and constants, each found once."""

    def __init__(self, original: Graph, twin: Graph, proof: Proof) -> None:
        self.original, self.twin, self.proof = original, twin, proof
        self.places: Places = places(original, twin)
        self.apart = {node.name: distance for node in twin.nodes if (distance := self._distance(node))}
        homes = spliced_segments(twin)
        self.home = {name: homes.get(name, name) for name in (*self.apart, *self.places.ends)}
        self.sources = tuple(dict.fromkeys(self.home[node.name] for node in twin.nodes if node.name in self.home))
        self.reasons: list[str] = []
        self._gains = self._linear_gains()

    def _linear_gains(self) -> dict[str, Gain]:
        """The gains of all layers that a difference can reach: they are what takes time."""
        reached = set(self.home)
        for node in self.twin.nodes:
            if any(name in reached for name in node.inputs):
                reached.add(node.name)
        nodes = [node for node in self.twin.nodes if any(name in reached for name in node.inputs)]
        return {name: Gain(norm) for name, norm in norms_of(self.twin, nodes, proof=self.proof).items()}

    def _distance(self, node: Node) -> tuple[float, float] | None:
        """‖W − W′‖ and ‖b − b′‖ of a layer that the original has too; None where they are equal."""
        if node.name in self.places.ends or node.name not in self.places.stands or not node.parameters:
            return None
        other = self.original.by_name[self.places.stands[node.name]]
        ours = values(self.twin, node)
        theirs = values(self.original, other)
        if all(np.array_equal(ours[role], theirs[role]) for role in ours):
            return None
        if node.op in LINEAR:
            apart = linear(self.original, other).minus(linear(self.twin, node))
            return apart.norm(self.proof), apart.offset
        if node.op == "prelu":
            return float(np.abs(ours["alpha"] - theirs["alpha"]).max()), 0.0
        if node.op in FIXED:
            return (0.0, float(np.linalg.norm(ours["value"] - theirs["value"])))
        return (inf, inf)

    # --- for some inputs

    def bounded(self, feed: Mapping[str, Array]) -> tuple[Floats, Floats, Floats]:
        """The (sources × inputs) bounds of the first output, its measured differences, and the original's margins."""
        count = len(next(iter(feed.values())))
        known = self._known(feed)
        hybrid = self._hybrid(known)
        errors: dict[str, Floats] = {}
        for node in self.twin.nodes:
            error = self._passed_on(node, errors)
            new = self._new(node, known, hybrid)
            if new is not None:
                error = np.zeros((len(self.sources), count)) if error is None else error
                error[self.sources.index(self.home[node.name])] += new
            if error is not None:
                errors[node.name] = error
        out = self.twin.outputs[0]
        clean = known[self.original.outputs[0]]
        theirs = values_of(self.twin, [out], self._fed(feed))[out]
        nothing = np.zeros((len(self.sources), count))
        return errors.get(out, nothing), lengths(np.subtract(theirs, clean, dtype=np.float64)), _margins(clean)

    def _fed(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        pairs = zip(self.twin.inputs, self.original.inputs, strict=True)
        return {theirs.name: feed[ours.name] for theirs, ours in pairs}

    def _known(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """The original's values that are needed: what changed layers take in, what passes into segments, ends."""
        stands = self.places.stands
        ends = self.places.ends
        taken = (name for node in self.twin.nodes if node.name in self.apart for name in node.inputs[:1])
        into = (name for end in ends for name in self._into(end))
        names = [stands[name] for name in (*taken, *into, *sorted(ends))]
        return values_of(self.original, [*dict.fromkeys(names), *self.original.outputs], feed)

    def _hybrid(self, known: Mapping[str, Array]) -> dict[str, Array]:
        """What the stitched model's own segments make of the original's values."""
        made: dict[str, Array] = {}
        for end in self.places.ends:
            into = self._into(end)
            part = starting_at(self.twin, into, [end])
            made |= values_of(part, [end], {name: known[self.places.stands[name]] for name in into})
        return made

    def _into(self, end: str) -> list[str]:
        """The values that pass from outside into the segment that ends here."""
        entering = []
        open_ = [end]
        while open_:
            for name in self.twin.by_name[open_.pop()].inputs:
                if name not in self.places.stands:
                    open_.append(name)
                elif self.twin.by_name[name].op not in FIXED:
                    entering.append(name)
        return list(dict.fromkeys(entering))

    def _new(self, node: Node, known: Mapping[str, Array], hybrid: Mapping[str, Array]) -> Floats | None:
        """The difference that this node makes by itself, for each input."""
        if node.name in self.places.ends:
            theirs = known[self.places.stands[node.name]]
            return lengths(np.subtract(hybrid[node.name], theirs, dtype=np.float64))
        if node.name not in self.apart:
            return None
        weights, shift = self.apart[node.name]
        if weights == inf:
            self.reasons.append(f"the weights of {node.op} differ, which is not bounded")
        given = lengths(known[self.places.stands[node.inputs[0]]]) if node.inputs else np.zeros(1)
        return np.asarray(weights * given + shift)

    def _passed_on(self, node: Node, errors: Mapping[str, Floats]) -> Floats | None:
        """What the differences of its inputs become; each source's by itself, for they arrive one after the other."""
        arriving = [errors[name] for name in node.inputs if name in errors]
        if not arriving:
            return None
        if node.name not in self._gains:
            self._gains[node.name] = gain(self.twin, node, proof=self.proof)
        constant = self._gains[node.name]
        if constant.reason:
            self.reasons.append(constant.reason)
        with np.errstate(invalid="ignore"):
            return joined(node, [np.where(error > 0, error * constant.value, 0.0) for error in arriving])


def _margins(outputs: Array) -> Floats:
    """Computes by how much the first class leads; two outputs move apart by at most √2 times the difference of all."""
    rows = np.asarray(outputs, np.float64).reshape(len(outputs), -1)
    if rows.shape[1] < 2:
        return np.zeros(len(rows))
    top = np.partition(rows, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])
