"""Which kind of weight decay a live optimizer applies in a training by a recipe."""

from __future__ import annotations

from math import isclose
from typing import Literal

from zoolens.training.crosstrain.training.recipe import Recipe


def decay_kind(size: float, decoupled: bool, recipe: Recipe) -> Literal["coupled", "decoupled", "independent"] | None:
    """What a weight decay of this size does in a training by the recipe: one that was divided by the learning rate
    takes the same share of a value whatever the rate. At a rate of 1 the two are one, and the recipe's word counts."""
    if not size or not decoupled:
        return "coupled" if size else None
    asked = recipe.optimizer.weight_decay
    plain, divided = (isclose(decay, asked, rel_tol=1e-6) for decay in (size, size * recipe.learning_rate))
    independent = divided and (not plain or recipe.wanted.weight_decay == "independent")
    return "independent" if independent else "decoupled"
