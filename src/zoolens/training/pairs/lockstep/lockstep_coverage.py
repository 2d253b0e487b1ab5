"""What the verdict of a lockstep rests on: how many tensors were judged, and what was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import root_mean_square
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.training.pairs.live.differences import DROPOUT, SettingDifference
from zoolens.training.pairs.live.setting_words import difference_words
from zoolens.training.pairs.lockstep.cause_search import CONVENTIONS
from zoolens.training.pairs.lockstep.counterparts import Counterparts
from zoolens.training.pairs.lockstep.departures import ComparedRun
from zoolens.training.pairs.lockstep.quantities import Captures
from zoolens.training.pairs.mapping.parameter_map import ParameterMap
from zoolens.training.pairs.networks.framework import Array

# Where a regulariser in the loss trains the same weights as a decay in the optimizer, these differ in name alone.
_SAME_UPDATE: Final = ("regularisation", "optimizer.weight_decay", "optimizer.decay_kind")
_OF_ROUNDING: Final = 1e-5  # of the gradients of other tensors


@dataclass(frozen=True)
class JudgedRuns:
    """Both sides' captured steps as they are, with all that says how much of them was judged."""

    map: ParameterMap
    a: Captures
    b: Captures
    compared: ComparedRun
    unseen: Sequence[SettingDifference]  # settings that differ and that no departure was traced to
    same_update: bool  # the weights agree although something else departs
    lost_at: int | None

    def coverage(self) -> Coverage:
        first = self.a[min(self.a)]
        tensors = [name.partition("/")[2] for name in first if name.startswith(("tensor/", "statistic/"))]
        without = [tensor.tensor for tensor in self.map.only_a]
        added = {each.bias.tensor for each in self.map.added}
        extra = [tensor.tensor for tensor in self.map.only_b if tensor.tensor not in added]
        extra = [name for name in extra if not _has_no_gradient(name, self.b)]
        faced = Counterparts(self.map).tensors | {fold.bias.tensor for fold in self.map.folds}
        apart = [name for name in tensors if name not in faced and name not in without]
        judged = [name for name in tensors if name not in {*without, *apart, *self.compared.lost}]
        tally = Tally("tensors", len(judged), len(tensors) + len(extra))
        parts = [Gap(f"tensor {name} of A, which B has in parts that were not compared") for name in apart]
        return Coverage((tally,), (*parts, *self._gaps(without, extra)))

    def _gaps(self, without: Sequence[str], extra: Sequence[str]) -> Iterator[Gap]:
        named = "Say where it belongs, with --map name_in_A=name_in_B."
        yield from (Gap(f"tensor {name} of A, which has no place in B", remedy=named) for name in without)
        yield from (Gap(f"tensor {name} of B, which A lacks", remedy=named) for name in extra)
        earlier = "Compare earlier steps (--steps 1), before rounding errors have grown."
        yield from (
            Gap(f"tensor {name}, which rounding alone moves by its size", remedy=earlier) for name in self.compared.lost
        )
        if not self.compared.changed:
            yield Gap(
                "the update, since no tensor changes by more than rounding in these steps",
                remedy="Compare steps whose learning rate is above 0 (--steps).",
            )
        if self.lost_at is not None:
            yield Gap(f"the steps from {self.lost_at} on, in which A is not finite", remedy="Compare earlier steps.")
        for difference in self.unseen:
            yield from self._setting(difference)

    def _setting(self, difference: SettingDifference) -> Iterator[Gap]:
        name = difference.name
        if name in CONVENTIONS or (self.same_update and name in _SAME_UPDATE):
            return
        if name == DROPOUT:
            yield Gap(
                f"dropout, which was turned off: {difference_words(difference)}",
                remedy="Give both sides the same dropout, or compare whole trainings without --lockstep.",
            )
        # A setting that one side does not show may be the same: the compared steps judge it, and no gap is told.
        elif None not in (difference.a, difference.b):
            yield Gap(
                f"what shows later: {difference_words(difference)}, without an effect in these steps",
                remedy="Set it alike on both sides, or compare later steps (--steps).",
            )


def _has_no_gradient(tensor: str, captures: Captures) -> bool:
    """Whether its gradient is nothing but rounding, as that of a bias before a norm is."""
    return all(_is_rounding(capture.get(f"gradient/{tensor}"), capture) for capture in captures.values())


def _is_rounding(gradient: Array | None, capture: Mapping[str, Array]) -> bool:
    sizes = [root_mean_square(values) for name, values in capture.items() if name.startswith("gradient/")]
    return gradient is not None and root_mean_square(gradient) <= _OF_ROUNDING * float(np.median(sizes))
