"""Training of JAX functions: a loop by hand beside it, Flax' collections, and what is missing."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.sources import ArraySource
from zoolens.training.pairs.loop.single_run import Length, train_once
from zoolens.training.pairs.loop.trainable_sides import open_trainable_side
from zoolens.training.pairs.sides.network_sides import InputShape

jax = pytest.importorskip("jax")
jnp = jax.numpy
SHAPE = InputShape.parse("1x28x28")


class Momentum:
    """What optax.sgd(0.1, momentum=0.9) does, with its names."""

    class State(tuple):
        @property
        def trace(self):
            return self[0]

    def init(self, parameters):
        return self.State((jax.tree.map(jnp.zeros_like, parameters),))

    def update(self, gradients, state, parameters):
        trace = jax.tree.map(lambda old, new: 0.9 * old + new, state[0], gradients)
        return jax.tree.map(lambda move: -0.1 * move, trace), self.State((trace,))


jax.tree_util.register_pytree_node(
    Momentum.State, lambda state: (tuple(state), None), lambda _, parts: Momentum.State(parts)
)


def loss(answer, target):
    return -jnp.take_along_axis(jax.nn.log_softmax(answer), target[:, None], 1).mean()


def made(seed=0):
    drawn = np.random.default_rng(seed).normal(size=(784, 10)).astype(np.float32) / 28

    def apply(tree, x):
        return x.reshape(len(x), -1) @ tree["dense"]["kernel"] + tree["dense"]["bias"]

    return apply, {"dense": {"kernel": jnp.asarray(drawn), "bias": jnp.zeros(10)}}, Momentum(), loss


@pytest.fixture(scope="module")
def source():
    return ArraySource.of_dataset("demo", SHAPE, 40, "none", (120, 50))


def test_a_step_is_that_of_a_loop_by_hand(source):
    side = open_trainable_side(made, [SHAPE], "A")
    run = train_once(side, source, 0, Length(2))
    apply, tree, optimizer, _ = made()
    state, losses = optimizer.init(tree), []
    for epoch in (1, 2):
        for batch in source.batches(epoch, 0):
            x, y = batch.inputs[0].transpose(0, 2, 3, 1), batch.targets
            value, gradients = jax.value_and_grad(lambda tree, x=x, y=y: loss(apply(tree, x), y))(tree)
            moves, state = optimizer.update(gradients, state, tree)
            tree = jax.tree.map(jnp.add, tree, moves)
            losses.append(float(value))
    assert run.losses == pytest.approx((np.mean(losses[:3]), np.mean(losses[3:])), rel=1e-5)
    assert np.allclose(side.tensors()["dense/kernel"], tree["dense"]["kernel"], atol=1e-6)
    told = {"rule": "sgd", "learning_rate": 0.1, "momentum": 0.9, "decay_kind": "none", "trained": 7850}
    assert {f"optimizer.{name}": value for name, value in told.items()}.items() <= side.settings().items()
    loss_told = {"name": "cross-entropy", "reduction": "mean", "smoothing": 0.0, "from_logits": True}
    assert {f"loss.{name}": value for name, value in loss_told.items()}.items() <= side.settings().items()
    captured = side.captured_step(next(source.batches(1, 0)))
    assert captured["activation/dense"] == pytest.approx(captured["output/0"])
    assert {"loss", "output/0", "gradient/dense/bias", "first/dense/kernel", "tensor/dense/bias"} <= set(captured)


def flax_like():
    """Variables in two collections, of which the function in training mode returns the second anew."""

    def apply(tree, x):
        return (x.reshape(len(x), -1) @ tree["params"]["kernel"]) - tree["statistics"]["mean"]

    def train_apply(tree, x, key):
        answer = x.reshape(len(x), -1) @ tree["params"]["kernel"]
        noise = 0 * jax.random.normal(key, answer.shape)
        return answer + noise, {"statistics": {"mean": tree["statistics"]["mean"] + 1}}

    variables = {"params": {"kernel": jnp.zeros((784, 10))}, "statistics": {"mean": jnp.zeros(10)}}
    return {"network": (apply, variables), "optimizer": Momentum(), "loss": loss, "train_apply": train_apply}


def test_collections_of_flax(source):
    """Only parameters are trained; statistics come from train_apply, or stay as they are."""
    side = open_trainable_side(flax_like, [SHAPE], "A")
    train_once(side, source, 0, Length(1))
    assert side.tensors()["statistics/mean"] == pytest.approx(3)
    assert side.network.statistics == "own updates"
    without = open_trainable_side(lambda: {**flax_like(), "train_apply": None}, [SHAPE], "A")
    train_once(without, source, 0, Length(1))
    assert not without.tensors()["statistics/mean"].any()
    assert without.tensors()["params/kernel"].any()
    assert without.network.statistics == "kept"


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (lambda: made()[:2], "no optimizer"),
        (lambda: made()[:3], "no loss"),
        (lambda: {**flax_like(), "clip_norm": 1.0}, "clip_norm stands beside"),
        (lambda: {**flax_like(), "loss": lambda answer, _: answer.sum(1)}, "not one number"),
        (lambda: {**flax_like(), "train_apply": lambda tree, x: x}, "no pair"),
    ],
)
def test_what_cannot_be_trained_is_said(objects, words, source):
    with pytest.raises(ModelError, match=words):
        train_once(open_trainable_side(objects, [SHAPE], "A"), source, 0, Length(1))


@pytest.mark.slow
def test_optax_is_measured_and_switched(source):
    """What the stand-in of an optimizer does with one constant changed is what optax does with it."""
    optax = pytest.importorskip("optax")

    def adamw(rate, epsilon):
        schedule = optax.exponential_decay(rate, 2, 0.5)
        return optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(schedule, eps=epsilon, weight_decay=0.1))

    sides = [
        open_trainable_side(lambda rate=rate, epsilon=epsilon: (*made()[:2], adamw(rate, epsilon), loss), [SHAPE], "A")
        for rate, epsilon in ((0.01, 1e-3), (0.02, 1e-8))
    ]
    told = sides[1].settings()
    assert told["optimizer.epsilon"] == 1e-8
    assert (told["optimizer.decay_kind"], told["optimizer.weight_decay"]) == ("decoupled", 0.1)
    assert (told["clip.norm"], told["schedule.unit"]) == (0.5, "step")
    assert sides[1].rates([9, 8]) == pytest.approx([0.02 * 0.5 ** (step / 2) for step in range(17)], rel=1e-5)
    for name, value in (("optimizer.epsilon", 1e-3), ("optimizer.learning_rate", 0.01)):
        sides[1].switch(name, value)
    runs = [train_once(side, source, 0, Length(2), fresh=False) for side in sides]
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-5)
    assert np.allclose(sides[0].tensors()["dense/kernel"], sides[1].tensors()["dense/kernel"], atol=1e-6)


def test_a_weight_decay_that_spares_the_first_tensor_is_told_with_its_size():
    optax = pytest.importorskip("optax")
    decay = optax.adamw(0.01, weight_decay=0.1, mask={"dense": {"kernel": True, "bias": False}})
    side = open_trainable_side(lambda: (*made()[:2], decay, loss), [SHAPE], "A")
    told = side.settings()
    assert (told["optimizer.decay_kind"], told["optimizer.weight_decay"]) == ("decoupled", 0.1)
    assert told["optimizer.varied"] == "weight decay 0.1 for 7,840 numbers, 0 for 10 numbers"
    side.switch("optimizer.weight_decay", 0.2)
    assert side.settings()["optimizer.varied"] == "weight decay 0.2 for 7,840 numbers, 0 for 10 numbers"
