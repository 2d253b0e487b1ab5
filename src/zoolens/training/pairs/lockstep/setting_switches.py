"""Settings of a live side that are switched to what the other has, and the quantities in which each shows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zoolens.training.pairs.live.differences import SettingDifference, in_order
from zoolens.training.pairs.live.live_training import NotSwitchable, Setting
from zoolens.training.pairs.lockstep.departures import SEED
from zoolens.training.pairs.lockstep.quantities import AFTER_GRADIENTS
from zoolens.training.pairs.loop.trainable_sides import TrainableSide

# By the beginning of a setting's name, the kinds of quantities in which it shows before it shows in any other.
_SHOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "norm.kept": ("statistic",),
    "norm.divisor": ("statistic",),
    "norm.epsilon": ("activation", "output"),
    "norm.frozen": ("activation", "output", "statistic"),
    "padding": ("activation", "output"),
    "precision": ("activation", "output"),
    "dropout": ("activation", "output"),
    "embedding": ("gradient",),
    "loss": ("loss", "gradient"),
    "regularisation": ("loss", "gradient"),
    "clip": AFTER_GRADIENTS,
    "constraint": ("tensor",),
    "schedule": ("tensor", "first"),
    "optimizer.learning_rate": ("tensor",),
    "optimizer": AFTER_GRADIENTS,
}


class Switched:
    """B with some settings as A has them. `always`: settings that every run of B has, whatever is tried."""

    def __init__(self, side: TrainableSide, known: Sequence[SettingDifference], always: Mapping[str, Setting]) -> None:
        self._side, self._known, self._always = side, {difference.name: difference for difference in known}, always
        self.in_force: tuple[str, ...] = ()
        self.refused: dict[str, str] = {}

    def set(self, names: Sequence[str]) -> bool:
        """Have exactly these switched; whether all of them could be. A function of the user's makes its objects anew;
        objects that the user holds are switched back."""
        self._back()
        self._side.begin(SEED, fresh=True)
        for name, value in self._always.items():
            self._side.switch(name, value)
        known = {name: self._known[name] for name in names}
        self.in_force = tuple(name for name in in_order(known) if self._switch(known[name]))
        return len(self.in_force) == len(names)

    def _back(self) -> None:
        if self._side.keeps_switches:
            for name in self.in_force:
                give(self._side, self._known[name], side=1, of=1)

    def _switch(self, difference: SettingDifference) -> bool:
        if not difference.known(0):
            self.refused[difference.name] = "its value cannot be read from the live object"
            return False
        try:
            give(self._side, difference, side=1, of=0)
        except NotSwitchable as error:
            self.refused[difference.name] = error.message
            return False
        return True


def give(live: TrainableSide, difference: SettingDifference, *, side: int, of: int) -> None:
    """Let side 0 or 1, which is `live`, have a setting as side `of` has it. NotSwitchable: it cannot, and all is as
    before."""
    for place, (name, value) in enumerate(difference.switches(side, of)):
        try:
            live.switch(name, value)
        except NotSwitchable:
            if place and of != side:
                give(live, difference, side=side, of=side)
            raise


def touches(name: str, kind: str) -> bool:
    """Whether a setting may show in quantities of this kind first."""
    return any(name.startswith(prefix) and kind in kinds for prefix, kinds in _SHOWS.items())
