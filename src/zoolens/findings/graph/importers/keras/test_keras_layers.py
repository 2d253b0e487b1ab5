"""Every kind of layer and operation, raw graph against Keras, on tiny inputs."""

from __future__ import annotations

import os

import numpy as np
import pytest

from zoolens.findings.graph.importers.keras.keras_library import graph_of_keras_model, randomise
from zoolens.findings.graph.reference.interpreter import run


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    return pytest.importorskip("keras")


def checked(keras, shape, function):
    """The graph of `function`, after it was seen to compute the same as Keras."""
    given = keras.Input(shape)
    model = keras.Model(given, function(given))
    randomise(model)
    graph = graph_of_keras_model(model, weights=True)
    value = np.random.default_rng(3).normal(0, 2, (1, *shape)).astype(np.float32)
    expected = np.asarray(model(value, training=False))
    found = run(graph, {graph.inputs[0].name: value.astype(np.float64)})[graph.outputs[0]]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    return graph


LAYERS = {
    "conv, same, dilated, fused": lambda k: k.Conv2D(6, 3, padding="same", dilation_rate=2, activation="relu"),
    "conv, grouped, strided": lambda k: k.Conv2D(8, (3, 2), strides=2, groups=2, padding="same", use_bias=False),
    "depthwise, multiplied": lambda k: k.DepthwiseConv2D(3, depth_multiplier=2, padding="same", strides=2),
    "separable": lambda k: k.SeparableConv2D(5, 3, depth_multiplier=2, padding="same", activation="elu"),
    "transposed, same": lambda k: k.Conv2DTranspose(3, 3, strides=2, padding="same"),
    "transposed, valid": lambda k: k.Conv2DTranspose(3, 2, strides=3),
    "dense on maps": lambda k: k.Dense(5, activation="gelu"),
    "batch norm": lambda k: k.BatchNormalization(epsilon=1e-2),
    "batch norm, no scale": lambda k: k.BatchNormalization(scale=False),
    "layer norm": lambda k: k.LayerNormalization(),
    "rms norm": lambda k: k.RMSNormalization(),
    "group norm": lambda k: k.GroupNormalization(groups=2),
    "unit norm": lambda k: k.UnitNormalization(),
    "normalisation": lambda k: k.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[4.0, 1.0, 9.0, 0.25]),
    "normalisation, adapted": lambda k: k.Normalization(),
    "rescaling": lambda k: k.Rescaling(0.5, offset=-1.0),
    "rescaling by channel": lambda k: k.Rescaling([1.0, 2.0, 3.0, 4.0]),
    "max pool": lambda k: k.MaxPooling2D(3, strides=2, padding="same"),
    "avg pool": lambda k: k.AveragePooling2D(3, strides=2, padding="same"),
    "global pool": lambda k: k.GlobalAveragePooling2D(keepdims=True),
    "global max pool": lambda k: k.GlobalMaxPooling2D(),
    "zero padding": lambda k: k.ZeroPadding2D(((1, 2), (0, 3))),
    "cropping": lambda k: k.Cropping2D(((1, 2), (0, 3))),
    "upsampling": lambda k: k.UpSampling2D(2),
    "upsampling, bilinear": lambda k: k.UpSampling2D(2, interpolation="bilinear"),
    "relu, bounded": lambda k: k.ReLU(max_value=3.0),
    "relu, leaky and bounded": lambda k: k.ReLU(max_value=3.0, negative_slope=0.1),
    "leaky relu": lambda k: k.LeakyReLU(negative_slope=0.2),
    "prelu": lambda k: k.PReLU(shared_axes=[1, 2]),
    "softmax": lambda k: k.Softmax(),
    "permute": lambda k: k.Permute((3, 1, 2)),
    "reshape": lambda k: k.Reshape((14, 16)),
    "flatten": lambda k: k.Flatten(),
    "dropout": lambda k: k.Dropout(0.3),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
def test_layer(keras, layer):
    assert checked(keras, (7, 8, 4), layer(keras.layers)).unknown == ()


ACTIVATIONS = (
    "relu", "relu6", "sigmoid", "silu", "hard_sigmoid", "hard_silu", "tanh", "elu", "selu", "softplus", "mish",
    "leaky_relu", "gelu", "softmax", "log_softmax", "exponential", "hard_tanh", "linear",
)  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_by_name(keras, name):
    assert checked(keras, (5, 4), keras.layers.Activation(name)).unknown == ()


OPERATIONS = {
    "arithmetic": lambda k, x: (2.0 - x) * (x + 1.0) / 3.0 - 1.0 / (k.ops.abs(x) + 2.0),
    "power": lambda k, x: k.ops.square(x) ** 2.0,
    "reductions": lambda k, x: k.ops.mean(x, axis=-1, keepdims=True) + k.ops.max(x, axis=2, keepdims=True),
    "indexing": lambda k, x: x[:, 1:6:2, ..., 1],
    "arrangement": lambda k, x: k.ops.transpose(k.ops.squeeze(k.ops.expand_dims(x, 1), 1), (0, 3, 1, 2)),
    "concatenation": lambda k, x: k.ops.concatenate([x, k.ops.relu(x)], axis=-1),
    "merging": lambda k, x: k.layers.Average()([k.layers.Maximum()([x, k.ops.silu(x)]), x, k.ops.hard_silu(x)]),
    "padding": lambda k, x: k.ops.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]]),
    "pooling and broadcasting": lambda k, x: k.layers.Multiply()([x, k.layers.GlobalMaxPooling2D(keepdims=True)(x)]),
}


@pytest.mark.parametrize("function", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_operation(keras, function):
    assert checked(keras, (7, 8, 4), lambda x: function(keras, x)).unknown == ()


def test_statistics_of_preprocessing_are_not_learned(keras):
    layer = keras.layers.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[4.0, 1.0, 9.0, 0.25])
    assert checked(keras, (7, 8, 4), layer).parameters == 0


def test_an_activation_nobody_taught_us_is_named(keras):
    given = keras.Input((4,))
    graph = graph_of_keras_model(keras.Model(given, keras.layers.Dense(2, activation="softsign")(given)))
    assert [node.get("source_op") for node in graph.unknown] == ["softsign"]
    assert graph.parameters == 10


def test_a_layer_of_the_user_is_looked_into(keras):
    class Token(keras.layers.Layer):
        def build(self, shape):
            self.token = self.add_weight(name="token", shape=(1, 1, shape[-1]))
            self.unused = self.add_weight(name="unused", shape=(3,))
            self.inner = keras.layers.Dense(shape[-1])

        def call(self, x, training=False):
            token = keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[-1]))
            return self.inner(keras.ops.concatenate([token, x], axis=1)) + self.token

    layer = Token(name="own")
    graph = checked(keras, (5, 4), layer)
    assert not graph.unknown
    assert [node.op for node in graph] == ["input", "parameter", "expand", "concat", "dense", "add"]
    assert isinstance(layer.token, keras.Variable)  # it is as before
