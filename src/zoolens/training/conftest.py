"""Small networks and their ports: a convolutional one with everything that ports get wrong, in three frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from zoolens.base.engine.fork_server import end_servers

SHAPE = "3x8x8"


@pytest.fixture(autouse=True, scope="module")
def no_servers_are_left() -> Iterator[None]:
    """A process that has imported TensorFlow takes a gigabyte."""
    yield
    end_servers()


def torch_net(**settings: Any) -> Any:
    """Convolutions with a norm, a stride, a depthwise layer, a pool, a flattened map and two dense layers."""
    from torch import nn

    given = {"eps": 1e-3, "momentum": 0.01, "bias": True, "act": nn.ReLU, "drop": 0.0, "softmax": 0, **settings}
    layers = [
        nn.Conv2d(3, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6, eps=given["eps"], momentum=given["momentum"]),
        given["act"](),
        nn.Conv2d(6, 6, 3, stride=2, padding=1, groups=6, bias=given["bias"]),
        given["act"](),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 12),
        given["act"](),
        *([nn.Dropout(given["drop"])] if given["drop"] else []),
        nn.Linear(12, 5),
        *(nn.Softmax(-1) for _ in range(given["softmax"])),
    ]
    return nn.Sequential(*layers)


def keras_net(**settings: Any) -> Any:
    """The same, unless a setting says otherwise."""
    import keras
    from keras import layers as kl

    given = {
        "eps": 1e-3, "momentum": 0.99, "bias": True, "act": "relu", "drop": 0.0, "softmax": 0, "same": False,
        **settings,
    }  # fmt: skip
    x = image = keras.Input((8, 8, 3))
    x = kl.Conv2D(6, 3, padding="same", use_bias=False)(x)
    x = kl.BatchNormalization(epsilon=given["eps"], momentum=given["momentum"])(x)
    x = kl.Activation(given["act"])(x)
    x = x if given["same"] else kl.ZeroPadding2D(1)(x)
    x = kl.DepthwiseConv2D(3, strides=2, padding="same" if given["same"] else "valid", use_bias=given["bias"])(x)
    x = kl.Activation(given["act"])(x)
    x = kl.MaxPooling2D(2)(x)
    x = kl.Flatten()(x)
    x = kl.Dense(12, activation=given["act"])(x)
    x = kl.Dropout(given["drop"])(x) if given["drop"] else x
    x = kl.Dense(5)(x)
    for _ in range(given["softmax"]):
        x = kl.Softmax()(x)
    return keras.Model(image, x)


def jax_net(**settings: Any) -> tuple[Any, Any]:
    """The same as a function of a tree of parameters."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    given = {"eps": 1e-3, "pads": ((1, 1), (1, 1)), "act": jax.nn.relu, **settings}
    draw = np.random.default_rng(3).standard_normal
    shapes = {
        "conv": {"kernel": (3, 3, 3, 6)},
        "norm": {"scale": (6,), "bias": (6,), "mean": (6,), "var": (6,)},
        "depthwise": {"kernel": (3, 3, 1, 6), "bias": (6,)},
        "hidden": {"kernel": (24, 12), "bias": (12,)},
        "head": {"kernel": (12, 5), "bias": (5,)},
    }
    parameters = {
        layer: {
            name: jnp.asarray(np.abs(draw(shape)) if name == "var" else draw(shape), jnp.float32)
            for name, shape in named.items()
        }
        for layer, named in shapes.items()
    }
    order = ("NHWC", "HWIO", "NHWC")

    def apply(tree: Any, x: Any) -> Any:
        x = jax.lax.conv_general_dilated(x, tree["conv"]["kernel"], (1, 1), "SAME", dimension_numbers=order)
        norm = tree["norm"]
        x = (x - norm["mean"]) * jax.lax.rsqrt(norm["var"] + given["eps"]) * norm["scale"] + norm["bias"]
        x = given["act"](x)
        deep = tree["depthwise"]
        x = jax.lax.conv_general_dilated(
            x, deep["kernel"], (2, 2), given["pads"], dimension_numbers=order, feature_group_count=6
        )
        x = given["act"](x + deep["bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        x = given["act"](x @ tree["hidden"]["kernel"] + tree["hidden"]["bias"])
        return x @ tree["head"]["kernel"] + tree["head"]["bias"]

    return apply, parameters


@pytest.fixture(autouse=True)
def _repeatable() -> None:
    """Fresh weights are drawn from fixed seeds."""
    import random
    import sys

    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
