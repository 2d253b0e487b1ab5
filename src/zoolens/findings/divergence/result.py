"""What a comparison of two environments has found: where and why they diverge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.present.results import Result, frame
from zoolens.base.verdicts import Coverage, Gap, Outcome, Tally, Verdict, judged
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.divergence.divergence_answers import AnswerPairs, OtherOutput
from zoolens.findings.divergence.divergence_causes import Cause, Kind, Parts
from zoolens.findings.divergence.file_tensors import FileTensors
from zoolens.findings.divergence.inspection import InspectedLayer

UNDOUBTED: Final = 1e-2  # relative: no rounding of float32 is taken to do more, where no floor could be measured


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
    its floor. `in_trunk`: all that the network computes passes through it."""

    label: str
    layer: InspectedLayer
    in_trunk: bool = False

    def as_row(self) -> dict[str, object]:
        """Returns the layer for a table. What is not known is None: where only one side shows the layer, or where
        rounding alone may move it by its own size."""
        between, floor = self.layer.between, self.layer.floor
        judgement = None if between is None else between.verdict(floor)
        alone = [None if side is None or side.local is None else side.local.error for side in self.layer.sides]
        return {
            "layer": self.label,
            "a": self.layer.pair.a,
            "b": self.layer.pair.b,
            "difference": None if between is None else between.error,
            "floor": floor,
            "beyond_rounding": None if judgement in (None, "blind") else judgement == "beyond",
            "a_alone": alone[0],
            "b_alone": alone[1],
            "files": None if self.layer.files is None else self.layer.files.error,
        }


@dataclass(frozen=True, repr=False)
class Divergence(Result):
    """Where and why two sides diverge."""

    a: SideSummary
    b: SideSummary
    data: str
    answers: AnswerPairs
    floor: float  # what rounding may do to the output
    measured_floor: bool  # false: the floor is assumed
    layers: tuple[LayerFacts, ...]  # in order of computation
    first: LayerFacts | None  # the first layer beyond its floor
    parts: Parts | None  # the three parts of the difference on the worst input
    causes: tuple[Cause, ...]
    examined: tuple[int, ...]
    notes: tuple[str, ...]
    memory: int
    # layers that the reference computes, and those that it does not
    understood: Coverage = field(default_factory=Coverage)
    tensors: FileTensors | None = None  # of two different files whose constants can be read
    output: OtherOutput | None = None  # what floor, parts and causes are about, if it is not the main output
    origin: DataOrigin | None = None  # where the inputs lie; None: unknown
    fingerprint: str = ""  # of the inputs' content

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each layer, in order of computation. Differences are relative, and
        infinite where only one side is finite; what is not known is missing."""
        return frame((fact.as_row() for fact in self.layers), "Divergence.frame")

    @property
    def relative_error(self) -> float:
        """The relative difference of the two in the output that is examined."""
        return self.answers.relative_error if self.output is None else self.output.relative_error

    @property
    def beyond_rounding(self) -> bool:
        """Whether answers or layers differ by more than rounding explains."""
        return self.first is not None or is_beyond(self.relative_error, self.floor)

    @property
    def differs(self) -> bool:
        """Whether the two differ by more than rounding explains, or are proved to say different things."""
        return self.beyond_rounding or any(cause.proved and cause.kind is not Kind.RANDOM for cause in self.causes)

    @property
    def blind(self) -> bool:
        """Whether rounding alone moves the answers by their own size, so that a difference of them tells nothing."""
        return not self.differs and self.floor >= 1 and self.relative_error > 0

    @property
    def agrees(self) -> bool:
        """Whether it is known that the two agree in finite numbers, down to rounding."""
        return self.verdict.outcome is Outcome.SAME

    @property
    def proved_different(self) -> bool:
        """Whether what was understood proves a difference. Where no floor could be measured, only a proved cause or a
        difference that rounding cannot explain does."""
        if self.random:
            return False
        if self.measured_floor or any(cause.proved for cause in self.causes):
            return self.differs
        return self.relative_error > UNDOUBTED

    @property
    def verdict(self) -> Verdict:
        """Whether the two agree on these inputs, and what that rests on. Answers that are equal in every number need no
        graph to be read."""
        inputs = Tally("inputs", len(self.answers.rows), len(self.answers.rows))
        gaps = tuple(self._gaps())
        if self.answers.equal and not self.differs:
            return judged(Coverage((inputs,), gaps), different=False)
        known = self.understood
        coverage = Coverage((inputs, *known.tallies), (*known.gaps, *gaps))
        return judged(coverage, different=self.proved_different)

    def _gaps(self) -> Iterator[Gap]:
        """What keeps the answers from telling whether the two agree."""
        if self.differs and not self.proved_different and not self.random:
            yield Gap("whether the difference is rounding: no floor could be measured", remedy="See the notes above.")
        if self.random:
            yield Gap("answers that change from call to call", remedy="Fix the model's random seed.")
        if self.blind:
            yield Gap("answers that rounding may move by their own size", remedy="Compare on other inputs.")
        if self.unclear_part:
            yield Gap("a part of the answers with much smaller numbers", remedy="Compare that part as an output.")
        if self.answers.not_finite:
            yield Gap("answers that are not finite", self.answers.not_finite)
        for name in self.answers.unmatched:
            yield Gap(f"output {name[:60]}, which has no partner", remedy="Give both outputs the same name.")

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
