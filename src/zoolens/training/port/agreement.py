"""Whether two networks answer alike on the same input with the same weights, and if not, where they part.

Both run in their own frameworks. How far rounding may move an answer is measured by running A again with its weights
disturbed by some roundings. Where they part is found layer by layer (`layer_values`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import Deviation, deviation
from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING, disturbed
from zoolens.base.verdicts import Gap
from zoolens.findings.graph.diff.report import Diff
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import PortSide
from zoolens.training.port.batch_answers import BatchAnswers, batch_answers, worst_of
from zoolens.training.port.layer_values import EXACT, Border, LayerValues, Parting, layer_values
from zoolens.training.port.output_forms import form_differences

RUNS: Final = 4  # with disturbed weights, of which the farthest counts
REPEATS: Final = 3  # of each input; a few dropped numbers may be the same ones by chance
DRAWN_REPEATS: Final = 40  # of a network that draws random numbers, of which few may reach its answers


@dataclass(frozen=True)
class PortAgreement:
    """How far the answers of both are apart. Of all inputs and outputs `error` and `floor` are those of the one that is
    farthest beyond its floor."""

    error: float  # how far an output is apart, relative to the larger
    floor: float  # how far rounding alone moves it
    why: str = "value"
    first: Parting | None = None  # where they part at all
    beyond: Parting | None = None  # where they part by more than the floor of the outputs
    behind: Parting | None = None  # where they part next, given equal answers of the unknown layer that is the first
    borders: tuple[Border, ...] = ()  # unknown layers, by what they are given and what they answer
    layers: str = ""  # why the layers could not be compared, where they could not
    random: tuple[str, ...] = ()  # the sides that answer the same input with other numbers each time
    drawing: tuple[str, ...] = ()  # those that draw random numbers, of which nothing was seen in their answers
    compared: int = 0
    inputs: int = 0
    batch: BatchAnswers | None = None  # the answers to all inputs at once; None where they were not asked for
    forms: tuple[str, ...] = ()  # what outputs have other axes in B than in A, which their numbers do not show
    branches: tuple[Gap, ...] = ()  # decisions of a network's code that fell the same way for every input

    @property
    def agree(self) -> bool | None:
        """None where it cannot be told: the floor is as large as the answers, a side is random, or not finite."""
        if self.random or self.why == "not finite":
            return None
        if Deviation(self.error, self.why).verdict(self.floor) == "blind":  # type: ignore[arg-type]
            return None
        return self.alike_alone and not (self.batch and self.batch.differ)

    @property
    def alike_alone(self) -> bool:
        """Whether each input alone is answered alike, whatever happens in a batch."""
        return Deviation(self.error, self.why).verdict(self.floor) == "within"  # type: ignore[arg-type]


def agreement(
    a: PortSide,
    b: PortSide,
    diff: Diff,
    fed: Sequence[Sequence[Array]],
    weights: Mapping[str, Array],
    *,
    layers: bool = True,
) -> PortAgreement:
    """Compare both on every input of `fed`; they have their weights already, and `weights` are those of A."""
    answers = [[side.run(inputs) for inputs in fed] for side in (a, b)]
    drawing = [side.draws(fed[0]) for side in (a, b)]
    random = tuple(
        side.text
        for side, draws, given in zip((a, b), drawing, answers, strict=True)
        if _changes(side, fed, given, DRAWN_REPEATS if draws else REPEATS)
    )
    steady = tuple(side.text for side, draws in zip((a, b), drawing, strict=True) if draws and side.text not in random)
    floors = _floors(a, fed, answers[0], weights, _coarsest(a, b))
    worst = [worst_of(x, y, floor) for x, y, floor in zip(*answers, floors, strict=True)]
    number = max(range(len(fed)), key=lambda place: worst[place].rank)
    result = PortAgreement(
        worst[number].apart.error, worst[number].floor, worst[number].apart.why, random=random, inputs=len(fed)
    )
    if result.why == "not finite":
        finite = [all(np.isfinite(array).all() for array in given[number]) for given in answers]
        why = result.why if not any(finite) else f"not finite in {'AB'[finite.index(False)]} alone"
        return replace(result, why=why, layers=_not_finite(a, weights))
    result = replace(result, drawing=steady, forms=form_differences((a, b), (answers[0][0], answers[1][0])))
    if not random:
        result = replace(result, batch=batch_answers((a, b), fed, answers, floors))
    agree = worst[number].verdict == "within"
    if not layers or random or (agree and not (diff.a.unknown and diff.b.unknown)):
        return result
    both = (answers[0][number], answers[1][number])
    values = layer_values((a, b), diff, fed[number], both, weights, floor=result.floor, precision=_coarsest(a, b))
    return replace(result, borders=values.borders) if agree else _with_layers(result, values)


def _with_layers(result: PortAgreement, values: LayerValues) -> PortAgreement:
    first, *later = values.partings or (None,)
    beyond = next((each for each in values.partings if each.error > max(result.floor, EXACT)), None)
    unknown = first is not None and any((border.a, border.b) == (first.a, first.b) for border in values.borders)
    return replace(
        result,
        first=first,
        beyond=beyond,
        behind=later[0] if unknown and later else None,
        borders=values.borders,
        compared=values.compared,
        layers=values.wrong or values.stopped,
    )


def _not_finite(side: PortSide, weights: Mapping[str, Array]) -> str:
    """Which weights are to blame, if any."""
    names = [name for name, values in weights.items() if not np.isfinite(values).all()]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{side.text} has weights that are not finite: {', '.join(names[:4])}{more}." if names else ""


def _coarsest(a: PortSide, b: PortSide) -> str:
    """The type whose roundings both sides' answers have: that of float32, unless one computes in a shorter one."""
    return next((kind for kind in ("bfloat16", "float16") if kind in a.dtype or kind in b.dtype), "float32")


def _changes(side: PortSide, fed: Sequence[Sequence[Array]], answers: Sequence[Sequence[Array]], repeats: int) -> bool:
    """Whether the same input is ever answered with other numbers."""
    return any(
        not _equal(side.run(inputs), answer)
        for _ in range(repeats)
        for inputs, answer in zip(fed, answers, strict=True)
    )


def _equal(first: Sequence[Array], second: Sequence[Array]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(x, y, equal_nan=True) for x, y in zip(first, second, strict=True)
    )


def _floors(
    side: PortSide,
    fed: Sequence[Sequence[Array]],
    answers: Sequence[Sequence[Array]],
    weights: Mapping[str, Array],
    precision: str,
) -> list[list[float]]:
    """How far rounding alone moves each output, for each input."""
    found = [[ONE_ROUNDING] * len(exact) for exact in answers]
    try:
        for run in range(RUNS):
            generator = np.random.default_rng(run)
            side.assign({name: disturbed(values, generator, precision) for name, values in weights.items()})
            for floors, inputs, exact in zip(found, fed, answers, strict=True):
                moved = [deviation(array, given).error for array, given in zip(side.run(inputs), exact, strict=True)]
                floors[:] = map(max, floors, moved)
    finally:
        side.assign(weights)
    return [[FACTOR * error for error in floors] for floors in found]
