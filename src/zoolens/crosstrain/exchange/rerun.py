"""Trained weights of a folder, run on the test images: do they give the answers that are stored beside them?

Weights are numbers in a network of ours, so running them is safe. They are run by torch, whoever trained them, with the
semantics that the live objects had. Images are opened only where their name is one of ours: a stranger's recipe may
name any file of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.exchange.consistency import BUILT_IN
from zoolens.crosstrain.exchange.contents import DatasetEntry, SideFacts
from zoolens.crosstrain.exchange.labels import SAFE_NAMES
from zoolens.crosstrain.training.data import load, prepared
from zoolens.crosstrain.training.loading import Told
from zoolens.crosstrain.training.semantics import Semantics
from zoolens.errors import MissingDependency, ZoolensError

TOLERATED: Final = 0.01  # share of the answers that rounding of another machine may change
_BATCH: Final = 250


def answers_problem(facts: SideFacts, dataset: DatasetEntry, weights: Mapping[str, NDArray[Any]]) -> str | None:
    """None: they give the stored answers. A `CannotRun` says why that cannot be known here."""
    recipe = facts.recipe
    if recipe is None or facts.answers is None or facts.side.framework not in BUILT_IN:
        raise CannotRun
    if recipe.dataset not in SAFE_NAMES or (recipe.shipped and facts.side.framework != "torch"):
        raise CannotRun
    try:
        data = prepared(recipe)
    except ZoolensError:
        raise CannotRun from None
    if data.record.fingerprint != dataset.fingerprint:
        raise CannotRun
    read = Semantics.model_validate(dict(facts.side.semantics))
    told = Told("torch", recipe, facts.told.over(read), data.record)
    try:
        given = _answers(told, weights, np.asarray(load(data.folder).test_x))
    except MissingDependency:
        raise CannotRun from None
    other = int((given != facts.answers).sum())
    if other > max(1, TOLERATED * len(given)):
        return f"run on the test images, they give another answer for {other} of {len(given)}"
    return None


class CannotRun(Exception):
    """The images, or torch, are not here, or the network is one that a library ships."""


def _answers(told: Told, weights: Mapping[str, NDArray[Any]], images: NDArray[np.uint8]) -> NDArray[np.int64]:
    from zoolens.crosstrain.training.live.torch_models import torch_model

    model = torch_model(told, weights)
    import torch

    dtype = torch.float64 if told.recipe.precision == "float64" else torch.float32
    found = []
    with torch.inference_mode():
        for start in range(0, len(images), _BATCH):
            batch = images[start : start + _BATCH].transpose(0, 3, 1, 2).copy()
            found.append(model(torch.from_numpy(batch).to(dtype) / 255).argmax(1).numpy())
    return np.concatenate(found)
