"""Networks that are written with Flax (linen and nnx) and Equinox, against their torch originals: they are the same
network, and weights move into and out of the files that Flax itself writes."""

import numpy as np
import pytest

from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_lines
from zoolens.training.port.weights import move_weights

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
linen = pytest.importorskip("flax.linen")
nnx = pytest.importorskip("flax.nnx")
eqx = pytest.importorskip("equinox")
serialization = pytest.importorskip("flax.serialization")
nn, jnp = torch.nn, jax.numpy
pytestmark = pytest.mark.slow
SHAPE = "3x8x8"
IMAGE = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def torch_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(5, 2))  # fmt: skip


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Conv(4, (3, 3), padding="VALID")(x))
        x = linen.Conv(5, (3, 3), padding="VALID")(x).mean((1, 2))
        return linen.Dense(2)(x)


def linen_net():
    network = Linen()
    return network.apply, network.init(jax.random.key(1), jnp.zeros((1, 8, 8, 3)))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(3, 4, (3, 3), padding="VALID", rngs=rngs)
        self.second = nnx.Conv(4, 5, (3, 3), padding="VALID", rngs=rngs)
        self.out = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.second(nnx.relu(self.first(x))).mean((1, 2)))


class Equinox(eqx.Module):
    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    out: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.first, self.second = eqx.nn.Conv2d(3, 4, 3, key=keys[0]), eqx.nn.Conv2d(4, 5, 3, key=keys[1])
        self.out = eqx.nn.Linear(5, 2, key=keys[2])

    def __call__(self, x):
        return self.out(self.second(jax.nn.relu(self.first(x))).mean((1, 2)))


PORTS = {"linen": linen_net, "nnx": lambda: Nnx(nnx.Rngs(1)), "equinox": lambda: Equinox(jax.random.key(1))}


@pytest.mark.parametrize("library", PORTS)
def test_it_is_the_same_network(library):
    found = check(torch_net(), PORTS[library](), [SHAPE])
    assert found.same, "\n".join(check_lines(found))
    assert len(found.map.moves) == 6


def test_weights_move_into_a_file_that_flax_reads_and_out_of_one_that_it_wrote(tmp_path):
    net = torch_net()
    with torch.no_grad():
        expected = net(torch.from_numpy(IMAGE)).numpy()
    moved = move_weights(net, linen_net(), [SHAPE], tmp_path / "port.msgpack")
    assert moved.written is not None
    function, fresh = linen_net()
    read = serialization.from_bytes(fresh, moved.written.read_bytes())
    np.testing.assert_allclose(function(read, IMAGE.transpose(0, 2, 3, 1)), expected, atol=1e-5)
    (tmp_path / "flax.msgpack").write_bytes(serialization.to_bytes(read))
    back = move_weights(linen_net(), torch_net(), [SHAPE], tmp_path / "back.pt", checkpoint=tmp_path / "flax.msgpack")
    assert back.written is not None
    last = torch_net()
    last.load_state_dict(torch.load(back.written, weights_only=True))
    with torch.no_grad():
        np.testing.assert_allclose(last(torch.from_numpy(IMAGE)).numpy(), expected, atol=1e-5)


def test_equinox_has_the_channels_of_images_first():
    """Of a map with as many channels as rows, no shape tells it."""
    plain = nn.Sequential(nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    port = eqx.nn.Sequential([
        eqx.nn.Conv2d(8, 4, 3, key=jax.random.key(0)), eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(144, 2, key=jax.random.key(1)),
    ])  # fmt: skip
    found = check(plain, port, ["8x8x8"])
    assert found.same, "\n".join(check_lines(found))
    assert "it was given them first" in found.notes[0]


def test_numbers_of_a_generator_are_no_values_of_layers():
    def net(seed):
        return lambda w, x: x @ w + jax.random.normal(jax.random.key(seed), (3,)), jnp.ones((4, 3))

    found = check(net(1), net(2), ["4"])
    assert found.agreement.agree is False
    assert "are given what could not be compared" in "\n".join(check_lines(found))


def test_whole_numbers_of_a_tree_are_in_its_file(tmp_path):
    """Flax refuses a file that lacks one of the target's arrays; and they decide about the answers."""

    def net(order):
        tree = {"w": jax.random.normal(jax.random.key(0), (4, 4)), "order": jnp.array(order)}
        return lambda given, x: (x @ given["w"])[:, given["order"]], tree

    turned, straight = net([3, 2, 1, 0]), net([0, 1, 2, 3])
    moved = move_weights(turned, net([3, 2, 1, 0]), ["4"], tmp_path / "b.msgpack")
    assert moved.written is not None
    read = serialization.from_bytes(turned[1], moved.written.read_bytes())
    assert read["order"].tolist() == [3, 2, 1, 0]
    assert move_weights(straight, straight, ["4"], tmp_path / "c.msgpack").written is not None
    other = move_weights(straight, net([0, 1, 2, 3]), ["4"], tmp_path / "d.msgpack", checkpoint=moved.written)
    assert other.written is None
