"""Lockstep of a recipe: two sides beside a reference in float64, and the first place where each parts from it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from zoolens.base.errors import ModelError
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.training.crosstrain.training.job import Status
from zoolens.training.crosstrain.training.lockstep.course import Course, LockstepRun, course
from zoolens.training.crosstrain.training.lockstep.reference_search import ReferenceSearch
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainers.registry import trainer_named, trainers
from zoolens.training.pairs.lockstep.cause_search import DepartureCause, causes_in_order, next_cause
from zoolens.training.pairs.lockstep.lockstep_result import LockstepResult
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity, ToldQuantities
from zoolens.training.pairs.semantics import Semantics

_EARLIER: Final = "Compare earlier steps, before rounding errors have grown."
SideName = Literal["a", "b"]
_SIDES: Final[tuple[SideName, SideName]] = ("a", "b")
_MOST_CAUSES: Final = len(Semantics.model_fields) + 2  # each takes over a semantic, but for two


@dataclass(frozen=True)
class LockstepSide:
    """One side of a comparison and how its run ended."""

    label: str  # the framework, with "(a)" or "(b)" where both sides have the same
    framework: str
    versions: Mapping[str, str]
    semantics: Semantics  # resolved
    status: Status
    message: str


@dataclass(frozen=True, kw_only=True)
class Lockstep(LockstepResult):
    """What a comparison of the first steps of a recipe's two sides found.

    Causes are listed side by side, each where a side first parts from a reference that has taken over all causes of
    that side before it.
    """

    recipe: Recipe
    sides: tuple[LockstepSide, LockstepSide]
    reference: Semantics
    compared: tuple[int, ...]  # the steps that both sides and the reference reached
    first: DepartureCause | None  # about the side that is farther there


def lockstep(
    recipe: Recipe,
    a: str,
    b: str,
    *,
    workers: Workers,
    steps: Sequence[int] = (1, 2, 10),
    overrides: Mapping[SideName, Semantics] | None = None,
    manner: Manner | None = None,
) -> Lockstep:
    """Train both sides for a few steps and compare them with a reference in float64 on the CPU, which does what the
    recipe says and, where it is silent, what `a` does. First weights and batches are the same for all, whatever the
    recipe says of those. `overrides`: semantics switched for side "a" or "b" alone. Of `manner`, the
    device and the threads count."""
    switched, how = overrides or {}, manner or Manner()
    wanted = [switched.get(side, Semantics()).over(recipe.wanted) for side in _SIDES]
    _check(recipe, (a, b), wanted)
    with tempfile.TemporaryDirectory(prefix="zoolens-lockstep-") as folder:
        runner = course(recipe, tuple(steps), Path(folder), workers, how.threads)
        if any(layer.kind == "dropout" for layer in runner.network(recipe.wanted).layers):
            raise ModelError(
                "With dropout every side draws other random numbers, so that nothing can be compared.",
                hint="Set dropout to 0 in the recipe's semantics.",
            )
        runs = tuple(
            runner.run(name, framework, semantics, device=how.device)
            for name, framework, semantics in zip(_SIDES, (a, b), wanted, strict=True)
        )
        return _compared(runner, recipe, (a, b), (runs[0], runs[1]))


def _compared(
    runner: Course, recipe: Recipe, frameworks: tuple[str, str], runs: tuple[LockstepRun, LockstepRun]
) -> Lockstep:
    semantics = recipe.wanted.over(runs[0].semantics).model_copy(update={"dropout": 0.0})
    reference = runner.run_reference(semantics)
    labels = frameworks if frameworks[0] != frameworks[1] else (f"{frameworks[0]} (a)", f"{frameworks[1]} (b)")
    both = ReferenceSearch(runner, reference, runs, labels)
    first = next_cause(both)
    causes: list[DepartureCause] = []
    for side in (0, 1):
        search = ReferenceSearch(runner, reference, runs, labels, watched=(side,), floors=both.floors)
        causes += causes_in_order(search, _MOST_CAUSES)
    compared = tuple(dict.fromkeys(row.step for row in both.rows))
    return Lockstep(
        recipe=runner.recipe,
        sides=(_side(labels[0], runs[0]), _side(labels[1], runs[1])),
        reference=reference.semantics,
        steps=runner.steps,
        compared=compared,
        rows=both.rows,
        first=first,
        causes=tuple(causes),
        coverage=coverage(both.rows, runner.steps, compared),
    )


def coverage(rows: Sequence[ComparedQuantity], steps: Sequence[int], compared: Sequence[int]) -> Coverage:
    """Whole only where every step was reached and every tensor could be told from rounding."""
    told = ToldQuantities(rows)
    tensors, lost = told.tensors(("tensor",)), told.lost(("tensor",))
    gaps = [Gap(f"tensor {name}, which rounding alone moves by its size", remedy=_EARLIER) for name in lost]
    gaps += [Gap(f"step {step}, which was not reached") for step in steps if step not in compared]
    tallies = (Tally("steps", len(compared), len(steps)), Tally("tensors", len(tensors) - len(lost), len(tensors)))
    return Coverage(tallies, tuple(gaps))


def _side(label: str, run: LockstepRun) -> LockstepSide:
    outcome = run.outcome
    return LockstepSide(
        label, outcome.framework, dict(outcome.versions), run.semantics, outcome.status, outcome.message
    )


def _check(recipe: Recipe, frameworks: Sequence[str], side_semantics: Sequence[Semantics]) -> None:
    for name in frameworks:
        if not trainer_named(name).captures:
            able = ", ".join(trainer.name for trainer in trainers() if trainer.captures)
            raise ModelError(
                f"The trainer {name} does not write what its steps compute, so that it cannot be compared in lockstep.",
                hint=f"These trainers do: {able}.",
            )
    if any(
        (side_semantic.init, side_semantic.bias_init) != (recipe.wanted.init, recipe.wanted.bias_init)
        for side_semantic in side_semantics
    ):
        raise ModelError(
            "In lockstep both sides start from the same weights, so that their init cannot be switched.",
            hint="Set init and bias_init in the recipe's semantics, for all.",
        )
