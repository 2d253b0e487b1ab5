"""An input that is looked at layer by layer, and the exact answers of both files to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from zoolens.divergence.causes import Parts
from zoolens.divergence.evaluation import exact_value, grids_of
from zoolens.divergence.inspection import (
    NOISY_RUNS,
    Inspection,
    SideView,
    disturbed_weights,
    floor_between,
    noisy,
    noisy_inputs,
)
from zoolens.divergence.sides import Feeds, Side
from zoolens.graph.model import Array, Graph
from zoolens.numerics.deviation import deviation
from zoolens.numerics.rounding import FACTOR, ONE_ROUNDING, ROUNDINGS


@dataclass(frozen=True)
class Examined:
    """One input that was looked at layer by layer, with what both sides answered to it."""

    index: int
    feeds: tuple[Feeds, Feeds]
    answers: tuple[Array, Array]
    inputs: tuple[Mapping[str, Array], Mapping[str, Array]] = ({}, {})  # of the graphs, as real numbers
    inspection: Inspection | None = None

    def view(self, side: Side, place: int) -> SideView:
        return SideView(side, self.feeds[place], self.inputs[place])

    def with_inputs(self, a: Side, b: Side) -> Examined:
        """With what both graphs are given. A side that is held against the other's graph is taken to compute the same
        of a sample, whatever order of channels or scale it is fed in: its graph is given the other's input."""
        owners = (b if a.borrowed else a, a if b.borrowed else b)
        places = (1 if a.borrowed else 0, 0 if b.borrowed else 1)
        inputs = [side.real_inputs(self.feeds[place]) for side, place in zip(owners, places, strict=True)]
        return replace(self, inputs=(inputs[0], inputs[1]))


@dataclass(frozen=True)
class Exact:
    """The exact main outputs of both files on one input, and what rounding may do to each of them. `file_floor`: what
    weights that are the same but for rounding may do, which is all that the exact outputs may differ by."""

    inputs: tuple[Mapping[str, Array], Mapping[str, Array]]
    outputs: tuple[Array, Array]
    floors: tuple[float, float]
    file_floor: float

    @classmethod
    def of(cls, a: Side, b: Side, examined: Examined) -> Exact:
        sides = (a, b)
        views = [examined.view(side, place) for place, side in enumerate(sides)]
        outputs = [exact_output(view.graph, side.output, view.inputs) for side, view in zip(sides, views, strict=True)]
        floors = [_floor(view, exact, noisy) for view, exact in zip(views, outputs, strict=True)]
        files = [
            _floor(view, exact, disturbed_weights) if grids_of(view.graph) else floor
            for view, exact, floor in zip(views, outputs, floors, strict=True)
        ]
        return cls((views[0].inputs, views[1].inputs), (outputs[0], outputs[1]), (floors[0], floors[1]), max(files))

    def floor_between(self, a: Side, b: Side) -> float:
        """What rounding may do to the difference of the two answers. Against a file that is quantised, one that is not
        shows what the grids do: they are no rounding of the other."""
        return floor_between(a, b, self.floors)

    def parts(self, a: Side, b: Side, examined: Examined) -> Parts:
        return Parts(
            deviation(a.real_answer(examined.answers[0]), self.outputs[0]).error,
            apart(self.outputs[1], self.outputs[0]),
            deviation(b.real_answer(examined.answers[1]), self.outputs[1]).error,
            self.floor_between(a, b),
        )


def _floor(view: SideView, exact: Array, disturb: Callable[[Graph, int], Graph]) -> float:
    floor = FACTOR * ROUNDINGS * ONE_ROUNDING
    for seed in range(NOISY_RUNS):
        moved = exact_output(disturb(view.graph, seed), view.side.output, noisy_inputs(view.inputs, seed))
        floor = max(floor, FACTOR * deviation(moved, exact).error)
    return floor


def exact_output(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    return exact_value(graph, inputs, name).reshape(-1)


def apart(one: Array, other: Array) -> float:
    return deviation(one, other).error if one.shape == other.shape else float("inf")
