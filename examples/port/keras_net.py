"""Two ports of `torch_net.py` to Keras: the first as one writes it, the second once `zoolens port check` was asked."""

import keras
from keras import layers


def first_try() -> keras.Model:
    """Written with Keras' defaults in mind: three things are different, and one is forgotten."""
    image = x = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(32, 3, strides=2, padding="same")(x)
    x = layers.Activation(lambda value: keras.activations.gelu(value, approximate=True))(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    x = layers.Dense(10)(x)
    return keras.Model(image, x)


def net() -> keras.Model:
    """The same network as `torch_net.py:net`."""
    image = x = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(epsilon=1e-5, momentum=0.9)(x)
    x = layers.ReLU()(x)
    x = layers.ZeroPadding2D(1)(x)
    x = layers.Conv2D(32, 3, strides=2)(x)
    x = layers.Activation("gelu")(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(10)(x)
    return keras.Model(image, x)


def first_training() -> keras.Model:
    """The first try, compiled with Keras' own Adam."""
    model = first_try()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def training() -> keras.Model:
    """The same training as `torch_net.py:training`, with the epsilon that torch's Adam has."""
    model = net()
    optimizer = keras.optimizers.Adam(1e-3, epsilon=1e-8)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
