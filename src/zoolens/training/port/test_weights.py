"""Weights that move, and the proof that they did."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.training.conftest import SHAPE, jax_net, keras_net, torch_net
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.networks.msgpack_trees import read_tree, write_tree
from zoolens.training.port.weights import move_weights

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
jax = pytest.importorskip("jax")
nn = torch.nn

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def answer(net):
    if isinstance(net, nn.Module):
        with torch.no_grad():
            return net.eval()(torch.from_numpy(IMAGE)).numpy()
    turned = IMAGE.transpose(0, 2, 3, 1)
    return np.asarray(net[0](net[1], turned)) if isinstance(net, tuple) else keras.ops.convert_to_numpy(net(turned))


@pytest.mark.slow
def test_from_torch_to_keras_and_back(tmp_path):
    net, port = torch_net(), keras_net()
    moved = move_weights(net, port, [SHAPE], tmp_path / "port.weights.h5")
    assert moved.written == tmp_path / "port.weights.h5"
    port.load_weights(moved.written)
    np.testing.assert_allclose(answer(port), answer(net), atol=1e-5)
    other = torch_net()
    back = move_weights(port, other, [SHAPE], tmp_path / "net.pt")
    assert back.written is not None
    other.load_state_dict(torch.load(back.written, weights_only=True))
    np.testing.assert_allclose(answer(other), answer(net), atol=1e-5)
    assert not list(tmp_path.glob("part-*"))


def test_from_a_checkpoint_of_each_kind(tmp_path):
    net = torch_net()
    torch.save(net.state_dict(), tmp_path / "net.pt")
    expected = answer(net)
    first = move_weights(torch_net(), jax_net(), [SHAPE], tmp_path / "j.msgpack", checkpoint=tmp_path / "net.pt")
    assert first.written is not None
    second = move_weights(jax_net(), keras_net(), [SHAPE], tmp_path / "k.keras", checkpoint=tmp_path / "j.msgpack")
    assert second.written is not None
    third = move_weights(keras_net(), torch_net(), [SHAPE], tmp_path / "t.safetensors", checkpoint=tmp_path / "k.keras")
    assert third.written is not None
    last = torch_net()
    last.load_state_dict(
        {name: torch.tensor(array) for name, array in read_weights(third.written).items()}, strict=False
    )
    np.testing.assert_allclose(answer(last), expected, atol=1e-5)


def test_nothing_is_written_where_the_answers_differ(tmp_path):
    out, nets = tmp_path / "port.safetensors", (torch_net(eps=0.5), torch_net())
    moved = move_weights(*nets, [SHAPE], out)
    assert moved.written is None
    assert not out.exists()
    assert moved.agreement.first is not None
    assert move_weights(*nets, [SHAPE], out, unproved=True).written == out
    assert out.exists()


def test_what_cannot_be_known_is_asked(tmp_path):
    a = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    b = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    with pytest.raises(ModelError, match="no known counterpart in A") as caught:
        move_weights(a, b, ["4"], tmp_path / "b.pt")
    assert "--map" in str(caught.value)


def test_a_bias_before_a_norm_is_folded_into_its_mean(tmp_path):
    """In evaluation the norm subtracts that much less; the way back gives a bias of 0."""
    with_bias, without = (
        nn.Sequential(nn.Conv2d(3, 4, 3, bias=bias), nn.BatchNorm2d(4), nn.ReLU()) for bias in (True, False)
    )
    moved = move_weights(with_bias, without, ["3x8x8"], tmp_path / "b.pt")
    assert moved.written is not None
    assert [fold.bias.tensor for fold in moved.map.folds] == ["0.bias"]
    without.load_state_dict(torch.load(moved.written, weights_only=True))
    np.testing.assert_allclose(answer(without), answer(with_bias), atol=1e-5)
    back = move_weights(without, with_bias, ["3x8x8"], tmp_path / "a.pt")
    assert back.written is not None
    assert not torch.load(back.written, weights_only=True)["0.bias"].any()


def test_queries_keys_and_values_in_one_layer_or_in_three(tmp_path):
    class Attention(nn.Module):
        def __init__(self, packed):
            super().__init__()
            self.qkv = nn.Linear(8, 24) if packed else None
            self.q, self.k, self.v = (None if packed else nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1) if self.qkv else (self.q(x), self.k(x), self.v(x))
            q, k, v = (each.reshape(1, -1, 2, 4).transpose(1, 2) for each in (q, k, v))
            return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, -1, 8)

    for packed in (True, False):
        moved = move_weights(Attention(packed), Attention(not packed), ["5x8"], tmp_path / "b.pt")
        assert moved.diff.same
        assert moved.written is not None
        assert len(moved.map.moves) == 6


def test_a_map_of_the_users(tmp_path):
    draws = [nn.Linear(4, 4, bias=False) for _ in range(2)]
    with pytest.raises(ModelError, match=r"in several ways .* weight=weight@0,1 or weight=weight@1,0"):
        move_weights(draws[0], draws[1], ["4"], tmp_path / "b.pt", chosen={"weight": "weight"})
    assert move_weights(draws[0], draws[1], ["4"], tmp_path / "b.pt", chosen={"weight": "weight@1,0"}).written is None
    assert move_weights(draws[0], draws[1], ["4"], tmp_path / "b.pt", chosen={"weight": "weight@0,1"}).written
    with pytest.raises(ModelError, match="has no tensor 'wight'"):
        move_weights(draws[0], draws[1], ["4"], tmp_path / "b.pt", chosen={"wight": "weight"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop("0.weight"), "has no 0.weight"),
        (lambda tensors: tensors.update(more=np.zeros(3, np.float32)), "has more, which the network does not have"),
        (lambda tensors: tensors.update({"0.weight": np.zeros((1, 2), np.float32)}), "has the shape"),
    ],
)
def test_a_checkpoint_of_another_network(tmp_path, change, words):
    path = tmp_path / "a.safetensors"
    net = nn.Sequential(nn.Linear(4, 3))
    tensors = {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}
    change(tensors)
    write_weights(path, tensors)
    with pytest.raises(ModelError, match=words):
        move_weights(net, nn.Sequential(nn.Linear(4, 3)), ["4"], tmp_path / "b.pt", checkpoint=path)


def test_formats_that_do_not_fit(tmp_path):
    net = nn.Linear(4, 3)
    for out, words in (("b.bin", "has no known format"), ("b.keras", "has no files that end in .keras")):
        with pytest.raises(ZoolensError, match=words):
            move_weights(net, net, ["4"], tmp_path / out)
    with pytest.raises(ModelError, match="There is no file"):
        move_weights(net, net, ["4"], tmp_path / "b.pt", checkpoint=tmp_path / "none.pt")


def test_trees_of_arrays(tmp_path):
    tree = {"params/conv/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "step": np.array(3)}
    write_tree(tmp_path / "tree.msgpack", tree)
    read = read_tree(tmp_path / "tree.msgpack")
    assert {name: array.tolist() for name, array in read.items()} == {
        name: array.tolist() for name, array in tree.items()
    }
    for content in (b"", b"\x93\x01\x02\x03", b"\x81\xa1a\xc7\x03\x02abc", b"\x81\xa1a\xc7\x05\x01hello"):
        (tmp_path / "bad.msgpack").write_bytes(content)
        with pytest.raises(ModelError, match="is no tree of arrays"):
            read_tree(tmp_path / "bad.msgpack")


class Permuted(nn.Module):
    """A network whose state_dict has whole numbers that decide about its answers."""

    def __init__(self, order):
        super().__init__()
        self.first, self.tied = nn.Linear(4, 4), nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.register_buffer("order", torch.tensor(order))

    def forward(self, x):
        return self.tied(self.first(x)[:, self.order])


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_whole_numbers_of_a_checkpoint_count(tmp_path, suffix):
    """With those that the constructor made, the two networks would answer alike."""
    saved, path = Permuted([3, 2, 1, 0]).state_dict(), tmp_path / f"a{suffix}"
    if suffix == ".pt":
        torch.save(saved, path)
    else:
        saved.pop("first.weight")  # as safetensors has it: one name of a tensor that has two
        write_weights(path, {name: tensor.numpy() for name, tensor in saved.items()})
    pair = Permuted([0, 1, 2, 3]), Permuted([0, 1, 2, 3])
    assert move_weights(*pair, ["4"], tmp_path / "b.pt", checkpoint=path).written is None
    other = Permuted([0, 1, 2, 3]), Permuted([3, 2, 1, 0])
    assert move_weights(*other, ["4"], tmp_path / "b.pt", checkpoint=path).written is not None


def test_a_checkpoint_with_two_numbers_for_one_tensor_is_refused(tmp_path):
    saved = {name: tensor.clone() for name, tensor in Permuted([0, 1, 2, 3]).state_dict().items()}
    saved["tied.weight"] += 1
    torch.save(saved, tmp_path / "a.pt")
    pair = [Permuted([0, 1, 2, 3]) for _ in range(2)]
    with pytest.raises(ModelError, match=r"has other numbers for tied\.weight than for first\.weight"):
        move_weights(*pair, ["4"], tmp_path / "b.pt", checkpoint=tmp_path / "a.pt")


class Unpickled:
    def __reduce__(self):
        return print, ("this must never run",)


def test_checkpoints_that_are_damaged_or_hold_objects_are_refused(tmp_path, capsys):
    net, dense = nn.Linear(4, 3), keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    torch.save({"weight": torch.zeros(3, 4), "bias": Unpickled()}, tmp_path / "objects.pt")
    torch.save({"state_dict": net.state_dict()}, tmp_path / "nested.pt")
    for name in ("cut.pt", "cut.keras", "cut.weights.h5", "cut.safetensors"):
        (tmp_path / name).write_bytes(b"PK" * 20)
    for path in sorted(tmp_path.iterdir()):
        side = net if path.suffix in (".pt", ".safetensors") else dense
        with pytest.raises(ModelError) as caught:
            move_weights(side, nn.Linear(4, 3), ["4"], tmp_path / "out.pt", checkpoint=path)
        assert "weights_only" not in str(caught.value)
        assert "architecture" not in str(caught.value)
    assert "this must never run" not in capsys.readouterr().out
