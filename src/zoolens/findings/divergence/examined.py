"""An input that is looked at layer by layer, and the exact answers of both files to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.findings.divergence.divergence_answers import Compared
from zoolens.findings.divergence.divergence_causes import Parts
from zoolens.findings.divergence.evaluation import exact_value, exact_values, grids_of
from zoolens.findings.divergence.inspection import (
    NOISY_RUNS,
    Inspection,
    SideView,
    disturbed_weights,
    floor_between,
    noise_floor,
    noisy,
    noisy_inputs,
    same_evaluation,
)
from zoolens.findings.divergence.sides import Feeds, Side
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.twins.activations import starting_at


@dataclass(frozen=True)
class ExaminedInput:
    """One input that was looked at layer by layer, with what both sides answered to it."""

    index: int
    feeds: tuple[Feeds, Feeds]
    answers: tuple[Array, Array]
    inputs: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {})  # of the graphs, as real numbers
    inspection: Inspection | None = None

    def view(self, side: Side, place: int) -> SideView:
        return SideView(side, self.feeds[place], self.inputs[place])

    def with_inputs(self, a: Side, b: Side) -> ExaminedInput:
        """Returns a copy with what both graphs are given. A side that is held against the other's graph is taken to
        compute the same of a sample, whatever order of channels or scale it is fed in: its graph is given the other's
        input."""
        feeds_a, feeds_b = self.feeds
        ours = b.real_inputs(feeds_b) if a.borrowed else a.real_inputs(feeds_a)
        theirs = a.real_inputs(feeds_a) if b.borrowed else b.real_inputs(feeds_b)
        return replace(self, inputs=(ours, theirs))


@dataclass(frozen=True)
class Exact:
    """The exact outputs of both files on one input, and the rounding floor of each."""

    inputs: tuple[Mapping[str, Array], Mapping[str, Array]]
    outputs: tuple[Array, Array]
    floors: tuple[float, float]
    file_floor: float  # what weights that differ by rounding may do: the most that the exact outputs may differ by
    # for outputs of different kinds: the difference of the scores that they mean, and its floor
    scores: tuple[float, float] | None = None

    @property
    def same_scores(self) -> bool:
        """Whether the outputs are of different kinds, such as logits and probabilities, and mean the same."""
        return self.scores is not None and self.scores[0] <= self.scores[1]

    @classmethod
    def of(cls, a: Side, b: Side, examined: ExaminedInput, kind: Compared = "raw outputs") -> Exact:
        views = examined.view(a, 0), examined.view(b, 1)
        is_shared = same_evaluation(*views) and a.output == b.output
        known = examined.inspection.outputs if examined.inspection is not None else {}
        walked = [known.get(a.label) or tuple(_walked(views[0]))]
        walked.append(walked[0] if is_shared else known.get(b.label) or tuple(_walked(views[1])))
        output_a, floor_a, file_floor_a = ours = _measured(views[0], walked[0])
        output_b, floor_b, file_floor_b = ours if is_shared else _measured(views[1], walked[1])
        outputs = output_a, output_b
        scores = None if kind == "raw outputs" else _in_scores(views, walked)
        inputs = views[0].inputs, views[1].inputs
        return cls(inputs, outputs, (floor_a, floor_b), max(file_floor_a, file_floor_b), scores)

    def floor_between(self, a: Side, b: Side) -> float:
        """What rounding may do to the difference of the two answers. Against a file that is quantised, one that is not
        shows what the grids do: they are no rounding of the other."""
        return floor_between(a, b, self.floors) if self.scores is None else self.scores[1]

    def parts(self, a: Side, b: Side, examined: ExaminedInput) -> Parts:
        return Parts(
            deviation_of_finite(a.real_answer(examined.answers[0]), self.outputs[0]).error,
            relative_difference(self.outputs[1], self.outputs[0]),
            deviation_of_finite(b.real_answer(examined.answers[1]), self.outputs[1]).error,
            self.floor_between(a, b),
        )


def _walked(view: SideView) -> Iterator[Array]:
    """The exact output of a side, then those of disturbed evaluations."""
    yield exact_output(view.graph, view.side.output, view.inputs)
    yield from _disturbed_outputs(view, noisy)


def _measured(view: SideView, walked: Sequence[Array]) -> tuple[Array, float, float]:
    """The exact output of a side, what rounding may do to it, and what weights that differ by rounding may do."""
    exact, *moved = walked
    floor = noise_floor(exact, moved)
    if not grids_of(view.graph):
        return exact, floor, floor
    # The files themselves have no integer kernels, so that values between two steps of a grid are not disturbed.
    return exact, floor, noise_floor(exact, _disturbed_outputs(view, disturbed_weights))


def _in_scores(views: Sequence[SideView], walked: Sequence[Sequence[Array]]) -> tuple[float, float]:
    """Return the relative difference of the scores of two exact outputs, and its rounding floor."""
    scores = []
    floors = []
    for view, outputs in zip(views, walked, strict=True):
        exact, *moved = (scores_of(view.side, output) for output in outputs)
        scores.append(exact)
        floors.append(noise_floor(exact, moved))
    return relative_difference(scores[1], scores[0]), max(floors)


def scores_of(side: Side, output: Array) -> Array:
    """The scores that an exact output means; it is given in the shape and, if the file is quantised, in the integers
    that the runtime would give."""
    spec = side.watched
    extents = [extent or 1 for extent in spec.shape[1:]]
    shape = (1, *extents) if output.size == prod(extents) else (1, -1)
    shaped = output.reshape(shape)
    if spec.scale and np.dtype(spec.dtype).kind in "iu":
        limits = np.iinfo(spec.dtype)
        shaped = np.clip(np.round(shaped / spec.scale + (spec.zero_point or 0)), limits.min, limits.max)
    return np.asarray(side.scores(shaped.astype(spec.dtype)), np.float64).reshape(-1)


def _disturbed_outputs(view: SideView, disturb: Callable[[Graph, int], Graph]) -> Iterator[Array]:
    for seed in range(NOISY_RUNS):
        yield exact_output(disturb(view.graph, seed), view.side.output, noisy_inputs(view.inputs, seed))


def exact_output(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    return exact_value(graph, inputs, name).reshape(-1)


def exact_outputs(graph: Graph, names: Sequence[str], inputs: Mapping[str, Array]) -> list[Array]:
    """Several values at once, in the order of their names."""
    if not names:
        return []
    segment = starting_at(graph, inputs, tuple(names))
    values = {node.name: value.reshape(-1) for node, value in exact_values(segment, inputs) if node.name in names}
    return [values[name] for name in names]


def farthest(first: Sequence[Array], second: Sequence[Array]) -> float:
    """The largest of several differences; infinite where one side has more values."""
    if len(first) != len(second):
        return float("inf")
    return max((relative_difference(one, other) for one, other in zip(first, second, strict=True)), default=0.0)


def relative_difference(first: Array, second: Array) -> float:
    """Return the relative difference of two values; infinite where their shapes differ."""
    return deviation_of_finite(first, second).error if first.shape == second.shape else float("inf")
