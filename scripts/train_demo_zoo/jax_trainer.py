"""Trains with plain JAX: lecun_normal kernels as Flax has them, and Adam written out."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .architecture import Architecture, Conv, Shape, Weights, kernel_shapes, walk
from .data import Split
from .recipes import Recipe

PACKAGES = ("jax", "jaxlib", "numpy")
INITIALISATION = "jax.nn.initializers.lecun_normal, zero biases"

_Params = list[tuple[jax.Array, jax.Array]]


def train(recipe: Recipe, data: Split) -> list[Weights]:
    if any(isinstance(layer, Conv) and (layer.norm or layer.depthwise) for layer in recipe.layers):
        raise ValueError(f"{recipe.name}: the JAX trainer knows neither batch norm nor depthwise convolution")
    params = _initialise(recipe.layers, jax.random.key(recipe.seed))
    state = (params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    step = jax.jit(partial(_step, tuple(recipe.layers), recipe.learning_rate))
    order, count = np.random.default_rng(recipe.seed), 0
    images = data.images[..., np.newaxis]
    for epoch in range(recipe.epochs):
        total = 0.0
        shuffled = order.permutation(len(data.labels))
        # The last, shorter batch is left out: it would be compiled separately
        for start in range(0, len(shuffled) - recipe.batch_size + 1, recipe.batch_size):
            batch = shuffled[start : start + recipe.batch_size]
            count += 1
            state, loss = step(state, float(count), images[batch], data.labels[batch])
            total += float(loss) * len(batch)
        print(f"  epoch {epoch + 1}: loss {total / len(shuffled):.4f}", flush=True)
    return [Weights(np.asarray(kernel), np.asarray(bias)) for kernel, bias in state[0]]


class _JaxOps:
    def conv(self, x: jax.Array, layer: Conv, kernel: jax.Array, bias: jax.Array) -> jax.Array:
        axes = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, kernel, (1, 1), layer.padding.upper(), dimension_numbers=axes) + bias

    def dense(self, x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
        return x @ kernel + bias

    def relu(self, x: jax.Array) -> jax.Array:
        return jax.nn.relu(x)

    def max_pool(self, x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def global_average(self, x: jax.Array) -> jax.Array:
        return x.mean((1, 2))

    def flatten(self, x: jax.Array, shape: Shape) -> jax.Array:
        return x.reshape(x.shape[0], -1)

    def add(self, x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y


def _initialise(layers: Architecture, key: jax.Array) -> _Params:
    shapes = list(kernel_shapes(layers))
    keys = jax.random.split(key, len(shapes))
    make = jax.nn.initializers.lecun_normal()
    return [(make(k, shape, jnp.float32), jnp.zeros(shape[-1])) for k, shape in zip(keys, shapes, strict=True)]


def _loss(params: _Params, layers: Architecture, images: jax.Array, labels: jax.Array) -> jax.Array:
    logits = walk(layers, images, iter(params), _JaxOps())
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def _step(
    layers: Architecture, rate: float, state: Any, count: float, images: Any, labels: Any
) -> tuple[Any, jax.Array]:
    params, first, second = state
    loss, gradients = jax.value_and_grad(_loss)(params, layers, images, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    unbiased = (1 - 0.9**count, 1 - 0.999**count)
    params = jax.tree.map(
        lambda p, m, v: p - rate * (m / unbiased[0]) / (jnp.sqrt(v / unbiased[1]) + 1e-8), params, first, second
    )
    return (params, first, second), loss
