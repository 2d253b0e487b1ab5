"""Trains arms of an explanation: one of the two sides with some settings of the other, each once under each seed.

A training that is done is kept in the store, where there is one, and is not done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Any, Final, Protocol

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.statistics.seeds import SeedNoise, seed_noise
from zoolens.base.statistics.student import Values
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.explanation.design import FRAMEWORK
from zoolens.training.pairs.live.differences import SettingDifference, in_order
from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.lockstep.setting_switches import give
from zoolens.training.pairs.loop.at_once import both_at_once
from zoolens.training.pairs.loop.compared_settings import compared_settings, epoch_lengths
from zoolens.training.pairs.loop.single_run import Length, SingleRun, train_once
from zoolens.training.pairs.loop.trainable_sides import TrainableSide, as_trainable
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.open_pair import OpenPair

INIT: Final = "initial weights"


Described = tuple[int, Mapping[str, Any]]  # the side, 0 or 1, and what it was given of the other


class KeptArms(Protocol):
    """Where trainings of arms that are done are kept."""

    def read(self, arm: Described, seed: int, weights: Mapping[str, Array]) -> SingleRun | None:
        """The training, if it was done before from the same weights with the same settings."""

    def write(self, arm: Described, seed: int, weights: Mapping[str, Array], run: SingleRun) -> None:
        """Keep a training that is done."""


@dataclass(frozen=True)
class PortArm:
    """One side, 0 or 1, with these players at the other side's values."""

    side: int
    switched: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SideGame:
    """Two live sides as players: the settings that both can be given, and all the rest."""

    players: tuple[str, ...]
    a: PortArm = PortArm(0)
    b: PortArm = PortArm(1)

    def arm(self, cell: int) -> PortArm:
        """The side of the cell's framework, with what is not its own."""
        at_b = {name for place, name in enumerate(self.players) if cell >> place & 1}
        side = int(FRAMEWORK in at_b)
        switched = {name for name in self.players if name != FRAMEWORK and (name in at_b) != bool(side)}
        return PortArm(side, frozenset(switched))

    def fixed(self, side: PortArm, names: Iterable[str]) -> PortArm:
        """One of the two sides with these players at the other's values."""
        return PortArm(side.side, frozenset(names))


@dataclass(frozen=True)
class LostArm:
    """An arm whose loss was not finite any more: under which seeds, and at which step at the earliest."""

    arm: PortArm
    seeds: tuple[int, ...]
    step: int


class PortExplanationBench:
    """The pair with what it is trained on. Arms of A and of B are trained at the same time where each side has its own
    process. `kept`: where trainings that are done are written and looked for; None: nowhere."""

    def __init__(
        self,
        pair: OpenPair,
        source: BatchSource,
        length: Length,
        own_init: bool,
        progress: Progress,
        kept: KeptArms | None = None,
    ) -> None:
        self.source, self.length, self.images = source, length, source.held_out_samples
        self._pair, self._own_init, self._progress, self._kept = pair, own_init, progress, kept
        self._sides = as_trainable(pair.a), as_trainable(pair.b)
        self._known: dict[tuple[PortArm, int], float] = {}
        self._drawn: dict[tuple[int, int], dict[str, Array]] = {}
        self._onto: dict[int, dict[str, Array]] = {}
        self._players: dict[str, SettingDifference] = {}
        self._lock = Lock()
        self._lost: dict[tuple[PortArm, int], int] = {}  # arm and seed -> the step at which its loss was not finite
        self.trained = self.found = 0  # how many were trained now, and how many had been before

    def say(self, text: str) -> None:
        self._progress.say(text)

    def players(self, seeds: int) -> tuple[tuple[SettingDifference, ...], tuple[tuple[SettingDifference, str], ...]]:
        """What differs, sorted into what both sides can be given and what not. `seeds`: how many there will be."""
        players, fixed = [], []
        lengths = epoch_lengths(self.source, self.length, range(seeds))
        for difference in compared_settings(self._pair, lengths):
            why = self._refusal(difference)
            if why is None:
                players.append(difference)
                self._players[difference.name] = difference
            else:
                fixed.append((difference, why))
        if self._own_init:
            players.append(SettingDifference(INIT, "A's own draw", "B's own draw"))
        return tuple(players), tuple(fixed)

    def _refusal(self, difference: SettingDifference) -> str | None:
        """Why one of the sides cannot be given the other's value; None where both can."""
        for side in (0, 1):
            if not difference.known(side):
                return f"Its value cannot be read from the live objects of {'AB'[side]}."
        for side, live in enumerate(self._sides):
            live.begin(0)
            try:
                give(live, difference, side=side, of=1 - side)
                if live.keeps_switches:
                    give(live, difference, side=side, of=side)
            except NotSwitchable as error:
                return f"{'AB'[side]} cannot be given the other's value: {error.message}"
        return None

    def noise(self, stage: str, a: PortArm, b: PortArm, seeds: Sequence[int]) -> SeedNoise:
        """Returns the noise over the seeds under which both stay finite; there must be two of them."""
        self.accuracies(stage, (a, b), seeds)
        whole = self.finite_seeds((a, b), seeds)
        if len(whole) < min(2, len(seeds)):
            raise _not_finite(self._sides, next(lost for lost in self.lost() if lost.arm in (a, b)))
        ours, theirs = self.accuracies(stage, (a, b), whole).T
        return seed_noise("A", ours.tolist(), "B", theirs.tolist(), self.images)

    def finite_seeds(self, arms: Sequence[PortArm], seeds: Sequence[int]) -> list[int]:
        """The seeds under which none of these arms, which have been trained, was lost."""
        return [seed for seed in seeds if not any((arm, seed) in self._lost for arm in arms)]

    def lost(self) -> tuple[LostArm, ...]:
        """The arms that did not stay finite under every seed, in the order in which they were trained."""
        arms = dict.fromkeys(arm for arm, _ in self._lost)
        seeds = {arm: tuple(sorted(seed for other, seed in self._lost if other == arm)) for arm in arms}
        return tuple(LostArm(arm, seeds[arm], min(self._lost[arm, seed] for seed in seeds[arm])) for arm in arms)

    def accuracies(self, stage: str, arms: Sequence[PortArm], seeds: Sequence[int]) -> Values:
        """Seeds × arms; NaN for a training that was lost. What was trained before is not trained again."""
        asked = list(dict.fromkeys((arm, seed) for seed in seeds for arm in arms))
        new = [cell for cell in asked if cell not in self._known]
        if new:
            self._draw(sorted({seed for _, seed in new}))
            self._train(stage, [cell for cell in new if not self._read(*cell)])
        return np.array([[self._known[arm, seed] for arm in arms] for seed in seeds], np.float64)

    def _draw(self, seeds: Sequence[int]) -> None:
        """The first weights of each side for each seed: B's only where they count. Beside them, tensors of each side
        into which others are moved: what has no partner has these values in every training."""
        for place, side in enumerate(self._sides):
            if place not in self._onto:
                side.begin(0)
                self._onto[place] = side.tensors()
        for place in (0, 1) if self._own_init else (0,):
            for seed in seeds:
                if (place, seed) not in self._drawn:
                    self._sides[place].begin(seed)
                    self._drawn[place, seed] = self._sides[place].tensors()

    def _read(self, arm: PortArm, seed: int) -> bool:
        """Take a training from the store, where it is kept."""
        run = self._kept.read(self._described(arm), seed, self._start(arm, seed)) if self._kept else None
        if run is None or run.accuracy is None:
            return False
        self._known[arm, seed] = run.accuracy
        self.found += 1
        return True

    def _described(self, arm: PortArm) -> tuple[int, dict[str, Any]]:
        """What decides about an arm beside the pair, the data and the weights."""
        given = {name: self._players[name].switches(arm.side, 1 - arm.side) for name in self._ordered(arm)}
        return arm.side, given

    def _ordered(self, arm: PortArm) -> list[str]:
        return in_order({name: None for name in arm.switched if name in self._players})

    def _train(self, stage: str, new: Sequence[tuple[PortArm, int]]) -> None:
        if not new:
            return
        self._progress.begin(f"explain: {stage}", "training", len(new) * self.length.steps(self.source), "steps")
        turns = [[cell for cell in new if cell[0].side == side] for side in (0, 1)]
        both_at_once(self._sides, [partial(self._turn, turn) for turn in turns])
        self._progress.end()

    def _turn(self, turn: Sequence[tuple[PortArm, int]], stop: Event) -> None:
        for arm, seed in turn:
            run = self._one(arm, seed, stop)
            with self._lock:
                self._known[arm, seed] = float("nan") if run.accuracy is None else run.accuracy
                self.trained += 1
                if run.accuracy is None:
                    self._lost[arm, seed] = run.not_finite or 0
                elif self._kept is not None:
                    self._kept.write(self._described(arm), seed, self._start(arm, seed), run)

    def _one(self, arm: PortArm, seed: int, stop: Event) -> SingleRun:
        side = self._sides[arm.side]
        side.begin(seed)
        side.assign(self._start(arm, seed))
        names = self._ordered(arm)
        for name in names:
            give(side, self._players[name], side=arm.side, of=1 - arm.side)
        run = train_once(side, self.source, seed, self.length, fresh=False, report=self._advance, stop=stop)
        if side.keeps_switches:
            for name in names:
                give(side, self._players[name], side=arm.side, of=arm.side)
        if run.accuracy is None and run.not_finite is None:
            raise ZoolensError(
                f"{side.text} has no accuracy that could be explained: its answers name no class for each sample.",
                hint="Use --lockstep, which compares the first steps of any training.",
            )
        return run

    def _start(self, arm: PortArm, seed: int) -> Mapping[str, Array]:
        """A's weights, unless each side draws its own: then those of the side that the player stands at."""
        drawn_by = (arm.side if INIT not in arm.switched else 1 - arm.side) if self._own_init else 0
        weights = self._drawn[drawn_by, seed]
        if drawn_by == arm.side:
            return weights
        moved = self._pair.map if drawn_by == 0 else self._pair.map.reversed()
        return moved.moved(weights, self._onto[arm.side])

    def _advance(self, steps: int) -> None:
        with self._lock:
            self._progress.advance(steps)


def _not_finite(sides: Sequence[TrainableSide], lost: LostArm) -> ZoolensError:
    told = f" with {', '.join(sorted(lost.arm.switched))} of the other side" if lost.arm.switched else ""
    seeds = ", ".join(map(str, lost.seeds))
    return ZoolensError(
        f"{sides[lost.arm.side].text}{told} has no accuracy under the seeds {seeds}: its loss is not finite at step "
        f"{lost.step}.",
        hint="Explain a training that stays finite, with a smaller learning rate for example.",
    )
