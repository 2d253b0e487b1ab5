"""The comparison as a whole: two sides, the reference, the floors, and the first place where a side parts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from zoolens.base.errors import ModelError
from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.training.crosstrain.training.job import Status
from zoolens.training.crosstrain.training.lockstep.course import Course, LockstepRun, course
from zoolens.training.crosstrain.training.lockstep.floors import Floors, floors
from zoolens.training.crosstrain.training.lockstep.quantities import QuantityRow, compare, order
from zoolens.training.crosstrain.training.lockstep.recipe_causes import LockstepCause, find_cause
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_pool import Workers
from zoolens.training.crosstrain.training.trainers.registry import trainer_named, trainers
from zoolens.training.pairs.lockstep.floors import MORE_RUNS, RUNS
from zoolens.training.pairs.lockstep.quantities import Key
from zoolens.training.pairs.semantics import Semantics

_EARLIER: Final = "Compare earlier steps, before rounding errors have grown."
SideName = Literal["a", "b"]
_SIDES: Final[tuple[SideName, SideName]] = ("a", "b")


@dataclass(frozen=True)
class LockstepSide:
    """`label`: the framework, with "(a)" or "(b)" where both sides have the same. `semantics`: resolved."""

    label: str
    framework: str
    versions: Mapping[str, str]
    semantics: Semantics
    status: Status
    message: str


@dataclass(frozen=True)
class Divergence:
    """`sides`: labels of those that are beyond the floor there, the farther one first; `cause` is about that one."""

    row: QuantityRow
    sides: tuple[str, ...]
    cause: LockstepCause


@dataclass(frozen=True)
class Lockstep:
    """`rows` in the order of computation. `compared`: the steps that both sides and the reference reached. `causes`:
    every independent one, side by side: where a side first parts from a reference that has taken over all causes
    before it. A side's last one is unexplained where what comes after it cannot be told apart."""

    recipe: Recipe
    sides: tuple[LockstepSide, LockstepSide]
    reference: Semantics
    steps: tuple[int, ...]
    compared: tuple[int, ...]
    rows: tuple[QuantityRow, ...]
    first: Divergence | None
    causes: tuple[Divergence, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """On the sides' first steps; the same only where every step was reached and every tensor could be told from
        rounding."""
        told: dict[tuple[str, str], bool] = {}
        for row in self.rows:
            seen = all(row.verdict(side) != "blind" for side in (0, 1))
            told[row.kind, row.name] = seen or told.get((row.kind, row.name), False)
        # The gradient of a bias before a norm is nothing but rounding: no optimizer tells anything from it.
        tensors = [name for kind, name in told if kind == "tensor" and told.get(("gradient", name), True)]
        lost = [name for name in tensors if not told["tensor", name]]
        gaps = [Gap(f"tensor {name}, which rounding alone moves by its size", remedy=_EARLIER) for name in lost]
        gaps += [Gap(f"step {step}, which was not reached") for step in self.steps if step not in self.compared]
        tallies = (
            Tally("steps", len(self.compared), len(self.steps)),
            Tally("tensors", len(tensors) - len(lost), len(tensors)),
        )
        return judged(Coverage(tallies, tuple(gaps)), different=self.first is not None)


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
    keys = order([run.network for run in (reference, *runs)])
    floor = floors(runner, reference, keys)
    rows = _rows(runner, keys, reference, runs, floor)
    first = _first(runner, keys, rows, reference, runs, labels)
    if first is not None and not first.cause.confirmed:
        floor = floors(runner, reference, keys, range(RUNS, MORE_RUNS), floor)
        rows = _rows(runner, keys, reference, runs, floor)
        first = _first(runner, keys, rows, reference, runs, labels)
    return Lockstep(
        runner.recipe,
        (_side(labels[0], runs[0]), _side(labels[1], runs[1])),
        reference.semantics,
        runner.steps,
        tuple(dict.fromkeys(row.step for row in rows)),
        rows,
        first,
        tuple(
            departure
            for side in (0, 1)
            for departure in _departures(runner, keys, (reference, floor), runs, labels, side)
        ),
    )


def _departures(
    runner: Course,
    keys: Sequence[Key],
    beside: tuple[LockstepRun, Floors],
    runs: tuple[LockstepRun, LockstepRun],
    labels: tuple[str, str],
    side: Literal[0, 1],
) -> Iterator[Divergence]:
    """What makes one side part, one cause after another: each is given to the reference, which is run again, so that
    the next one shows where it is the first."""
    reference, floor = beside
    counted = False  # a variance that divides by n is no semantic, and cannot be taken over
    for _ in range(len(Semantics.model_fields) + 2):
        divergence = _next(runner, keys, (reference, floor), runs, labels, side, counted)
        if divergence is None:
            return
        yield divergence
        if not divergence.cause.confirmed or "dropout" in divergence.cause.semantics:
            return
        if not divergence.cause.semantics:
            counted = True
            continue
        values = {name: getattr(runs[side].semantics, name) for name in divergence.cause.semantics}
        semantics = reference.semantics.model_copy(update=values)
        reference = runner.run_reference(semantics)
        floor = floors(runner, reference, keys)


def _next(
    runner: Course,
    keys: Sequence[Key],
    beside: tuple[LockstepRun, Floors],
    runs: tuple[LockstepRun, LockstepRun],
    labels: tuple[str, str],
    side: Literal[0, 1],
    counted: bool,
) -> Divergence | None:
    """The first row in which this side is beyond its floor; where no cause is proved, beyond a wider one too."""
    reference, floor = beside
    divergence = None
    for more in (False, True):
        if more:
            floor = floors(runner, reference, keys, range(RUNS, MORE_RUNS), floor)
        for row in _rows(runner, keys, reference, runs, floor):
            variance = row.kind == "statistic" and row.name.endswith(".variance")
            if row.verdict(side) == "beyond" and not (counted and variance):
                cause = find_cause(runner, reference, runs[side], labels[side], row, keys)
                divergence = Divergence(row, (labels[side],), cause)
                break
        else:
            return None
        if divergence is not None and divergence.cause.confirmed:
            return divergence
    return divergence


def _rows(
    runner: Course, keys: Sequence[Key], reference: LockstepRun, runs: tuple[LockstepRun, LockstepRun], floor: Floors
) -> tuple[QuantityRow, ...]:
    rows: list[QuantityRow] = []
    for step in runner.steps:
        exact, tensors_a, tensors_b = reference.at(step), runs[0].at(step), runs[1].at(step)
        if exact is not None and tensors_a is not None and tensors_b is not None:
            rows += compare(step, keys, exact, (tensors_a, tensors_b), floor[step])
    return tuple(rows)


def _first(
    runner: Course,
    keys: Sequence[Key],
    rows: Sequence[QuantityRow],
    reference: LockstepRun,
    runs: tuple[LockstepRun, LockstepRun],
    labels: tuple[str, str],
) -> Divergence | None:
    row = next((row for row in rows if row.beyond), None)
    if row is None:
        return None
    sides = sorted(row.beyond, key=lambda side: -row.sides[side].error)
    farther = sides[0]
    cause = find_cause(runner, reference, runs[farther], labels[farther], row, keys)
    return Divergence(row, tuple(labels[side] for side in sides), cause)


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
