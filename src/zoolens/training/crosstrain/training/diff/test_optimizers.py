"""Update rules are found by stepping: here those of Adam and SGD written down from their definitions."""

import math

import pytest

from zoolens.training.crosstrain.training.diff import optimizers
from zoolens.training.pairs.reading.side_facts import OptimizerFact


class Adam:
    """Kingma and Ba's algorithm 1 ("outside"), or the variant at the end of their section 2 ("inside")."""

    def __init__(self, epsilon, *, inside, weight_decay=0.0, decoupled=False):
        self.epsilon, self.inside, self.decay, self.decoupled = epsilon, inside, weight_decay, decoupled
        self.first = self.second = 0.0
        self.time, self.rate = 0, 1e-3

    def step(self, value, gradient):
        self.time += 1
        if self.decoupled:
            value -= self.rate * self.decay * value
        else:
            gradient += self.decay * value
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        grown, root = 1 - 0.9**self.time, math.sqrt(1 - 0.999**self.time)
        if self.inside:
            return value - self.rate * root / grown * self.first / (math.sqrt(self.second) + self.epsilon)
        return value - self.rate * (self.first / grown) / (math.sqrt(self.second) / root + self.epsilon)

    def set_rate(self, rate):
        self.rate = rate


class Sgd:
    def __init__(self, *, momentum=0.0, learning_rate=1e-2, weight_decay=0.0, nesterov=False, rate_in_velocity):
        self.momentum, self.rate, self.decay, self.inner = momentum, learning_rate, weight_decay, rate_in_velocity
        self.velocity = 0.0

    def step(self, value, gradient):
        gradient += self.decay * value
        self.velocity = self.momentum * self.velocity + (self.rate if self.inner else 1) * gradient
        return value - (1 if self.inner else self.rate) * self.velocity

    def set_rate(self, rate):
        self.rate = rate


class Root:
    """RMSprop, or Adagrad where there is no rho, with momentum as torch or Keras has it."""

    def __init__(self, *, under, inner, rho=None, learning_rate=1e-2, epsilon=1e-7, momentum=0.0,
                 initial_accumulator=0.0, weight_decay=0.0):  # fmt: skip
        self.under, self.inner, self.rho, self.rate, self.epsilon = under, inner, rho, learning_rate, epsilon
        self.momentum, self.squares, self.velocity, self.decay = momentum, initial_accumulator, 0.0, weight_decay

    def step(self, value, gradient):
        gradient += self.decay * value
        kept, new = (1, 1) if self.rho is None else (self.rho, 1 - self.rho)
        self.squares = kept * self.squares + new * gradient**2
        root = math.sqrt(self.squares + self.epsilon) if self.under else math.sqrt(self.squares) + self.epsilon
        self.velocity = self.momentum * self.velocity + (self.rate if self.inner else 1) * gradient / root
        return value - (1 if self.inner else self.rate) * self.velocity

    def set_rate(self, rate):
        self.rate = rate


CONSTANTS = {"learning_rate": 1e-3, "epsilon": 1e-7, "beta1": 0.9, "beta2": 0.999}


def fact(*, inside, decoupled=False):
    def make(name, told):
        return Adam(1e-7, inside=inside, decoupled=decoupled, weight_decay=told.get("weight_decay", 0.0))

    return optimizers.measured("adam", CONSTANTS, make)


def test_epsilon_outside_acts_at_its_own_size_at_every_step():
    found = fact(inside=False)
    assert found.epsilon_acts == pytest.approx(dict.fromkeys(optimizers.STEPS, 1.0), rel=1e-3)
    assert optimizers.rule(found) == optimizers.OUTSIDE


def test_epsilon_inside_acts_31_6_times_larger_at_step_1_and_1_26_at_1000():
    found = fact(inside=True)
    assert found.epsilon_acts == pytest.approx({1: 31.62, 10: 10.02, 100: 3.241, 1000: 1.258}, rel=1e-3)
    assert optimizers.rule(found) == optimizers.INSIDE


def test_an_unknown_rule_is_called_neither():
    strange = OptimizerFact(name="adam", constants=CONSTANTS, epsilon_acts={1: 5.0, 100: 5.0}, weight_decay="")
    assert optimizers.rule(strange) not in (optimizers.INSIDE, optimizers.OUTSIDE)


def test_weight_decay_is_told_apart():
    assert fact(inside=False).weight_decay == "added to the gradient"
    assert fact(inside=False, decoupled=True).weight_decay == "decoupled from the gradient"


@pytest.mark.parametrize(("inner", "words"), [(True, "keeps the old rate"), (False, "follows the new rate at once")])
def test_momentum_after_a_change_of_rate(inner, words):
    found = optimizers.measured("sgd", {"learning_rate": 1e-2}, lambda _, told: Sgd(rate_in_velocity=inner, **told))
    assert found.momentum == words
    assert found.weight_decay == "added to the gradient"


@pytest.mark.parametrize(("under", "words"), [(True, optimizers.UNDER), (False, optimizers.BESIDE)])
@pytest.mark.parametrize(("name", "rho"), [("rmsprop", 0.9), ("rmsprop", 0.99), ("adagrad", None)])
def test_epsilon_of_rmsprop_and_adagrad_is_placed(name, rho, under, words):
    """Whatever the sum of squares begins with by default: at 0.1 nothing could be seen of epsilon."""

    def make(_, told):
        start = {"initial_accumulator": 0.1} if name == "adagrad" else {}
        return Root(under=under, inner=under, rho=rho, **{**start, **told})

    found = optimizers.measured(name, {"learning_rate": 1e-2, "epsilon": 1e-7, "rho": rho or 0.0}, make)
    assert found.epsilon == words
    assert found.weight_decay == "added to the gradient"
    if name == "rmsprop":
        assert found.momentum == ("keeps the old rate" if under else "follows the new rate at once")


def test_an_epsilon_in_neither_place_is_called_neither():
    class Strange(Root):
        def step(self, value, gradient):
            return value - self.rate * gradient / max(abs(gradient), 10 * self.epsilon) ** 2

    strange = optimizers.root_epsilon(
        "adagrad", {"learning_rate": 1.0}, lambda _, told: Strange(under=0, inner=0, **told)
    )
    assert strange == optimizers.UNKNOWN


def test_a_decay_that_the_rate_does_not_scale_is_told_apart():
    class Independent(Sgd):
        def step(self, value, gradient):
            return value * (1 - self.decay) - self.rate * gradient

    found = optimizers.weight_decay("sgd", 1e-2, lambda _, told: Independent(rate_in_velocity=False, **told))
    assert found == "decoupled from the gradient and from the learning rate"


def test_nesterov_is_what_its_first_two_steps_are():
    class Nesterov(Sgd):
        def __init__(self, nesterov, twice, **told):
            super().__init__(rate_in_velocity=False, **told)
            self.twice = twice

        def step(self, value, gradient):
            self.velocity = self.momentum * self.velocity + gradient
            return value - self.rate * (gradient + self.momentum * self.velocity if self.twice else self.velocity)

    assert optimizers.nesterov(lambda _, told: Nesterov(twice=True, **told)) == optimizers.NESTEROV
    assert optimizers.nesterov(lambda _, told: Nesterov(twice=False, **told)) == "1 times the gradient, then 0.9 times"
