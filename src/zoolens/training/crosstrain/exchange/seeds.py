"""Trials and their replicates are two studies that find each other by name alone. A stranger's must not meet ours by
accident: noise would then be reckoned from trainings of something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.exchange.contents import Contents, TrialFacts
from zoolens.training.crosstrain.study.store_training import REPLICATES, replicates
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.side_recipe import side_recipe
from zoolens.training.crosstrain.training.trials import Trial


def replicates_of(store: Store, study: str) -> str | None:
    """The name of the study of its trials under other seeds, if there is one."""
    name = f"{study}{REPLICATES}"
    return name if name in study_names(store) else None


def seed_conflicts(store: Store, contents: Contents, name: str) -> Iterator[str]:
    """Trials of the folder that would count as seeds of another training in the store, or the other way round."""
    for given, ours in _meeting(store, contents, name):
        if _trained(contents, given) != _trained_here(store, ours):
            yield (
                f"Trial {given.trial.id!r} would be read as another seed of trial {ours.id!r} in the store, and is "
                "another training."
            )


def _meeting(store: Store, contents: Contents, name: str) -> Iterator[tuple[TrialFacts, Trial]]:
    """A trial of the folder, and one of the store that it would be read together with."""
    if name.endswith(REPLICATES):
        base = name.removesuffix(REPLICATES)
        known = {trial.id: trial for trial in read_study(store, base).trials} if base in study_names(store) else {}
        for given in contents.trials:
            if (ours := known.get(given.trial.id.rpartition(".")[0])) is not None:
                yield given, ours
        return
    others = replicates(store, name)
    for given in contents.trials:
        yield from ((given, ours) for ours in others.get(given.trial.id, ()))


def _trained(contents: Contents, facts: TrialFacts) -> Any:
    recipe = facts.sides[0].recipe
    return _identity(facts.trial, recipe, contents.study.datasets[facts.dataset].record)


def _trained_here(store: Store, trial: Trial) -> Any:
    run = str(trial.sides[0].run)
    try:
        recipe = side_recipe(store, run).recipe
    except ZoolensError:  # a claim
        recipe = None
    return _identity(trial, recipe, store.run(run).dataset)


def _identity(trial: Trial, recipe: Recipe | None, dataset: DatasetRecord) -> Any:
    """What all seeds of a trial have in common."""
    recipe_data = None if recipe is None else recipe.model_dump(mode="json", exclude={"seed", "dataset"})
    return [side.framework for side in trial.sides], recipe_data, dataset.fingerprint
