"""Trained weights of a folder, run on the test images: do they give the answers that are stored beside them?

Weights are numbers in a network of ours, so running them is safe. They are run by the reference trainer, whoever
trained them, with the semantics that the live objects had. Images are opened only where their name is one of ours: a
stranger's recipe may name any file of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.training.crosstrain.exchange.contents import DatasetEntry, ExportedSide
from zoolens.training.crosstrain.exchange.labels import SAFE_NAMES
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.registry import builds_common_networks, reference_trainer
from zoolens.training.pairs.data.prepared_data import load, prepared
from zoolens.training.pairs.semantics import Semantics

TOLERATED: Final = 0.01  # share of the answers that rounding of another machine may change


def answers_problem(facts: ExportedSide, dataset: DatasetEntry, weights: Mapping[str, NDArray[Any]]) -> str | None:
    """Says what is wrong with the weights; None: they give the stored answers. A `CannotRun` says why that cannot be
    known here."""
    recipe = facts.recipe
    if recipe is None or facts.answers is None or not builds_common_networks(facts.side.framework):
        raise CannotRun
    reference = reference_trainer()
    if recipe.dataset not in SAFE_NAMES or (recipe.shipped and facts.side.framework != reference.name):
        raise CannotRun
    try:
        data = prepared(recipe)
    except ZoolensError:
        raise CannotRun from None
    if data.record.fingerprint != dataset.fingerprint:
        raise CannotRun
    read = Semantics.model_validate(dict(facts.side.semantics))
    side = SideRecipe(reference.name, recipe, facts.told.over(read), data.record)
    try:
        given = reference().answers(side, weights, np.asarray(load(data.folder).test_x))
    except MissingDependency:
        raise CannotRun from None
    other = int((given != facts.answers).sum())
    if other > max(1, TOLERATED * len(given)):
        return f"run on the test images, they give another answer for {other} of {len(given)}"
    return None


class CannotRun(Exception):
    """The images or the framework of the reference are not here, or the network is one that a library ships."""
