"""What a Keras user writes in an afternoon, without zoolens: LeNet and ResNet-8 of Keras' own layers, and the loops of
Keras' guides on TensorFlow (tf.function) and JAX (jit)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.trainers.keras_building import Built
from zoolens.training.crosstrain.training.trainers.keras_layout import load

Batches = list[tuple[Any, Any]]


def lenet() -> keras.Model:
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(6, 5, padding="same", name="conv1"), layers.ReLU(), layers.MaxPooling2D(2),
        layers.Conv2D(16, 5, name="conv2"), layers.ReLU(), layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dense(120, name="dense3"), layers.ReLU(),
        layers.Dense(84, name="dense4"), layers.ReLU(),
        layers.Dense(10, name="logits"),
    ])  # fmt: skip


def conv_norm(x: Any, name: str, filters: int, kernel: int = 3, stride: int = 1) -> Any:
    x = layers.Conv2D(filters, kernel, strides=stride, padding="same", name=name)(x)
    return layers.BatchNormalization(momentum=0.9, name=f"{name}_norm")(x)


def block(x: Any, name: str, filters: int, stride: int) -> Any:
    y = layers.ReLU()(conv_norm(x, f"{name}_conv1", filters, 3, stride))
    y = conv_norm(y, f"{name}_conv2", filters)
    shortcut = x if stride == 1 else conv_norm(x, f"{name}_shortcut", filters, 1, stride)
    return layers.ReLU()(layers.add([y, shortcut]))


def resnet8() -> keras.Model:
    given = keras.Input((28, 28, 1))
    x = layers.ReLU()(conv_norm(given, "conv1", 16))
    for stage, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2)), start=1):
        x = block(x, f"stage{stage}_block1", filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(given, layers.Dense(10, name="logits")(x))


def started(architecture: str, weights: Mapping[str, NDArray[Any]]) -> keras.Model:
    model = {"lenet": lenet, "resnet8": resnet8}[architecture]()
    known = {layer.name: layer for layer in model.layers if not isinstance(layer, layers.InputLayer)}
    load(Built(model, known, {}), weights)
    return model


class PlainTensorFlow:
    def __init__(self, architecture: str, weights: Mapping[str, NDArray[Any]], rate: float, _loop: str) -> None:
        import tensorflow as tf

        model, optimizer = started(architecture, weights), keras.optimizers.Adam(rate)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def train_step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @tf.function
        def test_step(x: Any, y: Any) -> Any:
            answers = tf.argmax(model(x, training=False), axis=-1, output_type=tf.int32)
            return tf.math.count_nonzero(answers == y)

        self._tf, self._train_step, self._test_step = tf, train_step, test_step

    def batches(self, x: NDArray[np.float32], y: NDArray[np.int32], size: int) -> Batches:
        starts = range(0, len(y), size)
        return [(self._tf.constant(x[i : i + size]), self._tf.constant(y[i : i + size])) for i in starts]

    def train(self, batches: Batches) -> float:
        losses = [self._train_step(x, y) for x, y in batches]
        return float(np.average(np.array(losses, np.float64), weights=[len(y) for _, y in batches]))

    def test(self, batches: Batches) -> int:
        return sum(int(self._test_step(x, y)) for x, y in batches)


class PlainJax:
    def __init__(self, architecture: str, weights: Mapping[str, NDArray[Any]], rate: float, _loop: str) -> None:
        import jax

        model, optimizer = started(architecture, weights), keras.optimizers.Adam(rate)
        optimizer.build(model.trainable_variables)
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def answered(learned: Any, fixed: Any, x: Any, y: Any) -> Any:
            logits, fixed = model.stateless_call(learned, fixed, x, training=True)
            return loss_of(y, logits), fixed

        @partial(jax.jit, donate_argnums=0)
        def train_step(state: Any, x: Any, y: Any) -> Any:
            learned, fixed, slots = state
            (loss, fixed), gradients = jax.value_and_grad(answered, has_aux=True)(learned, fixed, x, y)
            learned, slots = optimizer.stateless_apply(slots, gradients, learned)
            return (learned, fixed, slots), loss

        @jax.jit
        def test_step(state: Any, x: Any, y: Any) -> Any:
            logits, _ = model.stateless_call(state[0], state[1], x, training=False)
            return (logits.argmax(-1) == y).sum()

        self._jax, self._train_step, self._test_step = jax, train_step, test_step
        groups = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self._state = tuple([jax.numpy.copy(one.value) for one in group] for group in groups)

    def batches(self, x: NDArray[np.float32], y: NDArray[np.int32], size: int) -> Batches:
        put = self._jax.device_put
        return [(put(x[i : i + size]), put(y[i : i + size])) for i in range(0, len(y), size)]

    def train(self, batches: Batches) -> float:
        losses = []
        for x, y in batches:
            self._state, loss = self._train_step(self._state, x, y)
            losses.append(loss)
        return float(np.average(self._jax.device_get(losses), weights=[len(y) for _, y in batches]))

    def test(self, batches: Batches) -> int:
        return int(sum(self._jax.device_get([self._test_step(self._state, x, y) for x, y in batches])))
