"""Explain a gap: train the pair under several seeds, then every cell of the design, then the pair with the culprit
fixed. Runs are filed as they finish, so a killed explanation goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Values, count_rounding, mean_estimate
from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.explanation.bench import SEEDS, ExplanationBench
from zoolens.training.crosstrain.study.explanation.contest import Arm, Contest, contest
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation, StandIn
from zoolens.training.crosstrain.study.noise import images_of, noise_of_sides
from zoolens.training.crosstrain.study.stored_studies import file_study
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trial_runner import apply
from zoolens.training.crosstrain.training.trials import TrainedSide
from zoolens.training.pairs.explanation.design import Fraction
from zoolens.training.pairs.explanation.game import shared_out, verified
from zoolens.training.pairs.explanation.results import Explained, Switch, Verification
from zoolens.training.pairs.explanation.sharing_out import paired_differences
from zoolens.training.pairs.semantics import Semantics

REPLICATES: Final = 4
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
        self.images: int | None = None  # of the test, known once the pair is trained

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
            stand_in = stood_in(pair, switched, _added(resolved, decided), self.images)
            if not stand_in.same_way:
                return self._explanation(game, pair, stand_in=stand_in)
        explained = shared_out(self, game, self._seeds, self._fraction, switched.level or 0.0)
        explained = replace(explained, switches=(*explained.switches, *self._unnamed_switches(game)))
        verification = verified(self, game, explained.shares, switched, self._fresh)
        return self._explanation(game, pair, explained, verification, stand_in)

    def _met(self, stage: str, a: Arm, b: Arm) -> tuple[SeedNoise, Contest, tuple[Semantics, Semantics]]:
        """The two trained under all seeds, and what they do differently by their live objects."""
        sides = self._bench.sides(stage, self._recipe, (a, b), self._seeds)
        pair = self.noise(stage, a, b, self._seeds)
        self.images = images_of(sides.values())
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

    def _unnamed_switches(self, game: Contest) -> list[Switch]:
        switches = []
        for factor in game.unnamed:
            side, value = (game.a, factor.b) if factor.a is None else (game.b, factor.a)
            arms = side, side.switched({factor.name: value})
            plain, changed = self.accuracies("single switches", arms, self._seeds).T
            effect = mean_estimate(changed - plain, 2 * count_rounding(self.images))
            switches.append(Switch(factor.name, *((effect, None) if side is game.a else (None, effect))))
        return switches

    def accuracies(self, stage: str, arms: Sequence[Arm], seeds: Sequence[int]) -> Values:
        """Accuracies of the recipe that is being explained, seeds × arms."""
        return self._bench.accuracies(stage, self._recipe, arms, seeds)

    def finite_seeds(self, arms: Sequence[Arm], seeds: Sequence[int]) -> Sequence[int]:
        """All of them: a run without an accuracy is an error of `accuracies`."""
        return seeds

    def noise(self, stage: str, a: Arm, b: Arm, seeds: Sequence[int]) -> SeedNoise:
        """The difference of two arms beside seed noise."""
        self.accuracies(stage, (a, b), seeds)  # says which run has none
        sides = self._bench.sides(stage, self._recipe, (a, b), seeds)
        same = a.framework == b.framework
        names = (f"{a.framework} (A)", f"{b.framework} (B)") if same else (a.framework, b.framework)
        ours, theirs = ([sides[arm, seed] for seed in seeds] for arm in (a, b))
        return noise_of_sides(names[0], ours, names[1], theirs)


def stood_in(shipped: SeedNoise, double: SeedNoise, assumed: tuple[str, ...], images: int | None = None) -> StandIn:
    """A gap is reproduced by one that is beyond noise, has its sign, and may be as large. `images`: how many test
    images each accuracy counts; None where nobody knows it."""
    off = mean_estimate(paired_differences(double) - paired_differences(shipped), 4 * count_rounding(images))
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


def _resolved(sides: Sequence[TrainedSide]) -> Semantics:
    """What most likely holds for all seeds: first values are measured, which may fail for one of them."""
    return reduce(lambda first, other: first.over(other), (Semantics(**side.semantics) for side in sides))
