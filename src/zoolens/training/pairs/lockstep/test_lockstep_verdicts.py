"""What a lockstep says where it cannot tell, and of pairs of torch and Keras that are faithful."""

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.differences import differences
from zoolens.training.pairs.lockstep.lockstep import lockstep
from zoolens.training.pairs.lockstep.lockstep_words import lockstep_data, lockstep_lines

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
nn = torch.nn
SHAPE = ["1x3x3"]


def batches(count=3):
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal
    return [TrainingBatch((drawn((6, 1, 3, 3)).astype(np.float32),), generator.integers(0, 2, 6)) for _ in range(count)]


def torch_side(factor=None, *, norm=False, drop=None, loss=None, rule=torch.optim.SGD, rate=0.1, **options):
    def made():
        layers = [nn.Conv2d(1, 2, 2), *([nn.BatchNorm2d(2)] if norm else []), nn.ReLU(), nn.Flatten()]
        net = nn.Sequential(*layers, *([nn.Dropout(drop)] if drop is not None else []), nn.Linear(8, 2))
        optimizer = rule(net.parameters(), lr=rate, **options)
        objects = {"network": net, "optimizer": optimizer, "loss": loss or nn.CrossEntropyLoss()}
        if factor is not None:
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
            objects |= {"scheduler": scheduler, "scheduler_unit": "step"}
        return objects

    return made


class OwnSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A class of the user's, which Keras cannot make from its configuration."""

    def __init__(self, rate, factor):
        self.rate, self.factor = rate, factor

    def __call__(self, step):
        return self.rate * self.factor(keras.ops.cast(step, "float32"))

    def get_config(self):
        return {}


def keras_side(factor=None, *, norm=False, rule=keras.optimizers.SGD, rate=0.1, **options):
    def made():
        given = inputs = keras.Input((3, 3, 1))
        x = keras.layers.Conv2D(2, 2)(given)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x) if norm else x
        x = keras.layers.Dense(2)(keras.layers.Flatten()(keras.layers.ReLU()(x)))
        model = keras.Model(inputs, x)
        optimizer = rule(rate if factor is None else OwnSchedule(rate, factor), **options)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    return made


def run(a, b, steps=(1, 2, 3)):
    return lockstep(a, b, SHAPE, batches(max(steps)), steps=steps)


def test_a_learning_rate_of_zero_leaves_the_update_unjudged():
    found = run(torch_side(rate=0.0, momentum=0.9), keras_side(rate=0.0, momentum=0.9), steps=(1,))
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "no tensor changes by more than rounding" in "\n".join(lockstep_lines(found))
    data = lockstep_data(found)
    assert data["outcome"] == "not known"
    assert data["coverage"]["understood"]["tensors"] == {"understood": 4, "total": 4, "share": 1.0}


@pytest.mark.parametrize("turned", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("factor", "options"),
    [
        pytest.param(lambda step: 0.5**step, {}, id="decay", marks=pytest.mark.slow),
        pytest.param(lambda step: 0.5 * step, {"nesterov": True}, id="warm-up from 0"),
    ],
)
def test_momentum_that_keeps_past_rates_is_proved(factor, options, turned):
    sides = [make(factor, momentum=0.9, **options) for make in (torch_side, keras_side)]
    found = run(*(reversed(sides) if turned else sides))
    assert [[one.name for one in cause.differences] for cause in found.causes] == [["optimizer.momentum_rate"]]
    assert found.causes[0].proved
    assert found.causes[0].then is None
    assert "that of the step at which each gradient came" in "\n".join(lockstep_lines(found))


def test_momentum_at_one_rate_is_no_difference():
    assert run(torch_side(momentum=0.9), keras_side(momentum=0.9)).agree


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_past_rates_and_the_place_of_epsilon_under_a_schedule(turned):
    """A scheduler keeps the step of the class that an optimizer had, so that a changed class must replace it."""
    options = {"momentum": 0.9, "rate": 0.01}
    sides = [
        torch_side(lambda step: 0.5**step, rule=torch.optim.RMSprop, alpha=0.9, eps=1e-7, **options),
        keras_side(lambda step: 0.5**step, rule=keras.optimizers.RMSprop, **options),
    ]
    found = run(*(reversed(sides) if turned else sides))
    assert {one.name for cause in found.causes for one in cause.differences} == {
        "optimizer.epsilon_place",
        "optimizer.momentum_rate",
    }
    assert all(cause.proved for cause in found.causes)


@pytest.mark.parametrize("turned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_faithful_pair_with_a_batch_norm_trains_alike(turned):
    sides = [torch_side(norm=True), keras_side(norm=True)]
    found = run(*(reversed(sides) if turned else sides))
    assert [one.name for cause in found.causes for one in cause.differences] == ["norm.divisor"]
    assert found.agree
    assert "each framework fixes it" in "\n".join(lockstep_lines(found)).replace("\n", " ")


@pytest.mark.slow
def test_a_norm_whose_layers_cannot_be_read_is_tried_on_the_other_side():
    jax, linen, optax = (pytest.importorskip(name) for name in ("jax", "flax.linen", "optax"))

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x, train=False):
            x = linen.Conv(2, (2, 2), padding="VALID")(x)
            x = linen.BatchNorm(use_running_average=not train, momentum=0.9, epsilon=1e-5)(x)
            return linen.Dense(2)(linen.relu(x).reshape((x.shape[0], -1)))

    def made():
        net = Net()

        def train_apply(variables, x):
            answer, changed = net.apply(variables, x, train=True, mutable=["batch_stats"])
            return answer, dict(changed)

        def loss(answers, targets):
            return optax.softmax_cross_entropy_with_integer_labels(answers, targets).mean()

        variables = net.init(jax.random.PRNGKey(0), np.zeros((1, 3, 3, 1), np.float32))
        return {"network": (net, variables), "optimizer": optax.sgd(0.1), "train_apply": train_apply, "loss": loss}

    found = run(torch_side(norm=True), made, steps=(1, 2))
    assert [(one.name, one.a, one.b) for cause in found.causes for one in cause.differences] == [
        ("norm.divisor", "n - 1", "n")
    ]
    assert found.causes[0].switched_on == "A"
    assert found.agree, "\n".join(lockstep_lines(found))
    assert "none in B" not in "\n".join(lockstep_lines(found))


def test_layers_of_a_function_are_not_known_instead_of_none():
    listed = {one.name: one.b for one in differences({"norm.kept": 0.9, "dropout.rate": (0.5,)}, {"jax.layers": None})}
    assert listed == {"norm.kept": None, "dropout.rate": None}


def test_dropout_that_drops_nothing_is_none():
    assert differences({"dropout.rate": (0.0,)}, {}) == ()
    assert [one.name for one in differences({"dropout.rate": (0.0, 0.5)}, {"dropout.rate": (0.2,)})] == ["dropout.rate"]


def test_dropout_of_one_side_was_turned_off_and_not_judged():
    found = run(torch_side(drop=0.5), torch_side(), steps=(1,))
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert [gap.what for gap in found.coverage.gaps] == [
        "dropout, which was turned off: the rate of dropout is 0.5 in A and none in B"
    ]


def test_a_setting_that_has_no_effect_yet_leaves_it_open():
    """The first step of Adam is the same for every beta2, as its correction has it."""
    options = {"rule": torch.optim.Adam}
    found = run(torch_side(**options), torch_side(**options, betas=(0.9, 0.9)), steps=(1,))
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "beta2" in found.coverage.text
    assert "changes no weight in these steps" in "\n".join(lockstep_lines(found))
    clipped = run(torch_side(), lambda: {**torch_side()(), "clip_norm": 1e9}, steps=(1,))
    assert clipped.verdict.outcome is Outcome.NOT_KNOWN
    assert "without an effect in these steps" in clipped.coverage.text


def test_what_a_loss_of_ones_own_has_is_not_known_instead_of_none():
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
    found = run(torch_side(loss=weighted), torch_side(loss=lambda a, t: nn.functional.cross_entropy(a, t)), steps=(1,))
    lines = "\n".join(lockstep_lines(found))
    assert "none in B" not in lines
    assert "the weighting of classes in the loss" in lines


def torch_lstm(learned=True):
    """`learned`: whether the second bias of each gate is."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.LSTM(3, 2, batch_first=True), nn.Linear(2, 2)
            self.layer.bias_hh_l0.requires_grad_(learned)

        def forward(self, x):
            return self.head(self.layer(x)[0][:, -1])

    def made():
        net = Net()
        return {"network": net, "optimizer": torch.optim.SGD(net.parameters(), 0.1), "loss": nn.CrossEntropyLoss()}

    return made


def keras_lstm():
    model = keras.Sequential([keras.Input((4, 3)), keras.layers.LSTM(2), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def follow_sequences(a, b):
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal
    given = [TrainingBatch((drawn((6, 4, 3)).astype(np.float32),), generator.integers(0, 2, 6)) for _ in range(2)]
    return lockstep(a, b, ["4x3"], given, steps=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_two_biases_that_add_up_learn_twice_as_fast(turned):
    sides = [torch_lstm(), lambda: keras_lstm()]
    found = follow_sequences(*(reversed(sides) if turned else sides))
    numbers = (1, 2) if turned else (2, 1)
    assert [(one.name, one.a, one.b) for cause in found.causes for one in cause.differences] == [
        ("recurrent.biases", *numbers)
    ]
    assert found.causes[0].proved
    assert found.causes[0].then is None
    assert found.coverage.whole
    assert found.verdict.outcome is Outcome.DIFFERENT  # the weights of the two do part
    assert "bias_hh" in "\n".join(lockstep_lines(found))


@pytest.mark.parametrize("turned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_second_bias_that_is_not_learned_is_no_difference(turned):
    sides = [torch_lstm(learned=False), lambda: keras_lstm()]
    found = follow_sequences(*(reversed(sides) if turned else sides))
    assert found.agree, "\n".join(lockstep_lines(found))
