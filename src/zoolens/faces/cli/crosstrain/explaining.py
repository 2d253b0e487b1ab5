"""`zoolens crosstrain explain STUDY TRIAL`: which of the hidden defaults is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json
from zoolens.faces.cli.crosstrain.options import frameworks_option, manner, manner_options
from zoolens.faces.cli.crosstrain.studies import trial_of
from zoolens.faces.cli.options import json_option, on_option
from zoolens.faces.cli.stores import store_option

if TYPE_CHECKING:
    from zoolens.training.crosstrain.study.explanation.contest import Arm
    from zoolens.training.crosstrain.training.recipe import Recipe
    from zoolens.training.crosstrain.training.trials import Trial


@click.command()
@click.argument("study")
@click.argument("trial")
@frameworks_option
@click.option(
    "--replicates",
    type=click.IntRange(2),
    default=4,
    show_default=True,
    help="Number of seeds; as many fresh ones verify the result.",
)
@click.option(
    "--design",
    type=click.Choice(["auto", "full", "folded"]),
    default="auto",
    show_default=True,
    help="All combinations of the switches, or a folded-over fraction of them.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=None,
    help="Trainings at the same time; default: 1, on a cluster as many as fit.",
)
@on_option
@manner_options
@store_option("reads")
@json_option
def explain(study: str, trial: str, store: str | None, as_json: bool, **chosen: Any) -> None:
    """Switch every semantic that two sides of a TRIAL have differently, one way and the other; share the gap out among
    them; then train again with the culprit fixed.

    Without --with, the two sides with the largest difference. All seeds are new ones: those of the trial and its
    replicates may be why it was chosen, and would overstate the gap. It may be interrupted: the same command goes on.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import open_store
    from zoolens.training.crosstrain.study.explanation.explain import explain as find_out
    from zoolens.training.crosstrain.study.explanation.stored_explanations import file_explanation
    from zoolens.training.crosstrain.study.explanation.study_explanation_words import as_data, lines
    from zoolens.training.crosstrain.study.store_training import replicates
    from zoolens.training.crosstrain.study.stored_studies import read_study
    from zoolens.training.crosstrain.training.trainer_pool import Workers

    how = manner(chosen)
    with open_store(store) as opened:
        asked = trial_of(read_study(opened, study), trial)
        recipe, (a, b) = _recipe(asked), _arms(asked, chosen["frameworks"])
        with Workers() as workers, Bars(lines=True) as bars:
            explanation = find_out(
                recipe,
                a,
                b,
                store=opened,
                workers=workers,
                replicates=chosen["replicates"],
                fraction=chosen["design"],
                manner=how,
                at_once=chosen["workers"],
                seeds_seen=1 + len(replicates(opened, study).get(trial, ())),
                progress=bars,
            )
        file_explanation(opened, explanation, study, trial)
    if as_json:
        echo_json(as_data(explanation))
        return
    for line in lines(explanation):
        click.echo(line)


class _Unusable(ZoolensError):
    """The details of a trial that somebody submitted may hold anything."""

    def __init__(self, trial: Trial, what: str) -> None:
        super().__init__(
            f"What trial {trial.id} tells as the {what} is none, and it cannot be trained here.",
            hint="Write a recipe with its hyperparameters, train that, and explain it.",
        )


def _recipe(trial: Trial) -> Recipe:
    from pydantic import ValidationError

    from zoolens.training.crosstrain.training.recipe import Recipe

    stated = trial.details.get("recipe")
    if stated is None:
        raise ZoolensError(
            f"Trial {trial.id} was published without its recipe, and cannot be trained here.",
            hint="Write a recipe with its hyperparameters, train that, and explain it.",
        )
    try:
        return Recipe.model_validate(stated)
    except ValidationError as error:
        raise _Unusable(trial, "recipe") from error


def _arms(trial: Trial, frameworks: tuple[str, ...]) -> tuple[Arm, Arm]:
    from pydantic import ValidationError

    from zoolens.training.crosstrain.study.explanation.contest import Arm
    from zoolens.training.pairs.semantics import Semantics

    if frameworks and not len(frameworks) == len(set(frameworks)) == 2:
        raise click.UsageError("An explanation is about two sides: give --with twice, for one each, or not at all.")
    chosen = [trial.side(name).framework for name in frameworks] or _furthest(trial)
    stated = trial.details.get("overrides") or {}
    try:
        a, b = (Arm(name, Semantics.model_validate(stated.get(name, {}))) for name in chosen)
    except (ValidationError, AttributeError) as error:
        raise _Unusable(trial, "semantics of its sides") from error
    return a, b


def _furthest(trial: Trial) -> list[str]:
    known = [
        (abs(a.accuracy - b.accuracy), [a.framework, b.framework])
        for a, b in trial.pairs
        if a.accuracy is not None and b.accuracy is not None
    ]
    if not known:
        raise ZoolensError(f"Trial {trial.id} has no two sides with an accuracy.", hint="See `crosstrain show`.")
    return max(known, key=lambda gap: gap[0])[1]
