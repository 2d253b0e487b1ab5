"""Lockstep of a port: both networks take the same first steps from the same weights, and every quantity is compared.

The first one beyond rounding is named with its cause, which is proved by switching it on B; then B goes on with it
switched, to the next independent cause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.report import Diff
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.differences import DROPOUT, SettingDifference, alike
from zoolens.training.pairs.live.live_training import NotSwitchable, Setting
from zoolens.training.pairs.lockstep.departures import PairedSteps
from zoolens.training.pairs.lockstep.floors import RUNS
from zoolens.training.pairs.lockstep.lockstep_coverage import JudgedRuns
from zoolens.training.pairs.lockstep.lockstep_result import LockstepResult
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity
from zoolens.training.pairs.lockstep.setting_search import SettingSearch
from zoolens.training.pairs.loop.compared_settings import compared_settings
from zoolens.training.pairs.loop.trainable_sides import TrainableSide, as_trainable, opened_for_training
from zoolens.training.pairs.mapping.parameter_map import ParameterMap
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.open_pair import OpenPair, PairOptions

STEPS: Final = (1, 2, 10)


@dataclass(frozen=True, kw_only=True)
class Lockstep(LockstepResult):
    """What a comparison of the first steps of a port found."""

    names: tuple[str, str]
    unseen: tuple[SettingDifference, ...]  # settings that differ and that no departure was traced to
    unlearned: tuple[str, ...]  # tensors that only one side learns
    structure: tuple[str, ...]  # differences of the two networks' graphs, in words
    without_dropout: bool
    # The first departure where the weights agree all the same: a regulariser in the loss here and a weight decay in the
    # optimizer there train the same network.
    only_counted: ComparedQuantity | None = None
    # The first departure that nothing explains and that is beyond its floor by no more than MARGIN. From there on all
    # floors were as wide: two frameworks may round a long sum otherwise by more than each does by itself.
    doubtful: ComparedQuantity | None = None
    lost: int | None = None  # the first compared step at which the loss or a tensor of A is not finite

    @property
    def blind(self) -> int:
        """How many quantities rounding alone moves by their size."""
        return sum(row.blind for row in self.rows)

    @property
    def layers(self) -> int:
        """How many have their activations among the quantities."""
        return sum(row.kind == "activation" and row.step == self.steps[0] for row in self.rows)

    @property
    def different(self) -> bool:
        """Whether a weight departs, or one side alone learns a tensor. What a framework fixes and what changes no
        weight is no difference."""
        return bool(self.unlearned) or not all(cause.is_convention for cause in self.causes)

    @property
    def agree(self) -> bool:
        """Whether all weights were judged and are alike after every compared step, and both learn the same tensors."""
        return self.verdict.outcome is Outcome.SAME


def lockstep(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    batches: Sequence[TrainingBatch],
    *,
    steps: Sequence[int] = STEPS,
    batches_b: Sequence[TrainingBatch] | None = None,
    options: PairOptions | None = None,
) -> Lockstep:
    """Train both sides for a few steps on these batches, from A's weights, and compare all that they compute.
    `batches_b`: those of B, where it has its own.

    A side is named as in `check`, or is a function that returns live objects, or these objects themselves.
    """
    with opened_for_training(a, b, inputs, options or PairOptions()) as pair:
        return lockstep_of(pair, batches, steps=steps, batches_b=batches_b)


def lockstep_of(
    pair: OpenPair,
    batches: Sequence[TrainingBatch],
    *,
    steps: Sequence[int] = STEPS,
    batches_b: Sequence[TrainingBatch] | None = None,
) -> Lockstep:
    """Compare the first steps of a pair that is open for training, from the weights that A has now."""
    wanted = _checked(steps, min(batches, batches_b or batches, key=len), pair.map)
    a, b = as_trainable(pair.a), as_trainable(pair.b)
    start, before = a.tensors(), b.tensors()
    known = compared_settings(pair, _epochs(batches[: wanted[-1]]))
    quiet = [(side, rates) for side in (a, b) if any(rates := _rates_of_dropout(side))]
    for side, rates in quiet:
        _turn_off(side, rates)
    try:
        course = PairedSteps(a, b, pair.map, batches, wanted, start, batches_b)
        return _followed(course, pair.diff, known, {side.text: rates for side, rates in quiet})
    finally:
        for side, rates in quiet:
            side.switch(DROPOUT, rates)
        a.assign(start)
        b.assign(before)


def _rates_of_dropout(side: TrainableSide) -> tuple[float, ...]:
    rates = side.settings().get(DROPOUT)
    return rates if isinstance(rates, tuple) else ()


def _turn_off(side: TrainableSide, rates: tuple[float, ...]) -> None:
    """Each side draws other numbers, so that with dropout nothing could be compared."""
    try:
        side.switch(DROPOUT, tuple(0.0 for _ in rates))
    except NotSwitchable as error:
        raise ZoolensError(
            f"{side.text} drops numbers at random, which cannot be turned off: {error.message}",
            hint="Set the rates of dropout to 0 in both networks.",
        ) from error


def _checked(steps: Sequence[int], batches: Sequence[TrainingBatch], map_: ParameterMap) -> tuple[int, ...]:
    wanted = tuple(sorted(set(steps)))
    if not wanted or wanted[0] < 1:
        raise ZoolensError("Steps are counted from 1.", hint="Write --steps 1,2,10, for example.")
    if len(batches) < wanted[-1]:
        raise ZoolensError(
            f"Step {wanted[-1]} is to be compared, and the data have {len(batches)} batches.",
            hint="Name earlier steps, or use smaller batches.",
        )
    if not map_.moves:
        raise ZoolensError("No tensor of A has a place in B, so that the two cannot begin alike.")
    return wanted


def _epochs(batches: Sequence[TrainingBatch]) -> list[int]:
    """How many of the batches each epoch has."""
    ends = [number for number, batch in enumerate(batches, 1) if batch.ends_epoch]
    bounds = [0, *ends, *([len(batches)] if not ends or ends[-1] < len(batches) else [])]
    return [end - start for start, end in pairwise(bounds)]


def _followed(
    course: PairedSteps,
    diff: Diff,
    listed: Sequence[SettingDifference],
    dropped: Mapping[str, tuple[float, ...]],
) -> Lockstep:
    _refuse_chance(course)
    known = [setting for setting in map(_without_chance, listed) if not alike(setting)]
    known = [setting for setting in known if not _counts_second_biases(setting, course.map)]
    reference = course.run_a()
    course.measure_floors(reference, "a", range(RUNS))
    switchable = [setting for setting in known if setting.name != DROPOUT]
    off: dict[str, Setting] = {DROPOUT: tuple(0.0 for _ in dropped.get(course.b.text, ()))}
    search = SettingSearch(course, reference, off if course.b.text in dropped else {}, switchable)
    first_run = course.run_b()
    first = course.compared(reference, first_run)
    if first.departure is not None:
        course.measure_floors(first_run, "b", range(RUNS))
        first = course.compared(reference, first_run)
    if not first.weights_agree:
        search.run()
    proved = {setting.name for cause in search.causes if cause.proved for setting in cause.differences}
    unseen = tuple(setting for setting in known if setting.name not in proved)
    lost = next((step for step in course.steps if not _is_finite(reference[step])), None)
    same_update = first.weights_agree and first.departure is not None
    runs = JudgedRuns(course.map, reference, first_run, first, unseen, same_update, lost)
    return Lockstep(
        names=(course.a.text, course.b.text),
        steps=tuple(course.steps),
        rows=first.rows,
        causes=tuple(search.causes),
        coverage=runs.coverage(),
        unseen=unseen,
        unlearned=course.unlearned(reference, first_run),
        structure=tuple(difference.text for difference in diff.differences),
        without_dropout=bool(dropped),
        only_counted=first.departure if first.weights_agree else None,
        doubtful=search.doubtful,
        lost=lost,
    )


def _without_chance(setting: SettingDifference) -> SettingDifference:
    """A side whose layers cannot be read, and whose steps do not depend on the seed, has no dropout."""
    if setting.name != DROPOUT:
        return setting
    a, b = ("none" if value is None else value for value in (setting.a, setting.b))
    return replace(setting, a=a, b=b)


def _counts_second_biases(setting: SettingDifference, map_: ParameterMap) -> bool:
    """Whether one side trains more numbers, which are the second biases of its recurrent gates."""
    if setting.name != "optimizer.trained" or not (isinstance(setting.a, int) and isinstance(setting.b, int)):
        return False
    more = sum(prod(each.bias.shape) for each in map_.sums) - sum(prod(each.bias.shape) for each in map_.added)
    return more != 0 and setting.a == setting.b + more


def _is_finite(capture: Mapping[str, Array]) -> bool:
    """Whether the loss and all tensors are finite. Activations are not asked: a mask is infinite on purpose."""
    kept = (values for name, values in capture.items() if name == "loss" or name.startswith("tensor/"))
    return all(np.isfinite(values).all() for values in kept)


def _refuse_chance(course: PairedSteps) -> None:
    """Dropout that is no layer, noise and augmentation inside a network: two sides never draw the same numbers, and
    floors that are measured under them would hide everything."""
    for which, side in (("a", course.a), ("b", course.b)):
        if course.draws_at_random(which):
            raise ZoolensError(
                f"A step of {side.text} is another one under another seed: the network or the loss draws random "
                "numbers, and those of dropout layers were turned off already.",
                hint="Name a function that returns it without dropout calls, noise and augmentation.",
            )
