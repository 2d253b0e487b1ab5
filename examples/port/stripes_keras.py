"""The port of `stripes_torch.py`, whose author took "same" for padding=1, and SGD for Adam."""

import keras
from keras import layers


def net() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((7, 7, 1)),
            layers.Conv2D(8, 2, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    model.compile(keras.optimizers.SGD(0.004), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
