"""Whether two networks answer alike on the same input with the same weights, and if not, where they part.

Both run in their own frameworks. How far rounding may move an answer is measured by running A again with its weights
disturbed by some roundings. Where they part is found layer by layer (`layer_values`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zoolens.graph.diff.report import Diff
from zoolens.graph.model import Graph
from zoolens.numerics.deviation import Deviation, deviation
from zoolens.numerics.rounding import FACTOR, ONE_ROUNDING, disturbed
from zoolens.port.frameworks.base import Array
from zoolens.port.layer_values import EXACT, Border, LayerValues, Parting, facing, layer_values
from zoolens.port.sides import InputShape, Side

RUNS: Final = 4  # with disturbed weights, of which the farthest counts
SAMPLES: Final = 2  # inputs
REPEATS: Final = 3  # of each input; a few dropped numbers may be the same ones by chance
DRAWN_REPEATS: Final = 40  # of a network that draws random numbers, of which few may reach its answers
_LARGE: Final = 16.0
_TOKENS: Final = 10  # values of whole-number inputs, where no embedding says how many it has


@dataclass(frozen=True)
class Agreement:
    """`error`: how far the outputs are apart, relative to the larger; `floor`: how far rounding alone moves them.

    `first`: where they part at all; `beyond`: where by more than the floor of the outputs; `behind`: where they part
    next, given equal answers of the unknown layer that is the first; `layers`: why the layers could not be compared,
    where they could not; `borders`: unknown layers, by what they are given and what they answer. `random`: the sides
    that answer the same input with other numbers each time; `drawing`: those that draw random numbers, of which nothing
    was seen in their answers.
    """

    error: float
    floor: float
    why: str = "value"
    first: Parting | None = None
    beyond: Parting | None = None
    behind: Parting | None = None
    borders: tuple[Border, ...] = ()
    layers: str = ""
    random: tuple[str, ...] = ()
    drawing: tuple[str, ...] = ()
    compared: int = 0
    inputs: int = 0

    @property
    def agree(self) -> bool | None:
        """None where it cannot be told: the floor is as large as the answers, a side is random, or not finite."""
        if self.random or self.why == "not finite":
            return None
        verdict = Deviation(self.error, self.why).verdict(self.floor)  # type: ignore[arg-type]
        return None if verdict == "blind" else verdict == "within"


def random_inputs(inputs: Sequence[InputShape], graphs: Sequence[Graph], seed: int) -> list[Array]:
    """One batch of one: numbers around zero, those of odd seeds large, or whole numbers that every embedding has.

    Large ones reach the bends of activations that small ones do not, such as the 6 of ReLU6.
    """
    generator = np.random.default_rng(seed)
    size = _LARGE if seed % 2 else 1.0
    drawn = (_drawn(given, place, graphs, generator) for place, given in enumerate(inputs))
    return [array * np.float32(size) if array.dtype.kind == "f" else array for array in drawn]


def _drawn(given: InputShape, place: int, graphs: Sequence[Graph], generator: np.random.Generator) -> Array:
    if given.kind == "float":
        return generator.standard_normal((1, *given.shape)).astype(np.float32)
    tables = [
        table.shape[0]
        for graph in graphs
        for user in graph.consumers[graph.inputs[place].name]
        if (table := user.parameter("table")) is not None
    ]
    return generator.integers(0, min(tables, default=_TOKENS), (1, *given.shape))


def agreement(
    a: Side, b: Side, diff: Diff, fed: Sequence[Sequence[Array]], weights: Mapping[str, Array], *, layers: bool = True
) -> Agreement:
    """Compare both on every input of `fed`; they have their weights already, and `weights` are those of A."""
    answers = [[side.run(inputs) for inputs in fed] for side in (a, b)]
    drawing = [side.draws(fed[0]) for side in (a, b)]
    random = tuple(
        side.text
        for side, draws, given in zip((a, b), drawing, answers, strict=True)
        if _changes(side, fed, given, DRAWN_REPEATS if draws else REPEATS)
    )
    steady = tuple(side.text for side, draws in zip((a, b), drawing, strict=True) if draws and side.text not in random)
    apart = [_apart(x, y) for x, y in zip(*answers, strict=True)]
    number = max(range(len(fed)), key=lambda place: apart[place].error)
    worst = apart[number]
    floor = _floor(a, fed, answers[0], weights, _coarsest(a, b))
    if worst.why == "not finite":
        finite = [all(np.isfinite(array).all() for array in given[number]) for given in answers]
        why = worst.why if not any(finite) else f"not finite in {'AB'[finite.index(False)]} alone"
        return Agreement(worst.error, floor, why, layers=_not_finite(a, weights), random=random, inputs=len(fed))
    found = Agreement(worst.error, floor, worst.why, random=random, drawing=steady, inputs=len(fed))
    agree = worst.verdict(floor) == "within"
    if not layers or random or (agree and not (diff.a.unknown and diff.b.unknown)):
        return found
    both = (answers[0][number], answers[1][number])
    values = layer_values((a, b), diff, fed[number], both, weights, floor=floor, precision=_coarsest(a, b))
    return replace(found, borders=values.borders) if agree else _with_layers(found, values)


def _with_layers(found: Agreement, values: LayerValues) -> Agreement:
    first, *later = values.partings or (None,)
    beyond = next((each for each in values.partings if each.error > max(found.floor, EXACT)), None)
    unknown = first is not None and any((border.a, border.b) == (first.a, first.b) for border in values.borders)
    return replace(
        found,
        first=first,
        beyond=beyond,
        behind=later[0] if unknown and later else None,
        borders=values.borders,
        compared=values.compared,
        layers=values.wrong or values.stopped,
    )


def _not_finite(side: Side, weights: Mapping[str, Array]) -> str:
    """Which weights are to blame, if any."""
    names = [name for name, values in weights.items() if not np.isfinite(values).all()]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{side.text} has weights that are not finite: {', '.join(names[:4])}{more}." if names else ""


def _coarsest(a: Side, b: Side) -> str:
    """The type whose roundings both sides' answers have: that of float32, unless one computes in a shorter one."""
    return next((kind for kind in ("bfloat16", "float16") if kind in a.dtype or kind in b.dtype), "float32")


def _changes(side: Side, fed: Sequence[Sequence[Array]], answers: Sequence[Sequence[Array]], repeats: int) -> bool:
    """Whether the same input is ever answered with other numbers."""
    return any(
        not _equal(side.run(inputs), answer)
        for _ in range(repeats)
        for inputs, answer in zip(fed, answers, strict=True)
    )


def _equal(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return len(one) == len(other) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(one, other, strict=True))


def _apart(a: Sequence[Array], b: Sequence[Array]) -> Deviation:
    """The farthest of the outputs, in order."""
    if len(a) != len(b):
        return Deviation(float("inf"), "shape")
    return max((deviation(facing(y, x.shape), x) for x, y in zip(a, b, strict=True)), key=lambda moved: moved.error)


def _floor(
    side: Side,
    fed: Sequence[Sequence[Array]],
    answers: Sequence[Sequence[Array]],
    weights: Mapping[str, Array],
    precision: str,
) -> float:
    farthest = ONE_ROUNDING
    try:
        for run in range(RUNS):
            generator = np.random.default_rng(run)
            side.assign({name: disturbed(values, generator, precision) for name, values in weights.items()})
            moved = [_apart(exact, side.run(inputs)) for inputs, exact in zip(fed, answers, strict=True)]
            farthest = max(farthest, *(each.error for each in moved))
    finally:
        side.assign(weights)
    return FACTOR * farthest
