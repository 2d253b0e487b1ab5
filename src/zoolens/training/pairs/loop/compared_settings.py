"""What differs between two sides that are to be trained for so many steps: settings, schedules, and how layers pad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.live.differences import MOMENTUM_RATE, RATES, SettingDifference, differences
from zoolens.training.pairs.live.live_training import Setting
from zoolens.training.pairs.live.paddings import padding_difference
from zoolens.training.pairs.live.penalties import with_penalties
from zoolens.training.pairs.live.tensor_constants import with_tensors
from zoolens.training.pairs.loop.single_run import Length
from zoolens.training.pairs.loop.trainable_sides import TrainableSide, as_trainable
from zoolens.training.pairs.sides.open_pair import OpenPair


def compared_settings(pair: OpenPair, lengths: Sequence[int] | None) -> tuple[SettingDifference, ...]:
    """All that differs and has a name; `lengths` as for `settings_of_both`."""
    a, b = settings_of_both(pair, lengths)
    padding = padding_difference(pair.diff)
    return (*setting_differences(pair, a, b), *((padding,) if padding is not None else ()))


def settings_of_both(
    pair: OpenPair, lengths: Sequence[int] | None
) -> tuple[Mapping[str, Setting], Mapping[str, Setting]]:
    """What the live objects of A and of B have. `lengths`: steps of each epoch, for the learning rates of all steps
    where one of the sides has a schedule; None: they are not the same for every seed, so that such rates cannot be
    known."""
    sides = as_trainable(pair.a), as_trainable(pair.b)
    a, b = (side.settings() for side in sides)
    if any(settings.get("schedule.name", "none") != "none" for settings in (a, b)):
        for side, settings in zip(sides, (a, b), strict=True):
            settings[RATES] = _rates(side, lengths)
    if not any(_changes(settings) for settings in (a, b)):
        for settings in (a, b):
            settings.pop(MOMENTUM_RATE, None)  # at one rate both kinds of momentum are the same
    return a, b


def _changes(settings: Mapping[str, Setting]) -> bool:
    """Whether the learning rate is not the same at every step, or may not be."""
    rates = settings.get(RATES, ())
    return rates is None or (isinstance(rates, tuple) and len(set(rates)) > 1)


def setting_differences(
    pair: OpenPair, a: Mapping[str, Setting], b: Mapping[str, Setting]
) -> tuple[SettingDifference, ...]:
    """What A and B have differently; regularisers and groups of parameters by the tensors that they belong to."""
    return with_tensors(with_penalties(differences(a, b), a, b, pair.map), a, b, pair.map)


def _rates(side: TrainableSide, lengths: Sequence[int] | None) -> Setting:
    return side.rates(lengths) if lengths is not None else None


def epoch_lengths(source: BatchSource, length: Length, seeds: Sequence[int]) -> list[int] | None:
    """The steps of each epoch, where they are the same for all seeds."""
    distinct = {tuple(_lengths(source, length, seed)) for seed in seeds}
    return list(distinct.pop()) if len(distinct) == 1 else None


def _lengths(source: BatchSource, length: Length, seed: int) -> list[int]:
    left, lengths = length.steps(source, seed), []
    for epoch in range(1, length.epochs + 1):
        steps = min(left, source.epoch_steps(epoch, seed))
        lengths.append(steps)
        left -= steps
    return [steps for steps in lengths if steps]
