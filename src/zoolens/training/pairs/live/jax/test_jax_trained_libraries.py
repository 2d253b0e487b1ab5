"""Networks of flax.nnx, Equinox and flax.linen, trained as their libraries train them."""

import numpy as np
import pytest

from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.sides.network_sides import InputShape

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")
linen = pytest.importorskip("flax.linen")
eqx = pytest.importorskip("equinox")
jnp = jax.numpy
SHAPE = InputShape.parse("6")
RATE, KEPT = 0.5, 0.9


def loss(answer, target):
    return optax.softmax_cross_entropy_with_integer_labels(answer, target).mean()


def batches(count=3):
    generator = np.random.default_rng(3)
    return [
        TrainingBatch((generator.standard_normal((8, 6)).astype(np.float32),), generator.integers(0, 4, 8))
        for _ in range(count)
    ]


class NnxNet(nnx.Module):
    def __init__(self, rngs, rate=0.0):
        self.hidden = nnx.Linear(6, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, momentum=KEPT, rngs=rngs)
        self.drop = nnx.Dropout(rate, rngs=rngs)
        self.out = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x):
        return self.out(self.drop(jax.nn.relu(self.norm(self.hidden(x)))))


class EquinoxNet(eqx.Module):
    hidden: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    out: eqx.nn.Linear

    def __init__(self, key, rate=0.0):
        first, second = jax.random.split(key)
        self.hidden, self.out = eqx.nn.Linear(6, 8, key=first), eqx.nn.Linear(8, 4, key=second)
        self.norm = eqx.nn.BatchNorm(8, "batch", momentum=KEPT, mode="ema")
        self.drop = eqx.nn.Dropout(rate)

    def __call__(self, x, state, key=None):
        x, state = self.norm(self.hidden(x), state)
        return self.out(self.drop(jax.nn.relu(x), key=key)), state


class LinenNet(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.BatchNorm(not train, momentum=KEPT)(linen.Dense(8)(x))
        return linen.Dense(4)(linen.relu(x))


def nnx_side(rate=0.0):
    def made():
        net = NnxNet(nnx.Rngs(0), rate)
        return net, nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param), loss

    return made


def equinox_side(rate=0.0):
    def made():
        net, state = eqx.nn.make_with_state(EquinoxNet)(jax.random.key(0), rate)
        return net, state, optax.sgd(0.1), loss

    return made


def linen_side():
    net = LinenNet()
    variables = net.init(jax.random.key(0), jnp.zeros((1, 6)))

    def train_apply(variables, x):
        return net.apply(variables, x, train=True, mutable=["batch_stats"])

    return {"network": (net, variables), "optimizer": optax.sgd(0.1), "loss": loss, "train_apply": train_apply}


def trained(side, seed=0):
    side.begin(seed)
    for batch in batches():
        captured = side.captured_step(batch)
    return captured


@pytest.mark.slow
def test_nnx_is_trained_in_its_training_mode():
    """Beside the library's own loop: parameters by the optimizer, statistics by the module itself."""
    side = open_trainable_side(nnx_side(), [SHAPE], "A")
    captured = trained(side)
    net = NnxNet(nnx.Rngs(0))
    net.train()
    optimizer = nnx.Optimizer(net, optax.sgd(0.1), wrt=nnx.Param)
    for batch in batches():
        gradients = nnx.grad(lambda net, batch=batch: loss(net(batch.inputs[0]), batch.targets))(net)
        optimizer.update(net, gradients)
    tensors = side.tensors()
    assert tensors["hidden/kernel"] == pytest.approx(np.asarray(net.hidden.kernel[...]), abs=1e-6)
    assert tensors["norm/mean"] == pytest.approx(np.asarray(net.norm.mean[...]), abs=1e-6)
    assert {"activation/hidden", "activation/norm", "activation/out", "statistic/norm/var"} <= set(captured)


@pytest.mark.slow
def test_equinox_is_trained_with_its_state():
    side = open_trainable_side(equinox_side(), [SHAPE], "A")
    trained(side)
    net, state = eqx.nn.make_with_state(EquinoxNet)(jax.random.key(0))

    def value(net, state, batch):
        answer, state = jax.vmap(net, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(batch.inputs[0], state)
        return loss(answer, batch.targets), state

    for batch in batches():
        gradients, state = eqx.filter_grad(value, has_aux=True)(net, state, batch)
        net = eqx.apply_updates(net, jax.tree.map(lambda gradient: -0.1 * gradient, gradients))
    tensors = side.tensors()
    assert tensors["0/hidden/weight"] == pytest.approx(np.asarray(net.hidden.weight), abs=1e-6)
    after = {name: array for name, array in tensors.items() if name.startswith("1/")}
    kept = [leaf for leaf in jax.tree.leaves(state) if leaf.dtype == np.float32]
    assert [*after.values()] == [pytest.approx(np.asarray(leaf), abs=1e-6) for leaf in kept]


@pytest.mark.slow
@pytest.mark.parametrize("side", [nnx_side, equinox_side])
def test_dropout_is_drawn_from_the_seed_and_can_be_turned_off(side):
    live = open_trainable_side(side(RATE), [SHAPE], "A")
    assert live.settings()["dropout.rate"] == (RATE,)
    weights = live.tensors()

    def first_loss(seed):
        live.begin(seed, fresh=False)
        live.assign(weights)
        return float(live.captured_step(batches()[0])["loss"])

    assert first_loss(0) == first_loss(0) != first_loss(1)
    live.switch("dropout.rate", (0.0,))
    assert first_loss(0) == first_loss(1)
    assert live.settings()["norm.kept"] == KEPT


@pytest.mark.slow
def test_ports_between_the_libraries_train_alike():
    from zoolens.training.pairs.lockstep.lockstep import lockstep
    from zoolens.training.pairs.lockstep.lockstep_words import lockstep_lines

    found = lockstep(nnx_side(), linen_side, ["6"], batches(4), steps=(1, 2, 4))
    assert found.agree, "\n".join(lockstep_lines(found))
    assert found.layers == 3
