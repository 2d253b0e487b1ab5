"""What a comparison of two stacks has found: where and why they part."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zoolens.comparisons.origins import DataOrigin
from zoolens.divergence.answers import AnswerPairs, OtherOutput
from zoolens.divergence.causes import Cause, Kind, Parts
from zoolens.divergence.inspection import InspectedLayer


@dataclass(frozen=True)
class SideSummary:
    """What one side is, for a report."""

    title: str
    runtime: str
    version: str | None
    precision: str
    layers: int  # values inside the model that can be read and found in its graph


@dataclass(frozen=True)
class LayerFacts:
    """One layer over all examined inputs: each of its deviations is that of the input on which it is farthest beyond
    its floor."""

    label: str
    layer: InspectedLayer


@dataclass(frozen=True)
class Divergence:
    """Where and why two sides part. `layers` are in order of computation; `first` is the first of them beyond its
    floor. `origin`, `fingerprint`: where the inputs lie, and that of their content; None where nobody told where they
    lie. `output`: the output that floor, parts and causes are about, where it is not the main one. `floor`: what
    rounding may do to it; it is assumed, not measured, where `measured_floor` is false. `parts`: the three parts of the
    difference on the worst input."""

    a: SideSummary
    b: SideSummary
    data: str
    answers: AnswerPairs
    floor: float
    measured_floor: bool
    layers: tuple[LayerFacts, ...]
    first: LayerFacts | None
    parts: Parts | None
    causes: tuple[Cause, ...]
    examined: tuple[int, ...]
    notes: tuple[str, ...]
    memory: int
    output: OtherOutput | None = None
    origin: DataOrigin | None = None
    fingerprint: str = ""

    @property
    def relative_error(self) -> float:
        """How far the two are apart in the output that is looked at."""
        return self.answers.relative_error if self.output is None else self.output.relative_error

    @property
    def beyond_rounding(self) -> bool:
        """Whether answers or layers are farther apart than rounding explains."""
        return self.first is not None or is_beyond(self.relative_error, self.floor)

    @property
    def differs(self) -> bool:
        """Whether the two are farther apart than rounding explains, or are proved to say different things."""
        return self.beyond_rounding or any(cause.proved for cause in self.causes)

    @property
    def blind(self) -> bool:
        """Whether rounding alone moves the answers by their own size, so that a difference of them tells nothing."""
        return not self.differs and self.floor >= 1 and self.relative_error > 0

    @property
    def agrees(self) -> bool:
        """Whether it is known that the two agree in finite numbers, down to rounding."""
        unknown = self.blind or self.random or self.unclear_part
        return not self.differs and not unknown and not self.answers.not_finite

    @property
    def unclear_part(self) -> bool:
        """Whether the answers agree as a whole, but not clearly in a part of them with much smaller numbers."""
        part = self.answers.small_part
        return part is not None and not self.differs and part.shows_beside(self.floor)

    @property
    def random(self) -> bool:
        """Whether a side gives another answer to the same input each time."""
        return any(cause.kind is Kind.RANDOM for cause in self.causes)


def is_beyond(error: float, floor: float) -> bool:
    """Whether a difference is more than rounding. Where rounding may move a value by its own size, only an answer that
    is not finite on one side is."""
    return error > floor and (floor < 1 or math.isinf(error))
