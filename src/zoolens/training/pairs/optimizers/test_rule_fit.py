"""Rules that are found by probing: optimizers written out by hand, which the fit must name, or refuse."""

import numpy as np
import pytest

from zoolens.training.pairs.optimizers.rule_fit import fitted
from zoolens.training.pairs.optimizers.rule_probe import NotFitted
from zoolens.training.pairs.optimizers.update_rules import Clipping, UpdateRule

SHAPES = [(2, 2), (2,), ()]


class Hand:
    """A Prober over a function of one tensor: (gradient, value, memory of the tensor, step) -> move."""

    shapes = SHAPES

    def __init__(self, step, clip=lambda gradients: gradients):
        self.step, self.clip = step, clip

    def run(self, gradients, values):
        memory, found = [{} for _ in SHAPES], []
        for number, (several, at) in enumerate(zip(gradients, values, strict=True), 1):
            given = zip(self.clip(several), at, memory, range(len(SHAPES)), strict=True)
            found.append([self.step(g, p, kept, number, leaf) for g, p, kept, leaf in given])
        return found


def momentum(g, p, kept, step, leaf):
    kept["v"] = 0.9 * kept.get("v", 0) + (g + 0.01 * p)
    return -0.1 * kept["v"]


def keras_adam(g, p, kept, step, leaf):
    """Its epsilon stands beside the uncorrected root; the first tensor alone is decayed."""
    kept["m"] = 0.9 * kept.get("m", 0) + 0.1 * g
    kept["v"] = 0.999 * kept.get("v", 0) + 0.001 * g * g
    rate = 0.002 * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)
    return -rate * kept["m"] / (np.sqrt(kept["v"]) + 1e-7) - 0.002 * (0.1 if leaf == 0 else 0) * p


def warmed_rmsprop(g, p, kept, step, leaf):
    kept["v"] = 0.95 * kept.get("v", 0) + 0.05 * g * g
    return -0.001 * step * g / (np.sqrt(kept["v"]) + 1e-8)


def normalised(g, p, kept, step, leaf):
    return -0.1 * g / max(np.sqrt((g * g).sum()), 1e-30)


def adam_of_largest(g, p, kept, step, leaf):
    kept["m"] = 0.9 * kept.get("m", 0) + 0.1 * g
    kept["v"] = 0.99 * kept.get("v", 0) + 0.01 * g * g
    kept["most"] = np.maximum(kept.get("most", 0), kept["v"] / (1 - 0.99**step))
    return -0.01 * kept["m"] / (1 - 0.9**step) / (np.sqrt(kept["most"]) + 1e-8)


def shortened(gradients):
    norm = np.sqrt(sum((g * g).sum() for g in gradients))
    return [g * min(1, 0.5 / max(norm, 1e-30)) for g in gradients]


def test_momentum_with_coupled_decay_behind_a_clipped_norm():
    found = fitted(Hand(momentum, shortened))
    rule = UpdateRule("sgd", 0.1, momentum=0.9, weight_decay=0.01, decay_kind="coupled")
    assert found.rules == (rule,) * 3
    assert found.clipping == Clipping(norm=0.5)
    assert found.rates == (0.1,) * 8


def test_rules_of_tensors_may_differ():
    decayed, bare, _ = fitted(Hand(keras_adam)).rules
    assert (decayed.name, decayed.epsilon_place, decayed.decay_kind) == ("adam", "inside", "decoupled")
    assert decayed.epsilon == pytest.approx(1e-7, rel=1e-4)
    assert (decayed.beta1, decayed.beta2, decayed.weight_decay) == pytest.approx((0.9, 0.999, 0.1))
    assert (bare.decay_kind, bare.learning_rate) == ("none", pytest.approx(0.002))


def test_a_schedule_is_seen_beside_the_rule():
    found = fitted(Hand(warmed_rmsprop))
    assert (found.rules[0].name, found.rules[0].rho) == ("rmsprop", pytest.approx(0.95))
    assert found.rates[:3] == pytest.approx((0.001, 0.002, 0.003))


@pytest.mark.parametrize("step", [normalised, adam_of_largest])
def test_a_rule_that_is_not_known_is_not_guessed(step):
    with pytest.raises(NotFitted, match="no known rule predicts"):
        fitted(Hand(step))
