"""The port of `residual_torch.py` to JAX, by hand: a function of parameters and images, Adam, and a loss."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Tree = dict[str, Any]


def conv(layer: Tree, x: jax.Array, stride: int = 1) -> jax.Array:
    pad = layer["kernel"].shape[0] // 2
    x = jax.lax.conv_general_dilated(
        x, layer["kernel"], (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return x + layer["bias"]


def block(layers: Tree, x: jax.Array, stride: int) -> jax.Array:
    y = conv(layers["conv2"], jax.nn.relu(conv(layers["conv1"], x, stride)))
    return jax.nn.relu(y + (conv(layers["shortcut"], x, stride) if stride > 1 else x))


def apply(layers: Tree, x: jax.Array) -> jax.Array:
    """Take images of 32×32×3 and answer ten scores."""
    x = jax.nn.relu(conv(layers["stem"], x))
    for name, stride in (("block1", 1), ("block2", 2), ("block3", 2)):
        x = block(layers[name], x, stride)
    return x.mean((1, 2)) @ layers["head"]["kernel"] + layers["head"]["bias"]


def first_parameters(seed: int) -> Tree:
    """Drawn as torch draws them."""
    draw = np.random.default_rng(seed).uniform

    def layer(*shape: int) -> Tree:
        bound = 1 / np.sqrt(np.prod(shape[:-1]))
        sizes = {"kernel": shape, "bias": shape[-1:]}
        return {name: jnp.asarray(draw(-bound, bound, size), jnp.float32) for name, size in sizes.items()}

    def layers(before: int, filters: int) -> Tree:
        found = {"conv1": layer(3, 3, before, filters), "conv2": layer(3, 3, filters, filters)}
        return found if before == filters else {**found, "shortcut": layer(1, 1, before, filters)}

    return {
        "stem": layer(3, 3, 3, 16),
        "block1": layers(16, 16),
        "block2": layers(16, 32),
        "block3": layers(32, 64),
        "head": layer(64, 10),
    }


class Moments(NamedTuple):
    count: jax.Array
    mu: Tree
    nu: Tree


class Adam(NamedTuple):
    """As optax has it: `init` makes the state, `update` says by how much the parameters change."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def init(self, layers: Tree) -> Moments:
        zeros = jax.tree_util.tree_map(jnp.zeros_like, layers)
        return Moments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(self, gradients: Tree, state: Moments, _: Tree) -> tuple[Tree, Moments]:
        count, each = state.count + 1, jax.tree_util.tree_map
        mu = each(lambda m, g: self.beta1 * m + (1 - self.beta1) * g, state.mu, gradients)
        nu = each(lambda n, g: self.beta2 * n + (1 - self.beta2) * g * g, state.nu, gradients)
        first, second = 1 - self.beta1**count, 1 - self.beta2**count
        change = each(lambda m, n: -self.rate * (m / first) / (jnp.sqrt(n / second) + self.epsilon), mu, nu)
        return change, Moments(count, mu, nu)


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], 1).mean()


def net(seed: int = 0) -> tuple[Any, Tree, Adam, Any]:
    return apply, first_parameters(seed), Adam(), cross_entropy
