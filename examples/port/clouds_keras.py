"""The port of `clouds_torch.py`, whose author forgot the momentum."""

import keras
from keras import layers


def net() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), layers.Dense(16, activation="relu"), layers.Dense(4)])
    model.compile(keras.optimizers.SGD(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
