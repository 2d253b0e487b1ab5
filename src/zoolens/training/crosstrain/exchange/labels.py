"""The true classes of a dataset's test samples, from the data itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord
from zoolens.training.crosstrain.exchange.contents import Answers
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.data.prepared_data import load, prepared

SAFE_NAMES: Final = ("demo", "fashion-mnist", "cifar10-subset")  # of data that may be opened on a stranger's word


def labels_here(dataset: DatasetRecord, recipes: Iterable[Recipe]) -> Answers | None:
    """Reads the labels from the data itself, where one of the recipes leads to it."""
    wanted = {(recipe.dataset, recipe.train_limit, recipe.test_limit): recipe for recipe in recipes}
    for recipe in wanted.values():
        try:
            data = prepared(recipe)
        except ZoolensError:
            continue
        if data.record.fingerprint == dataset.fingerprint:
            return np.array(load(data.folder).test_y)
    return None
