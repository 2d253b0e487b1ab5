"""Training of Keras models beside Keras' own steps, on every backend."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.sources import ArraySource
from zoolens.training.pairs.loop.single_run import Length, train_once
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.sides.network_sides import InputShape
from zoolens.training.port.training.paired import train

keras = pytest.importorskip("keras")
SHAPE = InputShape.parse("1x28x28")


def made(loss=None, **settings):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(3, 3, strides=4, kernel_regularizer=keras.regularizers.L2(1e-2)),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    schedule = keras.optimizers.schedules.ExponentialDecay(0.02, 2, 0.5)
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=0.5),
        loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **settings,
    )
    return model


def source():
    return ArraySource.of_dataset("demo", SHAPE, 40, "none", (120, 50))


def steps_are_those_of_keras():
    """What `train_on_batch` makes of the same batches."""
    side = open_trainable_side(made, [SHAPE], "A")
    side.begin(0)
    given = source()
    first = side.tensors()
    run = train_once(side, given, 0, Length(2), fresh=False)
    model, losses = made(), []
    for variable, value in zip(model.variables[: len(first)], first.values(), strict=True):
        variable.assign(value)
    for epoch in (1, 2):
        for batch in given.batches(epoch, 0):
            model.reset_metrics()
            losses.append(float(model.train_on_batch(batch.inputs[0].transpose(0, 2, 3, 1), batch.targets)))
    assert run.losses == pytest.approx((np.mean(losses[:3]), np.mean(losses[3:])), rel=1e-5)
    ours = list(side.tensors().values())
    theirs = [keras.ops.convert_to_numpy(variable.value) for variable in model.variables[: len(ours)]]
    assert all(np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(ours, theirs, strict=True))
    side.begin(0)
    side.assign(first)
    again = train_once(side, given, 0, Length(2), fresh=False)
    assert again.losses == pytest.approx(run.losses, rel=1e-6)


def test_steps_are_those_of_keras():
    steps_are_those_of_keras()


def alike_in_lockstep():
    """What is read of the optimizer is the same on every backend, and so is what a lockstep with torch says."""
    from zoolens.training.pairs.lockstep.lockstep import lockstep
    from zoolens.training.port.training.test_training_mistakes import batches, keras_side, proved, sgd, torch_side

    assert open_trainable_side(made(), [SHAPE], "A").settings()["optimizer.rule"] == "adam"
    momentum = keras_side(optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9))
    alike = lockstep(torch_side(optimizer=sgd(momentum=0.9)), momentum, ["6"], batches((6,)), steps=(1, 2))
    assert not alike.causes
    forgotten = lockstep(torch_side(), momentum, ["6"], batches((6,)), steps=(1, 2))
    assert proved(forgotten) == {"optimizer.momentum"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_steps_on_other_backends(backend):
    """Keras has one backend in a process."""
    here = "zoolens.training.pairs.live.keras.test_keras_training"
    code = f"from {here} import *; steps_are_those_of_keras(); alike_in_lockstep()"
    here = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=here, capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_is_said_of_a_model():
    told = open_trainable_side(made(), [SHAPE], "A").settings()
    assert (told["optimizer.rule"], told["schedule.name"], told["clip.norm"]) == ("adam", "ExponentialDecay", 0.5)
    assert told["regularisation"] == "L2 l2 0.01 of 1 tensor"
    assert told["loss.from_logits"] is True


class TwoRates(keras.optimizers.schedules.LearningRateSchedule):
    """Asks for the number of the step, which a graph does not have."""

    def __call__(self, step):
        return 0.1 if step < 150 else 0.01

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    "schedule",
    [
        keras.optimizers.schedules.CosineDecay(0.0, 200, warmup_target=0.1, warmup_steps=20),
        keras.optimizers.schedules.PiecewiseConstantDecay([100, 150], [0.1, 0.01, 0.001]),
        TwoRates(),
    ],
    ids=["cosine", "piecewise", "own"],
)
def test_the_rates_of_a_schedule_are_those_of_its_steps(schedule):
    model = made()
    model.optimizer = keras.optimizers.SGD(schedule)
    rates = open_trainable_side(model, [SHAPE], "A").rates([150, 100])
    assert rates == pytest.approx([float(schedule(step)) for step in range(250)], rel=1e-6, abs=1e-8)


def test_classes_become_rows_for_a_loss_that_takes_rows():
    given = source()
    batch = next(given.held_out())
    sparse, rows = (
        open_trainable_side(made(loss), [SHAPE], "A")
        for loss in (None, keras.losses.CategoricalCrossentropy(from_logits=True))
    )
    answers = np.random.default_rng(0).normal(size=(len(batch.targets), 10)).astype(np.float32)
    assert rows.loss_of(answers, batch.targets) == pytest.approx(sparse.loss_of(answers, batch.targets), rel=1e-5)


class OwnStep(keras.Sequential):
    def train_step(self, *_):
        raise NotImplementedError


def bare():
    return keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (bare, "no optimizer"),
        (lambda: (bare(), keras.optimizers.SGD()), "no loss"),
        (lambda: {"network": made(), "clip_norm": 1.0}, "clip_norm stands beside"),
        (lambda: OwnStep([keras.Input((28, 28, 1)), keras.layers.Flatten()]), "train_step of its own"),
    ],
)
def test_what_cannot_be_trained_is_said(objects, words):
    with pytest.raises(ModelError, match=words):
        open_trainable_side(objects, [SHAPE], "A")


def test_a_moving_average_answers_as_after_fit_and_two_functions_of_keras_are_trained():
    """Labels that stand in a column of their own are classes, too."""

    def small(**settings):
        def make():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            optimizer = keras.optimizers.SGD(0.5, **settings)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(optimizer, loss, loss_weights=0.5, run_eagerly=True)
            return model

        return make

    drawn = np.random.default_rng(0).standard_normal((32, 4)).astype(np.float32)
    labels = (drawn[:, :1] > 0).astype(np.int64)
    averaged = small(use_ema=True, ema_momentum=0.9)
    found = train(averaged, small(), ["4"], data=([(drawn, labels)] * 2, [(drawn, labels)]), epochs=2, seeds=1)
    told = {one.name: (one.a, one.b) for one in found.differences}
    assert told == {"optimizer.average": (0.9, "none")}
    assert found.settings[0]["loss.scale"] == 0.5
    keras.utils.set_random_seed(0)
    model = averaged()
    model.fit(drawn, labels, batch_size=32, epochs=4, shuffle=False, verbose=0)
    right = (model.predict_on_batch(drawn).argmax(-1) == labels[:, 0]).mean()
    assert found.seeds[0].runs[0].accuracy == pytest.approx(float(right))
    assert found.seeds[0].runs[1].accuracy > 0.5


class Adding(keras.layers.Layer):
    def call(self, x):
        self.add_loss(keras.ops.mean(x))
        return x


class Doubling(keras.Model):
    def compute_loss(self, *given, **named):
        return 2 * super().compute_loss(*given, **named)


def small(*layers, kind=keras.Model, loss="mse", optimizer="sgd", **settings):
    given = keras.Input((4,))
    answer = keras.layers.Dense(3, **settings)(given)
    for layer in layers:
        answer = layer(answer)
    model = kind(given, answer)
    model.compile(optimizer, loss)
    return model


def settings_of(model):
    return open_trainable_side(model, [InputShape((4,))], "A").settings()


def test_what_else_changes_a_step_is_told():
    plain = settings_of(small())
    assert not {"constraint", "loss.from_logits", "loss.smoothing"} & plain.keys()
    assert (plain["loss.name"], plain["loss.reduction"], plain["regularisation"]) == (
        "MeanSquaredError", "mean", "none",
    )  # fmt: skip
    assert settings_of(small(loss="huber"))["loss.constants"] == "delta 1"
    side = open_trainable_side(small(loss=keras.losses.Huber(delta=0.5)), [InputShape((4,))], "A")
    side.switch("loss.reduction", "sum")
    assert (side.settings()["loss.constants"], side.settings()["loss.reduction"]) == ("delta 0.5", "sum")
    assert settings_of(small(loss=keras.losses.mean_squared_error))["loss.reduction"] == "mean"
    held = settings_of(small(kernel_constraint=keras.constraints.MaxNorm(0.5)))
    assert held["constraint"] == "MaxNorm max_value 0.5, axis 0 of 1 tensor"
    adding = settings_of(small(Adding()))
    assert (adding["regularisation"], adding["regularisation.penalties"]) == (
        "what 1 layer of the model's own adds", None,
    )  # fmt: skip
    doubling = settings_of(small(kind=Doubling))
    assert (doubling["loss.name"], doubling["loss.reduction"]) == ("compute_loss of Doubling", None)


def test_an_optimizer_that_is_made_anew_spares_the_same_variables():
    model = small()
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_list=[model.trainable_variables[1]])
    model.compile(optimizer, "mse")
    side = open_trainable_side(model, [InputShape((4,))], "A")
    before = side.settings()["optimizer.varied"]
    side.switch("optimizer.epsilon", 1e-8)
    assert side.settings()["optimizer.varied"] == before == "weight decay 0.1 for 12 numbers, 0 for 3 numbers"
