"""`zoolens crosstrain train RECIPE.yaml`: one trial, every side of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.base.verdicts import NotKnown, Outcome
from zoolens.faces.cli.crosstrain.options import frameworks_option, manner, manner_options, yaml_file
from zoolens.faces.cli.crosstrain.trialtext import print_trial, settings_line, trial_data
from zoolens.faces.cli.options import json_option, wide_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import Store
    from zoolens.training.crosstrain.training.job import Epoch
    from zoolens.training.crosstrain.training.lockstep.comparison import Lockstep
    from zoolens.training.crosstrain.training.manner import Manner
    from zoolens.training.crosstrain.training.recipe import Recipe
    from zoolens.training.crosstrain.training.trainer_pool import Workers
    from zoolens.training.crosstrain.training.trials import Hyperparameter, Trial


def _steps(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        steps = tuple(int(part) for part in (value or "").split(",") if part.strip())
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of steps such as 1,2,10") from error
    if steps and min(steps) < 1:
        raise click.BadParameter("steps are counted from 1")
    return steps


@click.command()
@click.argument("recipe", type=yaml_file, metavar="RECIPE.yaml")
@frameworks_option
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Use this value instead of the recipe's.")
@click.option(
    "--replicates",
    type=click.IntRange(0),
    default=0,
    help="Number of further seeds, which show how large seed noise is.",
)
@click.option("--lockstep", "steps", callback=_steps, help="First compare these steps layer by layer: 1,2,10.")
@click.option("--study", default=None, help="Study that keeps the trial; default: the name of the recipe's file.")
@manner_options
@store_option("makes")
@json_option
@wide_option
def train(recipe: Path, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Train RECIPE.yaml once with each framework, and compare: accuracy, curves, classes, answers.

    What the store has is not trained again. With --replicates, noise is distinguished from difference.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.faces.cli.crosstrain.pairtext import noises_of, pairs_data, print_pairs
    from zoolens.training.crosstrain.study.side_comparison import paired_sides
    from zoolens.training.crosstrain.training.lockstep.recipe_lockstep_words import as_data
    from zoolens.training.crosstrain.training.trainer_pool import Workers

    asked = _asked(recipe, chosen)
    with open_store(store) as opened, Workers() as workers:
        compared = asked.lockstep(workers, chosen["steps"]) if chosen["steps"] else []
        if not as_json:
            _print_locksteps(compared)
        with Bars() as bars:
            trials = asked.trained(opened, workers, bars)
        pairs = paired_sides(opened, trials[0])
    noises = noises_of(trials, pairs)
    if as_json:
        steps = [as_data(step) for step in compared]
        echo_json({"study": asked.study, **trial_data(trials[0]), **pairs_data(pairs, noises), "lockstep": steps})
    else:
        click.echo(f"Trial {trials[0].id} of {asked.study}: {settings_line(trials[0].hyperparameters)}")
        print_trial(trials[0])
        print_pairs(pairs, noises, trials)
    _complain(trials)


def _complain(trials: Sequence[Trial]) -> None:
    """Raise an error about sides that failed, and about losses that did not stay finite: where another side of the
    trial was trained to its end, the sides differ; where none was, nothing is known. Too little memory is a result."""
    sides = [(trial, side) for trial in trials for side in trial.sides]
    failed = [f"{side.framework} of trial {trial.id}" for trial, side in sides if side.status == "failed"]
    if failed:
        raise ZoolensError(
            f"Not trained: {', '.join(failed)}.", hint="What was finished is kept: the same command tries these again."
        )
    for trial in trials:
        lost = [side.framework for side in trial.sides if side.status == "non-finite"]
        if lost and any(side.status == "finished" for side in trial.sides):
            error = ZoolensError(f"The loss of {', '.join(lost)} alone did not stay finite (trial {trial.id}).")
            error.exit_code = Outcome.DIFFERENT.exit_code
            raise error
    statuses = {side.status for _, side in sides}
    if "non-finite" in statuses and "finished" not in statuses:
        raise NotKnown("No loss stayed finite, so that nothing is known of the sides.", hint="Lower the learning rate.")


@dataclass(frozen=True)
class _Asked:
    study: str
    recipe: Recipe
    hyperparameters: dict[str, Hyperparameter]
    frameworks: tuple[str, ...]
    replicates: int
    manner: Manner

    def lockstep(self, workers: Workers, steps: tuple[int, ...]) -> list[Lockstep]:
        """The first framework with each of the others."""
        from zoolens.training.crosstrain.training.lockstep.comparison import lockstep

        first, *others = self.frameworks
        return [
            lockstep(self.recipe, first, other, workers=workers, steps=steps, manner=self.manner) for other in others
        ]

    def trained(self, store: Store, workers: Workers, bars: Bars) -> tuple[Trial, ...]:
        """The trial and its replicates."""
        from zoolens.training.crosstrain.study.store_training import REPLICATES, begin_study, train_with_replicates
        from zoolens.training.crosstrain.training.trial_runner import TrialRequest

        def report(framework: str, epoch: Epoch) -> None:
            if epoch.number == 1:
                bars.begin(framework, "epochs", self.recipe.epochs)
            bars.advance(1)

        begin_study(store, self.study, self.frameworks, {"source": "zoolens crosstrain train"})
        if self.replicates:
            begin_study(store, f"{self.study}{REPLICATES}", self.frameworks, {"source": f"replicates of {self.study}"})
        name = self.recipe.fingerprint[:8]  # the same recipe is the same trial
        request = TrialRequest(self.recipe, self.frameworks, name, self.hyperparameters)
        return train_with_replicates(
            store, self.study, request, workers, count=self.replicates, manner=self.manner, report=report
        )


def _asked(path: Path, chosen: dict[str, Any]) -> _Asked:
    """Whatever can be found wrong before anything is trained is found here."""
    from zoolens.training.crosstrain.study.yaml_files import check_frameworks, check_recipe, load_recipe, read_settings
    from zoolens.training.crosstrain.training.trainers.registry import default_frameworks
    from zoolens.training.crosstrain.training.trial_runner import apply

    how, frameworks = manner(chosen), chosen["frameworks"] or default_frameworks()
    check_frameworks(frameworks)
    changed = read_settings(chosen["settings"])
    recipe = apply(load_recipe(path), changed)
    check_recipe(recipe)
    usual = {"learning_rate": recipe.learning_rate, "batch_size": recipe.batch_size, "epochs": recipe.epochs}
    study = chosen["study"] or re.sub(r"[^\w.-]+", "-", path.stem)
    return _Asked(study, recipe, {**usual, **changed}, frameworks, chosen["replicates"], how)


def _print_locksteps(compared: list[Lockstep]) -> None:
    from zoolens.base.present.tables import Column
    from zoolens.base.present.terminal import print_table
    from zoolens.training.crosstrain.training.lockstep.recipe_lockstep_words import lines, table

    for lockstep in compared:
        for line in lines(lockstep):
            click.echo(line)
        headings, rows = table(lockstep)
        print_table([Column(name, keep=len(headings) - place) for place, name in enumerate(headings)], rows)
        click.echo()
