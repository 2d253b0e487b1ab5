"""Seeded mistakes of trainings whose port is a JAX function with optax, and faithful ones: what cannot be read from
functions is measured, so that each mistake is named, and no faithful training is accused."""

import numpy as np
import pytest

from zoolens.training.pairs.lockstep.lockstep import lockstep
from zoolens.training.pairs.lockstep.lockstep_words import lockstep_lines
from zoolens.training.port.training.test_training_mistakes import Pair, adam, batches, proved, sgd, shape_of, torch_side

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
jnp = jax.numpy
pytestmark = pytest.mark.slow


def cross_entropy(answers, targets):
    return optax.softmax_cross_entropy_with_integer_labels(answers, targets).mean()


def perceptron(parameters, x):
    hidden = jax.nn.relu(x @ parameters["first"]["kernel"] + parameters["first"]["bias"])
    return hidden @ parameters["second"]["kernel"] + parameters["second"]["bias"]


def jax_side(optimizer=None, loss=cross_entropy):
    """A function that a user would write."""

    def layer(generator, inputs, outputs):
        kernel = generator.normal(size=(inputs, outputs)) / np.sqrt(inputs)
        return {"kernel": jnp.asarray(kernel, jnp.float32), "bias": jnp.zeros(outputs)}

    def made():
        generator = np.random.default_rng(0)
        parameters = {"first": layer(generator, 6, 8), "second": layer(generator, 8, 4)}
        return perceptron, parameters, optimizer or optax.sgd(0.1), loss

    return made


MISTAKES = {
    "momentum forgotten": Pair(torch_side(optimizer=sgd(momentum=0.9)), jax_side(), ("optimizer.momentum",)),
    "Adam's epsilon": Pair(
        torch_side(optimizer=adam(eps=1e-3)), jax_side(optax.adam(0.01, eps=1e-8)), ("optimizer.epsilon",)
    ),
    "decoupled weight decay": Pair(
        torch_side(optimizer=adam(weight_decay=0.1)),
        jax_side(optax.adamw(0.01, weight_decay=0.1)),
        ("optimizer.decay_kind",),
    ),
    "learning rate": Pair(torch_side(), jax_side(optax.sgd(0.01)), ("optimizer.learning_rate",)),
    "sum for mean": Pair(
        torch_side(),
        jax_side(loss=lambda a, t: optax.softmax_cross_entropy_with_integer_labels(a, t).sum()),
        ("loss.reduction",),
    ),
    "softmax twice": Pair(
        torch_side(), jax_side(loss=lambda a, t: cross_entropy(jax.nn.softmax(a), t)), ("loss.name",)
    ),
    "clipping forgotten": Pair(torch_side(clip_norm=0.05), jax_side(), ("clip.norm",)),
    "schedule that only one side has": Pair(
        torch_side(), jax_side(optax.sgd(optax.exponential_decay(0.1, 1, 0.5))), ("schedule.rates",)
    ),
    "SGD for Adam": Pair(torch_side(optimizer=adam()), jax_side(optax.sgd(0.01, 0.9)), ("optimizer.rule",)),
}

FAITHFUL = {
    "SGD": Pair(torch_side(), jax_side()),
    "momentum": Pair(torch_side(optimizer=sgd(momentum=0.9)), jax_side(optax.sgd(0.1, momentum=0.9))),
    "Adam": Pair(torch_side(optimizer=adam()), jax_side(optax.adam(0.01))),
    "global clip": Pair(
        torch_side(clip_norm=0.05), jax_side(optax.chain(optax.clip_by_global_norm(0.05), optax.sgd(0.1)))
    ),
}


def followed(pair):
    found = lockstep(pair.a, pair.b, [pair.shape], batches(shape_of(pair)), steps=(1, 2, 4))
    return found, "\n".join(lockstep_lines(found))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_training_is_named(name):
    found, lines = followed(MISTAKES[name])
    assert set(MISTAKES[name].names) <= proved(found), lines


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_training_is_not_accused(name):
    found, lines = followed(FAITHFUL[name])
    assert not found.causes, lines
    assert "layers among them" in lines
