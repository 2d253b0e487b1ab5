"""Seeded mistakes of training, one in each hand-written pair, and faithful trainings.

Each mistake is named by the lockstep, with the setting that makes it, and no faithful training is accused. The networks
are small and equal, so that what is said can only be about their training.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from zoolens.base.progress import Silent
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.explanation.side_bench import PortExplanationBench
from zoolens.training.pairs.lockstep.lockstep import lockstep
from zoolens.training.pairs.lockstep.lockstep_words import lockstep_lines
from zoolens.training.pairs.loop.single_run import Length
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.sides.open_pair import opened

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
nn, kl, ko = torch.nn, keras.layers, keras.optimizers
pytestmark = pytest.mark.slow

CLASSES, BATCH = 4, 8
FRAMEWORKS_OWN = {"norm.divisor"}  # differences that no user can take out


def batches(shape, count=4, whole=False):
    """Inputs whose classes can be learned, so that the losses fall."""
    generator = np.random.default_rng(5)
    found = []
    for _ in range(count):
        inputs = generator.standard_normal((BATCH, *shape)).astype(np.float32)
        if whole:
            inputs = generator.integers(0, 11, (BATCH, *shape))
        found.append(TrainingBatch((inputs,), generator.integers(0, CLASSES, BATCH)))
    return found


def perceptron(*, softmax=False, drop=0.0):
    layers = [nn.Linear(6, 8), nn.ReLU(), *([nn.Dropout(drop)] if drop else []), nn.Linear(8, CLASSES)]
    return nn.Sequential(*layers, *([nn.Softmax(-1)] if softmax else []))


def perceptron_port(*, softmax=False, drop=0.0, **options):
    return keras.Sequential(
        [
            keras.Input((6,)),
            kl.Dense(8, activation="relu", **options),
            *([kl.Dropout(drop)] if drop else []),
            kl.Dense(CLASSES, activation="softmax" if softmax else None),
        ]
    )


def maps(**norm):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, **norm), nn.ReLU(), nn.Flatten(), nn.Linear(144, CLASSES)
    )


def maps_port(**norm):
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)), kl.Conv2D(4, 3), kl.BatchNormalization(**norm), kl.ReLU(), kl.Flatten(),
            kl.Dense(CLASSES),
        ]
    )  # fmt: skip


def strided(pool=None, **conv):
    """A convolution and a pool that both halve the map; the port pads as Keras does with "same"."""
    pools = {"max": nn.MaxPool2d, "average": nn.AvgPool2d}
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, **conv), nn.ReLU(), *([pools[pool](3, 2, padding=1)] if pool else []),
        nn.Flatten(), nn.LazyLinear(CLASSES),
    )  # fmt: skip


def built(network):
    network(torch.zeros(1, 3, 8, 8))
    return network


def strided_port(pool=None, before=(), padding="same"):
    pools = {"max": kl.MaxPooling2D, "average": kl.AveragePooling2D}
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)), *before, kl.Conv2D(4, 3, strides=2, padding=padding), kl.ReLU(),
            *([pools[pool](3, 2, padding="same")] if pool else []), kl.Flatten(), kl.Dense(CLASSES),
        ]
    )  # fmt: skip


def sgd(rate=0.1, **options):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, **options)


def adam(**options):
    return lambda parameters: torch.optim.Adam(parameters, lr=0.01, **options)


def decayed_kernel(parameters):
    first, *others = parameters
    return torch.optim.SGD([{"params": [first], "weight_decay": 0.02}, {"params": others}], lr=0.1)


def torch_side(network=perceptron, optimizer=None, loss=None, schedule=None, **more):
    """A function that a user would write."""

    def made():
        net = network()
        built = (optimizer or sgd())(net.parameters())
        given = {"network": net, "optimizer": built, "loss": loss or nn.CrossEntropyLoss(), **more}
        return given | ({"scheduler": schedule(built)} if schedule else {})

    return made


def keras_side(network=perceptron_port, optimizer=None, loss=None, **more):
    def made():
        scores = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        built = (optimizer or (lambda: ko.SGD(0.1)))()
        return {"network": network(), "optimizer": built, "loss": loss or scores, **more}

    return made


def cross_entropy(**options):
    return keras.losses.SparseCategoricalCrossentropy(**{"from_logits": True, **options})


def small_loss(targets, answers):
    """The mistake of a user: the mean over the classes as well."""
    hot = keras.ops.one_hot(targets, CLASSES)
    return -keras.ops.mean(hot * keras.ops.log_softmax(answers))


@dataclass
class Pair:
    """`names`: settings of which the lockstep proves each, or words that its lines have."""

    a: object
    b: object
    names: tuple[str, ...] = ()
    shape: str = "6"
    words: str = ""


MISTAKES = {
    "sum for mean": Pair(torch_side(), keras_side(loss=cross_entropy(reduction="sum")), ("loss.reduction",)),
    "decoupled weight decay": Pair(
        torch_side(optimizer=sgd(weight_decay=0.1, momentum=0.9)),
        keras_side(optimizer=lambda: ko.SGD(0.1, momentum=0.9, weight_decay=0.1)),
        ("optimizer.decay_kind",),
    ),
    "Adam's epsilon": Pair(
        torch_side(optimizer=adam(eps=1e-3)),
        keras_side(optimizer=lambda: ko.Adam(0.01, epsilon=1e-7)),
        ("optimizer.epsilon",),
    ),
    "place of Adam's epsilon": Pair(
        torch_side(optimizer=adam(eps=1e-3)),
        keras_side(optimizer=lambda: ko.Adam(0.01, epsilon=1e-3)),
        ("optimizer.epsilon_place",),
    ),
    "Adam's beta2": Pair(
        torch_side(optimizer=adam(eps=1e-15)),
        keras_side(optimizer=lambda: ko.Adam(0.01, beta_2=0.9, epsilon=1e-15)),
        ("optimizer.beta2",),
    ),
    "learning rate": Pair(torch_side(), keras_side(optimizer=lambda: ko.SGD(0.01)), ("optimizer.learning_rate",)),
    "momentum forgotten": Pair(torch_side(optimizer=sgd(momentum=0.9)), keras_side(), ("optimizer.momentum",)),
    "Nesterov": Pair(
        torch_side(optimizer=sgd(momentum=0.9)),
        keras_side(optimizer=lambda: ko.SGD(0.1, momentum=0.9, nesterov=True)),
        ("optimizer.nesterov",),
    ),
    "label smoothing": Pair(
        torch_side(loss=nn.CrossEntropyLoss(label_smoothing=0.1)), keras_side(), ("loss.smoothing",)
    ),
    "softmax twice in training": Pair(
        torch_side(lambda: perceptron(softmax=True)),
        keras_side(lambda: perceptron_port(softmax=True), loss=cross_entropy(from_logits=False)),
        ("loss.from_logits",),
    ),
    "clipnorm for a global clip": Pair(
        torch_side(clip_norm=0.05), keras_side(optimizer=lambda: ko.SGD(0.1, clipnorm=0.05)), ("clip.norm",)
    ),
    "clipping forgotten": Pair(torch_side(clip_norm=0.05), keras_side(), ("clip.norm",)),
    "scheduler stepped at every batch": Pair(
        torch_side(schedule=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5)),
        keras_side(optimizer=lambda: ko.SGD(ko.schedules.ExponentialDecay(0.1, 1, 0.5))),
        ("schedule.rates",),
    ),
    "gradient accumulation": Pair(
        torch_side(),
        keras_side(optimizer=lambda: ko.SGD(0.1, gradient_accumulation_steps=2)),
        ("optimizer.accumulation",),
    ),
    "regulariser added": Pair(
        torch_side(), keras_side(lambda: perceptron_port(kernel_regularizer="l2")), ("regularisation",)
    ),
    "momentum of a norm inverted": Pair(
        torch_side(lambda: maps(eps=1e-3, momentum=0.9)),
        keras_side(lambda: maps_port(momentum=0.9)),
        ("norm.kept",),
        shape="3x8x8",
    ),
    "epsilon of a norm": Pair(
        torch_side(lambda: maps(momentum=0.01)),
        keras_side(lambda: maps_port(momentum=0.99)),
        ("norm.epsilon",),
        shape="3x8x8",
    ),
    "share that RMSprop keeps": Pair(
        torch_side(optimizer=lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.99, eps=1e-15)),
        keras_side(optimizer=lambda: ko.RMSprop(0.01, rho=0.9, epsilon=1e-15)),
        ("optimizer.rho",),
    ),
    "padding of a stride": Pair(
        torch_side(lambda: built(strided(padding=1))), keras_side(strided_port), ("padding",), shape="3x8x8"
    ),
    "padding of a pool": Pair(
        torch_side(lambda: built(strided("max", padding=1))),
        keras_side(lambda: strided_port("max", (kl.ZeroPadding2D(1),), "valid")),
        ("padding",),
        shape="3x8x8",
    ),
    "padding of an average": Pair(
        torch_side(lambda: built(strided("average", padding=1))),
        keras_side(lambda: strided_port("average", (kl.ZeroPadding2D(1),), "valid")),
        ("padding",),
        shape="3x8x8",
    ),
    "zeros for a reflected edge": Pair(
        torch_side(lambda: built(strided(padding=1, padding_mode="reflect"))),
        keras_side(lambda: strided_port(None, (kl.ZeroPadding2D(1),), "valid")),
        ("padding",),
        shape="3x8x8",
    ),
    "SGD for Adam": Pair(
        torch_side(optimizer=adam(eps=1e-3)), keras_side(optimizer=lambda: ko.SGD(0.01, 0.9)), ("optimizer.rule",)
    ),
    "RMSprop for Adagrad": Pair(
        torch_side(optimizer=lambda p: torch.optim.Adagrad(p, 0.01)),
        keras_side(optimizer=lambda: ko.RMSprop(0.01)),
        ("optimizer.rule",),
    ),
    "mixed precision": Pair(torch_side(), keras_side(lambda: perceptron_port(dtype="mixed_bfloat16")), ("precision",)),
    "L2 of another tensor": Pair(
        keras_side(lambda: perceptron_port(kernel_regularizer="l2")),
        keras_side(lambda: perceptron_port(bias_regularizer="l2")),
        ("regularisation",),
    ),
    "norm left frozen": Pair(
        torch_side(lambda: maps(eps=1e-3, momentum=0.01)),
        keras_side(lambda: maps_port(momentum=0.99, trainable=False)),
        words="the number of norms that stay as in evaluation is 0 in A and 1 in B",
        shape="3x8x8",
    ),
    "momentum for the mean of all batches": Pair(
        torch_side(lambda: maps(eps=1e-3, momentum=None)),
        torch_side(lambda: maps(eps=1e-3)),
        ("norm.kept",),
        shape="3x8x8",
    ),
    "layer left frozen": Pair(
        torch_side(), keras_side(lambda: perceptron_port(trainable=False)), words="Only one side learns 0.weight"
    ),
    "rate of dropout": Pair(
        torch_side(lambda: perceptron(drop=0.5)),
        keras_side(lambda: perceptron_port(drop=0.2)),
        words="the rate of dropout is 0.5 in A and 0.2 in B",
    ),
    "mean over the classes in a loss of one's own": Pair(
        torch_side(), keras_side(loss=small_loss), words="In B it is 0.25 times what it is in A"
    ),
}

FAITHFUL = {
    "SGD": Pair(torch_side(), keras_side()),
    "momentum": Pair(torch_side(optimizer=sgd(momentum=0.9)), keras_side(optimizer=lambda: ko.SGD(0.1, momentum=0.9))),
    "Nesterov": Pair(
        torch_side(optimizer=sgd(momentum=0.9, nesterov=True)),
        keras_side(optimizer=lambda: ko.SGD(0.1, momentum=0.9, nesterov=True)),
    ),
    "Adam with an epsilon that does not matter": Pair(
        torch_side(optimizer=adam(eps=1e-15)), keras_side(optimizer=lambda: ko.Adam(0.01, epsilon=1e-15))
    ),
    "AdamW": Pair(
        torch_side(optimizer=lambda p: torch.optim.AdamW(p, 0.01, eps=1e-15, weight_decay=0.1)),
        keras_side(optimizer=lambda: ko.AdamW(0.01, epsilon=1e-15, weight_decay=0.1)),
    ),
    "weight decay beside a regulariser": Pair(
        torch_side(optimizer=decayed_kernel),
        keras_side(lambda: perceptron_port(kernel_regularizer=keras.regularizers.L2(0.01))),
    ),
    "global clip": Pair(torch_side(clip_norm=0.05), keras_side(optimizer=lambda: ko.SGD(0.1, global_clipnorm=0.05))),
    "clipped values": Pair(torch_side(clip_value=0.01), keras_side(optimizer=lambda: ko.SGD(0.1, clipvalue=0.01))),
    "schedule at every step": Pair(
        torch_side(schedule=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5), scheduler_unit="step"),
        keras_side(optimizer=lambda: ko.SGD(ko.schedules.ExponentialDecay(0.1, 1, 0.5))),
    ),
    "probabilities": Pair(
        torch_side(lambda: nn.Sequential(perceptron(), nn.LogSoftmax(-1)), loss=nn.NLLLoss()),
        keras_side(),
    ),
    "sum on both sides": Pair(
        torch_side(loss=nn.CrossEntropyLoss(reduction="sum"), optimizer=sgd(0.01)),
        keras_side(loss=cross_entropy(reduction="sum"), optimizer=lambda: ko.SGD(0.01)),
    ),
    "padding of one's own for Keras' same": Pair(
        torch_side(lambda: built(nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), strided()))),
        keras_side(strided_port),
        shape="3x8x8",
    ),
    "Keras' padding of a pool": Pair(
        torch_side(lambda: built(strided("max", padding=1))),
        keras_side(
            lambda: keras.Sequential(
                [
                    keras.Input((8, 8, 3)),
                    kl.ZeroPadding2D(1),
                    kl.Conv2D(4, 3, strides=2),
                    kl.ReLU(),
                    kl.ZeroPadding2D(1),
                    kl.MaxPooling2D(3, 2),
                    kl.Flatten(),
                    kl.Dense(CLASSES),
                ]
            )
        ),
        shape="3x8x8",
    ),
    "norm": Pair(
        torch_side(lambda: maps(eps=1e-3, momentum=0.01)), keras_side(lambda: maps_port(momentum=0.99)), shape="3x8x8"
    ),
}


def shape_of(pair):
    return tuple(int(extent) for extent in pair.shape.split("x"))


def proved(found):
    return {one.name for cause in found.causes if cause.proved for one in cause.differences}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_training_is_named(name):
    pair = MISTAKES[name]
    found = lockstep(pair.a, pair.b, [pair.shape], batches(shape_of(pair)), steps=(1, 2, 4))
    lines = "\n".join(lockstep_lines(found))
    assert set(pair.names) <= proved(found), lines
    assert pair.words in lines, lines
    assert all(cause.then is None for cause in found.causes[-1:] if cause.proved), lines


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_training_is_not_accused(name):
    pair = FAITHFUL[name]
    found = lockstep(pair.a, pair.b, [pair.shape], batches(shape_of(pair)), steps=(1, 2, 4))
    lines = "\n".join(lockstep_lines(found))
    assert proved(found) <= FRAMEWORKS_OWN, lines
    assert all(cause.proved for cause in found.causes), lines


class Steps(BatchSource):
    """Two epochs of two steps; nothing is trained on them."""

    kind, name, classes, fingerprint = "steps", "steps", CLASSES, "steps"
    samples, steps, held_out_samples = 2 * BATCH, 2, BATCH

    def batches(self, epoch, seed):
        raise NotImplementedError

    held_out = description = batches


# Mistakes whose settings one of the two cannot be given, and why.
NOT_GIVEN = {"mixed precision": "is not trained in bfloat16, float32"}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", [name for name, pair in MISTAKES.items() if pair.names])
def test_both_sides_can_be_given_what_the_other_has(name, turned):
    pair = MISTAKES[name]
    sides = (pair.b, pair.a) if turned else (pair.a, pair.b)
    with opened(*sides, [pair.shape], open_=open_trainable_side) as open_pair:
        bench = PortExplanationBench(open_pair, Steps(), Length(2), False, Silent())
        players, fixed = bench.players(2)
    if name in NOT_GIVEN:
        assert any(NOT_GIVEN[name] in why for _, why in fixed), fixed
    else:
        assert set(pair.names) <= {one.name for one in players}, fixed
