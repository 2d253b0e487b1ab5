"""Update rules are found by stepping: here those of Adam and SGD written down from their definitions."""

import math

import pytest

from zoolens.crosstrain.training.diff import optimizers
from zoolens.crosstrain.training.diff.facts import OptimizerFact


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
    def __init__(self, *, momentum=0.0, learning_rate=1e-2, weight_decay=0.0, rate_in_velocity):
        self.momentum, self.rate, self.decay, self.inner = momentum, learning_rate, weight_decay, rate_in_velocity
        self.velocity = 0.0

    def step(self, value, gradient):
        gradient += self.decay * value
        self.velocity = self.momentum * self.velocity + (self.rate if self.inner else 1) * gradient
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
