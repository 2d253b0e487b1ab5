"""Explain a gap: train the pair under several seeds, then every cell of the design, then the pair with the culprit
fixed. Runs are filed as they finish, so a killed explanation goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate, Values, count_rounding, mean_estimate
from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.explanation.bench import SEEDS, ExplanationBench
from zoolens.training.crosstrain.study.explanation.contest import FRAMEWORK, Arm, Contest, contest
from zoolens.training.crosstrain.study.explanation.design import Fraction, choose
from zoolens.training.crosstrain.study.explanation.results import Explained, Explanation, StandIn, Switch, Verification
from zoolens.training.crosstrain.study.explanation.shapley import ShapleyShare, interactions, shares
from zoolens.training.crosstrain.study.noise import images_of, noise_of_sides
from zoolens.training.crosstrain.study.store_training import Manner
from zoolens.training.crosstrain.study.stored_studies import file_study
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.semantics import Semantics
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trial_runner import apply
from zoolens.training.crosstrain.training.trials import TrainedSide

REPLICATES: Final = 4
_ENOUGH: Final = 0.8  # share of the gap that the culprits must explain together
_LEAST: Final = 0.05  # share of the gap below which a semantic is no culprit
_FAITHFUL: Final = 0.2  # a stand-in whose gap is off by no more than this share of it reproduces it


def explain(
    recipe: Recipe,
    a: Arm | str,
    b: Arm | str,
    *,
    store: Store,
    workers: Workers,
    replicates: int = REPLICATES,
    fraction: Fraction = "auto",
    manner: Manner | None = None,
    study: str | None = None,
    at_once: int | None = None,
    seeds_seen: int = 0,
    progress: Progress | None = None,
) -> Explanation:
    """`replicates`: seeds in the design, and as many fresh ones for the verification. `at_once`: runs beside each
    other; None: one, or on a cluster as many as it can run. `study`: the name under which all runs are filed.
    `seeds_seen`: how many seeds, from the recipe's own on, led to this question. They are not used: a trial that a
    search chose for its large gap shows too large a gap with the seeds that it was chosen by."""
    if replicates < 2:
        raise ZoolensError("One seed cannot tell a cause from noise.", hint="Use at least 2 replicates.")
    sides = tuple(Arm(arm) if isinstance(arm, str) else arm for arm in (a, b))
    if recipe.shipped and any(side.told != Semantics() for side in sides):
        raise ZoolensError("A network as its library ships it has its own semantics.", hint="Use mode: aligned.")
    name = study or _study_name(recipe, sides)
    details = {"source": "zoolens crosstrain explain", "recipe": recipe.model_dump(mode="json")}
    file_study(store, name, tuple(dict.fromkeys(side.framework for side in sides)), details)
    bench = ExplanationBench(store, name, workers, manner or Manner(), at_once, progress or Silent())
    return _Explaining(bench, name, recipe, _seeds(seeds_seen, replicates), fraction).run(*sides)


def _seeds(seen: int, replicates: int) -> tuple[range, range]:
    """Returns the seeds of the design and those of the verification, counted from the recipe's own."""
    middle = seen + replicates
    return range(seen, middle), range(middle, middle + replicates)


def _study_name(recipe: Recipe, sides: Sequence[Arm]) -> str:
    switched = [(side.framework, side.told.model_dump(exclude_none=True)) for side in sides]
    return f"explain-{fingerprint([recipe.fingerprint, switched])[:8]}"


class _Explaining:
    """One explanation as it goes."""

    def __init__(
        self, bench: ExplanationBench, study: str, recipe: Recipe, seeds: tuple[range, range], fraction: Fraction
    ) -> None:
        self._bench, self._study, self._fraction = bench, study, fraction
        self._asked = self._recipe = recipe
        self._seeds, self._fresh = seeds
        self._images: int | None = None  # of the test, known once the pair is trained

    def run(self, a: Arm, b: Arm) -> Explanation:
        pair, game, resolved = self._met("the pair", a, b)
        if not game.players:
            raise ZoolensError("Both sides are trained by the same framework in the same way.", hint="Name two sides.")
        if not pair.beyond_noise:
            return self._explanation(game, pair)
        switched, stand_in = pair, None
        if self._recipe.shipped:
            self._recipe = apply(self._recipe, {"mode": "aligned"})
            doubles = (Arm(a.framework, resolved[0]), Arm(b.framework, resolved[1]))
            switched, game, decided = self._met("stand-ins", *doubles)
            stand_in = stood_in(pair, switched, _added(resolved, decided), self._images)
            if not stand_in.same_way:
                return self._explanation(game, pair, stand_in=stand_in)
        explained = self._explained(game, switched.level or 0.0)
        verification = self._verified(game, explained.shares, switched)
        return self._explanation(game, pair, explained, verification, stand_in)

    def _met(self, stage: str, a: Arm, b: Arm) -> tuple[SeedNoise, Contest, tuple[Semantics, Semantics]]:
        """The two trained under all seeds, and what they do differently by their live objects."""
        sides = self._bench.sides(stage, self._recipe, (a, b), self._seeds)
        pair = self._noise(stage, a, b, self._seeds)
        self._images = images_of(sides.values())
        ours, theirs = (_resolved([sides[arm, seed] for seed in self._seeds]) for arm in (a, b))
        return pair, contest(a, ours, b, theirs), (ours, theirs)

    def _explanation(
        self,
        game: Contest,
        pair: SeedNoise,
        explained: Explained | None = None,
        verification: Verification | None = None,
        stand_in: StandIn | None = None,
    ) -> Explanation:
        return Explanation(
            self._study,
            self._asked,
            game,
            pair,
            explained,
            verification,
            stand_in,
            self._bench.trained,
            self._bench.known,
            tuple((self._asked.seed + number) % SEEDS for number in self._seeds),
            self._bench.unconfirmed,
        )

    def _explained(self, game: Contest, level: float) -> Explained:
        def trained(cells: Sequence[int]) -> Values:
            arms = [game.arm(cell) for cell in cells]
            return self._bench.accuracies("the design", self._recipe, arms, self._seeds)

        explained = explained_by(game.players, trained, self._fraction, level, self._images)
        return replace(explained, switches=(*explained.switches, *self._unnamed_switches(game)))

    def _unnamed_switches(self, game: Contest) -> list[Switch]:
        switches = []
        for factor in game.unnamed:
            side, value = (game.a, factor.b) if factor.a is None else (game.b, factor.a)
            arms = side, side.switched({factor.name: value})
            plain, changed = self._bench.accuracies("single switches", self._recipe, arms, self._seeds).T
            effect = mean_estimate(changed - plain, 2 * count_rounding(self._images))
            switches.append(Switch(factor.name, *((effect, None) if side is game.a else (None, effect))))
        return switches

    def _verified(self, game: Contest, parts: Sequence[ShapleyShare], pair: SeedNoise) -> Verification | None:
        culprits = culprits_of(parts)
        if not culprits:
            return None
        side = "a" if pair.difference.value > 0 else "b"  # the worse one gets the values of the better one
        arms = {"a": game.a, "b": game.b}
        arms[side] = game.fixed(arms[side], culprits)
        everyone = tuple(dict.fromkeys((game.a, game.b, *arms.values())))
        self._bench.sides("verification", self._recipe, everyone, self._fresh)
        before = self._noise("verification", game.a, game.b, self._fresh)
        after = self._noise("verification", arms["a"], arms["b"], self._fresh)
        return judged(culprits, side, before, after, self._images)

    def _noise(self, stage: str, a: Arm, b: Arm, seeds: Sequence[int]) -> SeedNoise:
        self._bench.accuracies(stage, self._recipe, (a, b), seeds)  # says which run has none
        sides = self._bench.sides(stage, self._recipe, (a, b), seeds)
        same = a.framework == b.framework
        names = (f"{a.framework} (A)", f"{b.framework} (B)") if same else (a.framework, b.framework)
        ours, theirs = ([sides[arm, seed] for seed in seeds] for arm in (a, b))
        return noise_of_sides(names[0], ours, names[1], theirs)


def cells_of(players: int, fraction: Fraction = "auto") -> tuple[int, ...]:
    """The cells that are trained: those of the design, and what shows each player switched alone."""
    return tuple(dict.fromkeys((*choose(players, fraction).cells, *_single_cells(players))))


def explained_by(
    players: tuple[str, ...],
    trained: Callable[[Sequence[int]], Values],
    fraction: Fraction,
    level: float,
    images: int | None,
) -> Explained:
    """Share a gap out among players, whoever they are. `trained`: accuracies, seeds × cells; a cell is the set of
    players at b's value, as bits. `level`: what seeds alone show, below which no interaction is told."""
    design, cells = choose(len(players), fraction), cells_of(len(players), fraction)
    table = trained(cells)
    inside = table[:, : len(design.cells)]
    parts, unassigned = shares(design, players, inside, images)
    together = interactions(design, players, inside, images)
    columns = {cell: table[:, place] for place, cell in enumerate(cells)}
    return Explained(
        design,
        tuple(sorted(parts, key=lambda part: -part.share.value)),
        unassigned,
        tuple(_switches(players, columns, images)),
        tuple(
            interaction
            for interaction in together
            if interaction.points.excludes_zero and abs(interaction.points.value) > level
        ),
        len(together),
        {_members(players, cell): tuple(values.tolist()) for cell, values in columns.items()},
    )


def culprits_of(parts: Sequence[ShapleyShare]) -> tuple[str, ...]:
    """The semantics with the largest shares, until they explain enough of the gap together or none is worth naming."""
    names: list[str] = []
    explained = 0.0
    for part in sorted(parts, key=lambda part: -part.share.value):
        if part.name != FRAMEWORK and part.share.value >= _LEAST and explained < _ENOUGH:
            names.append(part.name)
            explained += part.share.value
    return tuple(names)


def judged(
    culprits: tuple[str, ...], side: str, before: SeedNoise, after: SeedNoise, images: int | None = None
) -> Verification:
    """A gap is closed if these seeds show it, it became smaller, and its size now may be what seeds alone show.
    `images`: how many test images each accuracy counts, None where nobody knows it."""
    sign = 1 if before.difference.value > 0 else -1
    gained = mean_estimate(sign * (_differences(before) - _differences(after)), 4 * count_rounding(images))
    left = after.difference.interval
    least = 0.0 if left is None or left.contains(0.0) else min(abs(left.low), abs(left.high))
    verification = Verification(culprits, side, before, after, gained, closed=False)
    return replace(verification, closed=verification.shown and verification.narrowed and least <= (after.level or 0.0))


def stood_in(shipped: SeedNoise, double: SeedNoise, assumed: tuple[str, ...], images: int | None = None) -> StandIn:
    """A gap is reproduced by one that is beyond noise, has its sign, and may be as large. `images`: as in `judged`."""
    off = mean_estimate(_differences(double) - _differences(shipped), 4 * count_rounding(images))
    near = abs(off.value) <= _FAITHFUL * abs(shipped.difference.value) or not off.excludes_zero
    same_way = bool(double.beyond_noise) and double.difference.value * shipped.difference.value > 0
    return StandIn(shipped, double, off, same_way, same_way and near, assumed)


def _added(resolved: Sequence[Semantics], decided: Sequence[Semantics]) -> tuple[str, ...]:
    """What stand-ins decide and the networks that they stand in for have no name for."""
    pairs = list(zip(resolved, decided, strict=True))
    return tuple(
        name
        for name in Semantics.model_fields
        if any(getattr(ours, name) is None and getattr(other, name) is not None for ours, other in pairs)
    )


def _differences(seed_noise: SeedNoise) -> Values:
    return np.subtract(seed_noise.accuracies_b, seed_noise.accuracies_a)


def _resolved(sides: Sequence[TrainedSide]) -> Semantics:
    """What most likely holds for all seeds: first values are measured, which may fail for one of them."""
    return reduce(lambda first, other: first.over(other), (Semantics(**side.semantics) for side in sides))


def _single_cells(players: int) -> list[int]:
    everyone, bits = (1 << players) - 1, [1 << place for place in range(players)]
    return [0, everyone, *bits, *(everyone ^ bit for bit in bits)]


def _switches(players: tuple[str, ...], columns: dict[int, Values], images: int | None) -> list[Switch]:
    switches, rounding, everyone = [], 2 * count_rounding(images), (1 << len(players)) - 1
    for place, name in enumerate(players):
        bit = 1 << place
        in_a: Estimate = mean_estimate(columns[bit] - columns[0], rounding)
        in_b: Estimate = mean_estimate(columns[everyone ^ bit] - columns[everyone], rounding)
        switches.append(Switch(name, in_a, in_b))
    return switches


def _members(players: tuple[str, ...], cell: int) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(players) if cell >> place & 1)
