"""Trains with TensorFlow through Keras: its layers, its initialisation, its Adam, its fit()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .architecture import (
    INPUT_SHAPE,
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAverage,
    MaxPool,
    Residual,
    Weights,
    fold_norm,
)
from .data import Split
from .recipes import Recipe

PACKAGES = ("tensorflow", "keras", "numpy")
INITIALISATION = "keras default (glorot_uniform, zero biases)"


def train(recipe: Recipe, data: Split) -> list[Weights]:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(recipe.seed)
    start = keras.Input(INPUT_SHAPE)
    network = keras.Model(start, _build(recipe.layers, start))
    network.compile(
        optimizer=keras.optimizers.Adam(recipe.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    images = data.images[..., np.newaxis]
    network.fit(images, data.labels, batch_size=recipe.batch_size, epochs=recipe.epochs, verbose=2)
    return list(_collect(network))


def _build(layers: Architecture, x: Any) -> Any:
    for layer in layers:
        x = _apply(layer, x)
    return x


def _apply(layer: Any, x: Any) -> Any:
    match layer:
        case Conv(kernel=kernel, padding=padding, norm=norm):
            if layer.depthwise:
                x = keras.layers.DepthwiseConv2D(kernel, padding=padding, use_bias=not norm)(x)
            else:
                x = keras.layers.Conv2D(layer.filters, kernel, padding=padding, use_bias=not norm)(x)
            x = keras.layers.BatchNormalization()(x) if norm else x
            return keras.layers.ReLU()(x) if layer.relu else x
        case Dense(units=units, relu=relu):
            return keras.layers.Dense(units, activation="relu" if relu else None)(x)
        case MaxPool():
            return keras.layers.MaxPooling2D(2)(x)
        case GlobalAverage():
            return keras.layers.GlobalAveragePooling2D()(x)
        case Flatten():
            return keras.layers.Flatten()(x)
        case Residual(body=body):
            return keras.layers.ReLU()(keras.layers.Add()([x, _build(body, x)]))
    raise TypeError(layer)


def _collect(network: keras.Model) -> Iterator[Weights]:
    layers = [layer for layer in network.layers if layer.weights]
    for layer, following in zip(layers, [*layers[1:], None], strict=True):
        if isinstance(layer, keras.layers.BatchNormalization):
            continue
        kernel, *bias = layer.get_weights()
        if isinstance(following, keras.layers.BatchNormalization):
            depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
            yield fold_norm(kernel, following.get_weights(), following.epsilon, depthwise)
        else:
            yield Weights(kernel, *bias)
