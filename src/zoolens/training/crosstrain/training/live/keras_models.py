"""A trained side as a live Keras model, on the backend that trained it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.keras_backend import import_keras
from zoolens.training.crosstrain.training.trainers.keras_building import HABITS, Built, build_model, shipped_model
from zoolens.training.crosstrain.training.trainers.keras_layout import load, tensors
from zoolens.training.crosstrain.training.trainers.trainer import Weights

_POLICIES: Final = {"bfloat16": "mixed_bfloat16", "float64": "float64"}


def keras_model(side: SideRecipe, weights: Weights) -> Any:
    """Channels last. Keras chooses its backend when it is imported: it must be the side's, or not be chosen yet."""
    keras = import_keras(side.framework, "A live Keras model")
    with _settings(keras, side.recipe.precision):
        built = _built(side)
    missing = sorted({tensor.name for tensor in tensors(built)} - weights.keys())
    if missing:
        raise ModelError(f"The weights have no {missing[0]!r}, which the network has.", hint="Are they another's?")
    load(built, weights)
    return built.model


def _built(side: SideRecipe) -> Built:
    architecture = side.recipe.architecture
    if side.recipe.shipped:
        return shipped_model(architecture, side.shape, side.classes)
    return build_model(build(architecture, side.semantics.over(HABITS), side.shape, side.classes), blank=True)


@contextmanager
def _settings(keras: Any, precision: str) -> Iterator[None]:
    kept = keras.config.dtype_policy(), keras.config.image_data_format()
    keras.config.set_dtype_policy(_POLICIES.get(precision, "float32"))
    keras.config.set_image_data_format("channels_last")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(kept[0])
        keras.config.set_image_data_format(kept[1])
