"""How far rounding alone moves each quantity, measured by runs of the same steps that are disturbed by some roundings.

The runs train along, so that floors grow as rounding errors do. They are disturbed by more than one rounding because of
kinks: where an input of a ReLU is nearly zero, one rounding in a hundred runs turns it on or off, and the gradients
before it jump by a thousand times their usual error. With larger disturbances the few runs show such jumps more often
than a side meets them.

Which runs are disturbed is each door's own. A port has no exact computation that both sides should follow: its floors
are those of A and of B themselves, under other weights, inputs and order of samples. A recipe's sides are compared with
a reference in float64, and its floors are those of the reference's trainer in float32 under other weights: its jobs
read inputs from files that all runs share. If ports disturbed weights alone, too, nothing would stand for the rounding
of inputs: in the tests of this folder the floors of activations would be 0.64 to 0.75 of what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zoolens.base.numerics.deviation import Deviation
from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING
from zoolens.training.pairs.lockstep.quantities import Key

RUNS: Final = 4
MORE_RUNS: Final = 16  # before a side is accused of what nothing explains
LEAST: Final = FACTOR * ONE_ROUNDING
Floors = dict[tuple[int, Key], float]  # by step and quantity; LEAST where there is none


def raise_floors(floors: Floors, step: int, moved: Mapping[Key, Deviation]) -> None:
    """Let no floor be below `FACTOR` times what rounding did in one more run."""
    for key, apart in moved.items():
        floors[step, key] = max(floors.get((step, key), LEAST), FACTOR * apart.error)


def widest(floors: Floors, others: Floors) -> Floors:
    """The larger floor of each quantity."""
    return {key: max(floors.get(key, LEAST), others.get(key, LEAST)) for key in {**floors, **others}}
