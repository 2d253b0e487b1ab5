"""A study before it is run, as a user writes it in YAML: a base recipe, what varies, who trains, how long."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from zoolens.training.crosstrain.training.recipe import Recipe, RecipePart
from zoolens.training.crosstrain.training.trainers.registry import default_frameworks


class Dimension(RecipePart):
    """One hyperparameter: a range, or a list of choices. `name` is a field of the recipe, with dots into its parts
    ("learning_rate", "optimizer.epsilon", "epochs")."""

    name: str = Field(min_length=1, max_length=80)
    low: float | None = None
    high: float | None = None
    integer: bool = False
    log: bool = False
    choices: tuple[str | float | int, ...] = ()

    @model_validator(mode="after")
    def _range_or_choices(self) -> Self:
        ranged = self.low is not None and self.high is not None
        if ranged == bool(self.choices):
            raise ValueError(f"{self.name}: give either low and high, or choices")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"{self.name}: low must be below high")
        if self.log and self.low is not None and self.low <= 0:
            raise ValueError(f"{self.name}: a logarithmic range must lie above 0")
        return self


class Search(RecipePart):
    """How a space of hyperparameters is searched."""

    # The dimensions that HyperSpace halves (2^D overlapping subspaces); None: all ranges, () : none.
    split: tuple[str, ...] | None = ()
    overlap: float = Field(default=0.25, ge=0, lt=1)  # φ
    initial: int = Field(default=5, ge=1)  # designed points in each subspace before the sampler takes over
    design: Literal["halton", "published"] = "halton"
    sampler: Literal["gp", "design"] = "gp"
    trials: int = Field(default=20, ge=1, description="in all subspaces together")
    seed: int = 0


class Plan(RecipePart):
    """`replicates`: seeds per setting and side, beyond the first, to tell noise from difference."""

    name: str = Field(min_length=1, max_length=120, pattern=r"^[\w.-]+$")
    frameworks: tuple[str, ...] = Field(default_factory=default_frameworks, min_length=2)
    recipe: Recipe
    space: tuple[Dimension, ...] = Field(min_length=1)
    search: Search = Field(default_factory=Search)
    replicates: int = Field(default=0, ge=0)
