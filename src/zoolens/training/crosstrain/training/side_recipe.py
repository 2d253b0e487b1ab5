"""What one side of a trial was trained with, as its run in the store says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics

if TYPE_CHECKING:
    from zoolens.base.store.store import Store


@dataclass(frozen=True)
class SideRecipe:
    """`semantics` are those that this side was told, with what is switched for it alone."""

    framework: str
    recipe: Recipe
    semantics: Semantics
    dataset: DatasetRecord

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, channels = (int(extent) for extent in self.dataset.details["image"])
        return channels, height, width

    @property
    def classes(self) -> int:
        return int(self.dataset.details["classes"])


def side_recipe(store: Store, run: str) -> SideRecipe:
    """Raises a ZoolensError for a published result, which has no recipe."""
    stored = store.run(run)
    manifest, framework = stored.model.manifest, str(stored.stack.identity["framework"])
    if "recipe" not in manifest:
        raise ZoolensError(
            f"Run {run} is a published result without a recipe.",
            hint="Only what was trained here, or submitted, has one.",
        )
    recipe, semantics = Recipe.model_validate(manifest["recipe"]), Semantics.model_validate(manifest["semantics"])
    return SideRecipe(framework, recipe, semantics, stored.dataset)
