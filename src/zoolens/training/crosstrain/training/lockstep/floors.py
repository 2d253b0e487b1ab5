"""How far a correct float32 computation may lie from the float64 one, measured for every quantity.

A few runs in float32, whose first weights are disturbed by some roundings, train along the same batches: how far they
get from the reference is what rounding can do. It grows from step to step as the training amplifies it. The runs
compute in float32, since a reference with disturbed weights would not show all: torch's batch norm sums a variance
naively and is 1000 roundings off; and a bias before a norm has a gradient of nothing but rounding, which Adam turns
into whole steps.

They are disturbed by more than one rounding because of kinks: where an input of a ReLU is nearly zero, one rounding
in a hundred runs turns it on or off, and the gradients before it jump by a thousand times their usual error. With
larger disturbances the few runs show such jumps more often than a side meets them.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.numerics import rounding
from zoolens.base.numerics.deviation import deviation
from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING, ROUNDINGS
from zoolens.training.crosstrain.training.architectures import is_statistic
from zoolens.training.crosstrain.training.lockstep.course import Course, LockstepRun
from zoolens.training.pairs.lockstep.floors import MORE_RUNS, RUNS
from zoolens.training.pairs.lockstep.quantities import Key, key_of

IN_WORDS: Final = (
    f"The floor of a quantity is {FACTOR:g} times the farthest that rounding moved it in {RUNS} runs, or {MORE_RUNS} "
    "before a side is accused without a proved cause: in float32, by the reference's trainer on the CPU, with first "
    f"weights disturbed by up to {ROUNDINGS} roundings each. They train along, so that the floor grows as rounding "
    "errors do. Where it reaches the quantity's own size, nothing can be told."
)
Floors = Mapping[int, Mapping[Key, float]]  # by step and quantity


def floors(
    course: Course, reference: LockstepRun, keys: Sequence[Key], runs: range = range(RUNS), before: Floors | None = None
) -> Floors:
    """Measures the floors, which are infinite where a run did not get so far. `runs`: their numbers, each of them
    another disturbance; `before`: the floors of other runs, which these can only raise. None is measured twice for the
    same run of the reference."""
    question = (reference.folder, runs, tuple(keys))
    if question not in course.measured_floors:
        course.measured_floors[question] = _measured(course, reference, keys, runs)
    measured: Floors = course.measured_floors[question]
    if before is None:
        return measured
    return {
        step: {key: max(floor, before[step][key]) for key, floor in by_key.items()} for step, by_key in measured.items()
    }


def _measured(course: Course, reference: LockstepRun, keys: Sequence[Key], runs: range) -> Floors:
    by_step = {step: dict.fromkeys(keys, FACTOR * ONE_ROUNDING) for step in course.steps}
    for number in runs:
        start = disturbed(reference.start, number)
        run = course.run(
            f"noise-{number}", course.reference.name, reference.semantics, precision="float32", start=start
        )
        for step, raised in by_step.items():
            _raise(raised, run.at(step), reference.at(step))
        shutil.rmtree(run.folder)
    return by_step


def disturbed(weights: Mapping[str, NDArray[Any]], seed: int) -> dict[str, NDArray[Any]]:
    """Every learned number by up to so many roundings, up or down."""
    generator = np.random.default_rng(seed)
    moved_weights = {}
    for name, array in weights.items():
        moved = rounding.disturbed(array, generator)  # also of a statistic, so that each number draws what it drew
        moved_weights[name] = array.astype(np.float32) if is_statistic(name) else moved
    return moved_weights


def _raise(
    floor: dict[Key, float], noisy: Mapping[str, NDArray[Any]] | None, exact: Mapping[str, NDArray[Any]] | None
) -> None:
    for kind, name in floor:
        key = key_of(kind, name)
        if noisy is None or exact is None:
            floor[kind, name] = math.inf
        elif key in exact:
            floor[kind, name] = max(floor[kind, name], FACTOR * deviation(noisy[key], exact[key]).error)
