"""An input that is looked at layer by layer, and the exact answers of both files to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoolens.divergence.causes import Parts
from zoolens.divergence.inspection import Inspection, SideView, noisy, noisy_inputs
from zoolens.divergence.sides import Feeds, Side
from zoolens.graph.model import Array, Graph
from zoolens.graph.reference import run
from zoolens.numerics.deviation import deviation
from zoolens.numerics.rounding import FACTOR, ONE_ROUNDING
from zoolens.twins.activations import starting_at


@dataclass(frozen=True)
class Examined:
    """One input that was looked at layer by layer, with what both sides answered to it."""

    index: int
    feeds: tuple[Feeds, Feeds]
    answers: tuple[Array, Array]
    inspection: Inspection | None = None


@dataclass(frozen=True)
class Exact:
    """The exact main outputs of both files on one input, and what rounding may do to them."""

    inputs: tuple[dict[str, Array], dict[str, Array]]
    outputs: tuple[Array, Array]
    floor: float

    @classmethod
    def of(cls, a: Side, b: Side, examined: Examined) -> Exact:
        views = [SideView(side, feeds) for side, feeds in zip((a, b), examined.feeds, strict=True)]
        outputs = [exact_output(view.graph, side.output, view.inputs) for side, view in zip((a, b), views, strict=True)]
        floor = FACTOR * ONE_ROUNDING
        for side, view, exact in zip((a, b), views, outputs, strict=True):
            for seed in range(2):
                moved = exact_output(noisy(view.graph, seed), side.output, noisy_inputs(view.inputs, seed))
                floor = max(floor, FACTOR * deviation(moved, exact).error)
        return cls((views[0].inputs, views[1].inputs), (outputs[0], outputs[1]), floor)

    def parts(self, a: Side, b: Side, examined: Examined) -> Parts:
        return Parts(
            deviation(a.real_answer(examined.answers[0]), self.outputs[0]).error,
            apart(self.outputs[1], self.outputs[0]),
            deviation(b.real_answer(examined.answers[1]), self.outputs[1]).error,
            self.floor,
        )


def exact_output(graph: Graph, name: str, inputs: Mapping[str, Array]) -> Array:
    return run(starting_at(graph, inputs, (name,)), inputs)[name].reshape(-1)


def apart(one: Array, other: Array) -> float:
    return deviation(one, other).error if one.shape == other.shape else float("inf")
