"""`explain`: which settings make the gap between two trainings of a port, and how much of it each.

The settings that both sides can be given are players of a game, and so is all that is left: the framework, the user's
code, what could not be switched. A cell of the design is A with some of B's settings, or B with some of A's. Shares,
design and the judgement of the verifying re-run are those of crosstrain's explanations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Final

import numpy as np

from zoolens.crosstrain.study.explanation.contest import FRAMEWORK
from zoolens.crosstrain.study.explanation.design import Fraction
from zoolens.crosstrain.study.explanation.explain import cells_of, culprits_of, explained_by, judged
from zoolens.crosstrain.study.explanation.results import Explained, Verification
from zoolens.errors import ZoolensError
from zoolens.graph.diff.phrases import plural
from zoolens.port.check import OpenPair, opened
from zoolens.port.frameworks.base import Array
from zoolens.port.sides import TIMEOUT, Device, WorkerSide
from zoolens.port.training.base import NotSwitchable, Setting
from zoolens.port.training.causes import Difference, differences
from zoolens.port.training.sides import as_trainable, open_trainable_side
from zoolens.port.training.single_run import Length, train_once
from zoolens.port.training.sources import BatchSource
from zoolens.port.weights import ask_for_missing
from zoolens.progress import Progress, Silent
from zoolens.statistics.seeds import SeedNoise, seed_noise
from zoolens.statistics.student import Values

REPLICATES: Final = 4
INIT: Final = "initial weights"
_VERIFYING: Final = 3  # arms of the verification at most: both sides, and one of them with the culprits switched


@dataclass(frozen=True)
class Arm:
    """One side, 0 or 1, with these players at the other side's values."""

    side: int
    switched: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PortExplanation:
    """`players`: what differs and was switched; `fixed`: what differs and was not, with the reason. `explained` is None
    where there is no gap beyond seed noise or nothing to switch, `verification` where no player has a share worth it.
    `planned`: how many trainings the whole explanation takes; `trained`: how many there were."""

    names: tuple[str, str]
    players: tuple[Difference, ...]
    fixed: tuple[tuple[Difference, str], ...]
    structure: tuple[str, ...]
    pair: SeedNoise
    seeds: tuple[int, ...]
    steps: int
    planned: int
    trained: int
    explained: Explained | None = None
    verification: Verification | None = None


def explain(
    a: str | Any,
    b: str | Any,
    inputs: Sequence[str],
    source: BatchSource,
    length: Length,
    *,
    replicates: int = REPLICATES,
    own_init: bool = False,
    fraction: Fraction = "auto",
    chosen: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    device: Device = "cpu",
    progress: Progress | None = None,
) -> PortExplanation:
    """`replicates`: seeds of the design, and as many fresh ones for the verification. `own_init`: each side draws its
    own first weights, which is then a player, too. The sides are as in `train`."""
    if replicates < 2:
        raise ZoolensError("One seed cannot tell a cause from noise.", hint="Use at least 2 replicates.")
    if source.classes is None or not source.held_out_samples:
        raise ZoolensError(
            f"{source.name} has no held-out samples with classes, whose accuracy could be explained.",
            hint="Use --lockstep, which compares the first steps of any training.",
        )
    open_ = partial(open_trainable_side, device=device)
    with opened(a, b, inputs, chosen=chosen, timeout=timeout, open_=open_) as pair:
        ask_for_missing(pair.map)
        bench = _Bench(pair, source, length, own_init, progress or Silent())
        return _explained(bench, pair, replicates, fraction)


def _explained(bench: _Bench, pair: OpenPair, replicates: int, fraction: Fraction) -> PortExplanation:
    players, fixed = bench.players()
    names = (*(found.name for found in players), FRAMEWORK)
    planned = replicates * (len(cells_of(len(names), fraction)) + _VERIFYING)
    seeds, fresh = range(replicates), range(replicates, 2 * replicates)
    steps = bench.length.steps(bench.source)
    bench.say(
        f"Up to {planned} trainings of {steps:,} steps, if the sides differ: {len(cells_of(len(names), fraction))} "
        f"cells of {plural(len(players), 'setting')} that can be switched, {replicates} seeds each, and a verification."
    )
    noise = bench.noise("the pair", Arm(0), Arm(1), seeds)

    def result(explained: Explained | None = None, verification: Verification | None = None) -> PortExplanation:
        structure = tuple(difference.text for difference in pair.diff.differences)
        return PortExplanation(
            (pair.a.text, pair.b.text), players, fixed, structure, noise, tuple(seeds), steps, planned, bench.trained,
            explained, verification,
        )  # fmt: skip

    if not noise.beyond_noise or not players:
        return result()

    def trained(cells: Sequence[int]) -> Values:
        return bench.accuracies("the design", [_arm(cell, names) for cell in cells], seeds)

    found = explained_by(names, trained, fraction, noise.level or 0.0, bench.images)
    return result(found, _verified(bench, found, noise, fresh))


def _arm(cell: int, names: Sequence[str]) -> Arm:
    """Who trains a cell, the set of players at B's value: the side of its framework, with what is not its own."""
    at_b = {name for place, name in enumerate(names) if cell >> place & 1}
    side = int(FRAMEWORK in at_b)
    switched = {name for name in names if name != FRAMEWORK and (name in at_b) != bool(side)}
    return Arm(side, frozenset(switched))


def _verified(bench: _Bench, explained: Explained, noise: SeedNoise, fresh: Sequence[int]) -> Verification | None:
    culprits = culprits_of(explained.shares)
    if not culprits:
        return None
    worse = 0 if noise.difference.value > 0 else 1  # it gets the values of the better one
    arms = [Arm(side, frozenset(culprits) if side == worse else frozenset()) for side in (0, 1)]
    before = bench.noise("verification", Arm(0), Arm(1), fresh)
    after = bench.noise("verification", arms[0], arms[1], fresh)
    return judged(culprits, "ab"[worse], before, after, bench.images)


class _Bench:
    """Trains arms under seeds, each once; those of A and of B at the same time where each has its own process."""

    def __init__(self, pair: OpenPair, source: BatchSource, length: Length, own_init: bool, progress: Progress) -> None:
        self.source, self.length, self.images = source, length, source.held_out_samples
        self._pair, self._own_init, self._progress = pair, own_init, progress
        self._sides = as_trainable(pair.a), as_trainable(pair.b)
        self._known: dict[tuple[Arm, int], float] = {}
        self._drawn: dict[tuple[int, int], dict[str, Array]] = {}
        self._values: dict[str, tuple[Setting, Setting]] = {}
        self._lock = Lock()

    @property
    def trained(self) -> int:
        return len(self._known)

    def say(self, text: str) -> None:
        self._progress.say(text)

    def players(self) -> tuple[tuple[Difference, ...], tuple[tuple[Difference, str], ...]]:
        """What differs, sorted into what both sides can be given and what not."""
        players, fixed = [], []
        for found in differences(self._sides[0].settings(), self._sides[1].settings()):
            why = self._refusal(found)
            if why is None:
                players.append(found)
                self._values[found.name] = (found.a, found.b)
            else:
                fixed.append((found, why))
        if self._own_init:
            players.append(Difference(INIT, "A's own draw", "B's own draw"))
        return tuple(players), tuple(fixed)

    def _refusal(self, found: Difference) -> str | None:
        """Why one of the sides cannot be given the other's value; None where both can."""
        if found.a is None or found.b is None:
            return "its value cannot be read from one of the live objects"
        for side, letter, own, other in zip(self._sides, "AB", (found.a, found.b), (found.b, found.a), strict=True):
            try:
                side.begin(0)
                side.switch(found.name, other)
                if side.keeps_switches:
                    side.switch(found.name, own)
            except NotSwitchable as error:
                return f"{letter} cannot be given the other's value: {error.message}"
        return None

    def noise(self, stage: str, a: Arm, b: Arm, seeds: Sequence[int]) -> SeedNoise:
        ours, theirs = self.accuracies(stage, (a, b), seeds).T
        return seed_noise("A", ours.tolist(), "B", theirs.tolist(), self.images)

    def accuracies(self, stage: str, arms: Sequence[Arm], seeds: Sequence[int]) -> Values:
        """Seeds × arms. What was trained before is not trained again."""
        asked = list(dict.fromkeys((arm, seed) for seed in seeds for arm in arms))
        new = [one for one in asked if one not in self._known]
        if new:
            self._draw(sorted({seed for _, seed in new}))
            self._train(stage, new)
        return np.array([[self._known[arm, seed] for arm in arms] for seed in seeds], np.float64)

    def _draw(self, seeds: Sequence[int]) -> None:
        """The first weights of each side for each seed: B's only where they count."""
        for place in (0, 1) if self._own_init else (0,):
            for seed in seeds:
                if (place, seed) not in self._drawn:
                    self._sides[place].begin(seed)
                    self._drawn[place, seed] = self._sides[place].tensors()

    def _train(self, stage: str, new: Sequence[tuple[Arm, int]]) -> None:
        self._progress.begin(f"explain: {stage}", "training", len(new) * self.length.steps(self.source), "steps")
        at_once = 2 if all(isinstance(side, WorkerSide) for side in self._sides) else 1
        with ThreadPoolExecutor(at_once) as threads:
            turns = [[one for one in new if one[0].side == side] for side in (0, 1)]
            for finished in [threads.submit(self._turn, turn) for turn in turns]:
                finished.result()
        self._progress.end()

    def _turn(self, turn: Sequence[tuple[Arm, int]]) -> None:
        for arm, seed in turn:
            accuracy = self._one(arm, seed)
            with self._lock:
                self._known[arm, seed] = accuracy

    def _one(self, arm: Arm, seed: int) -> float:
        side, other = self._sides[arm.side], 1 - arm.side
        switches = {name: self._values[name][other] for name in sorted(arm.switched) if name in self._values}
        weights = self._start(arm, seed)
        run = train_once(side, self.source, seed, self.length, weights=weights, switches=switches, report=self._advance)
        if side.keeps_switches:
            for name in switches:
                side.switch(name, self._values[name][arm.side])
        if run.accuracy is None:
            told = f" with {', '.join(sorted(arm.switched))} of the other side" if arm.switched else ""
            raise ZoolensError(
                f"{side.text}{told} has no accuracy under seed {seed}: its loss is not finite after "
                f"{run.not_finite or run.steps} steps.",
                hint="Explain a training that stays finite, with a smaller learning rate for example.",
            )
        return run.accuracy

    def _start(self, arm: Arm, seed: int) -> Mapping[str, Array]:
        """A's weights, unless each side draws its own: then those of the side that the player stands at."""
        drawn_by = (arm.side if INIT not in arm.switched else 1 - arm.side) if self._own_init else 0
        weights = self._drawn[drawn_by, seed]
        if drawn_by == arm.side:
            return weights
        moved = self._pair.map if drawn_by == 0 else self._pair.map.reversed()
        return moved.moved(weights, self._sides[arm.side].tensors())

    def _advance(self, steps: int) -> None:
        with self._lock:
            self._progress.advance(steps)
