"""Ports that are faithful, and ports with one mistake each: every mistake is named, and nothing else."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff import diff_causes
from zoolens.training.conftest import SHAPE, jax_net, keras_net, torch_net
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_data, check_lines

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
jax = pytest.importorskip("jax")
nn = torch.nn


def told(found):
    return {difference.cause for difference in found.diff.differences}


@pytest.mark.parametrize("b", [keras_net, jax_net])
def test_a_faithful_port_is_the_same_network(b):
    found = check(torch_net(), b(), [SHAPE])
    assert found.diff.same
    assert found.agreement.agree is True
    assert found.map.lossless
    assert found.same, "\n".join(check_lines(found))


def test_the_map_has_every_tensor_and_how_it_turns():
    found = check(torch_net(), keras_net(), [SHAPE])
    ways = {move.a.tensor: move.how for move in found.map.moves}
    assert ways["0.weight"] == "axes (2, 3, 1, 0)"
    assert ways["3.weight"] == "axes (2, 3, 0, 1)"
    assert ways["1.running_var"] == "as it is"
    assert ways["7.weight"] == "transposed, its inputs from the order CHW to HWC"
    assert ways["9.weight"] == "axes (1, 0)"
    assert len(ways) == 11
    assert found.map.unused == ((), ())


def test_the_way_back_is_the_same_map():
    there = check(torch_net(), keras_net(), [SHAPE]).map
    draw = np.random.default_rng(0).standard_normal
    tensors = {move.a.tensor: draw(move.a.shape) for move in there.moves}
    into = {move.b.tensor: np.zeros(move.b.shape) for move in there.moves}
    back = there.reversed().moved(
        there.moved(tensors, into), {name: np.zeros(array.shape) for name, array in tensors.items()}
    )
    assert all(np.array_equal(back[name], array) for name, array in tensors.items())


@pytest.mark.parametrize(
    ("a", "b", "cause", "op"),
    [
        ({}, {"eps": 1e-5}, diff_causes.EPSILON, "conv with its norm"),
        ({}, {"same": True}, diff_causes.PADDING, "conv"),
        (
            {"act": nn.GELU},
            {"act": lambda x: keras.activations.gelu(x, approximate=True)},
            diff_causes.CONSTANT,
            "gelu",
        ),
        pytest.param({"act": nn.ReLU6}, {}, diff_causes.ACTIVATION, "relu6", marks=pytest.mark.slow),
        pytest.param({}, {"softmax": 1}, diff_causes.OUTPUT, None, marks=pytest.mark.slow),
        pytest.param({"softmax": 1}, {"softmax": 2}, diff_causes.OUTPUT, None, marks=pytest.mark.slow),
    ],
)
def test_one_mistake_is_named_with_the_layer_that_parts_first(a, b, cause, op):
    found = check(torch_net(**a), keras_net(**b), [SHAPE])
    assert told(found) == {cause}
    assert found.agreement.agree is False
    assert not found.same
    if op is not None:
        assert found.agreement.first is not None
        assert found.agreement.first.op == op
    assert "the outputs differ" in "\n".join(check_lines(found))
    data = check_data(found)
    assert data["same"] is data["agreement"]["agree"] is False
    assert data["diff"]["differences"][0]["cause"] == cause


def test_a_bias_that_one_side_lacks_is_neutral_on_the_other():
    found = check(torch_net(bias=False), keras_net(), [SHAPE])
    assert told(found) == {diff_causes.BIAS}
    assert [tensor.neutral for tensor in found.map.only_b] == [0.0]
    assert found.agreement.agree is True
    assert found.map.complete
    assert not found.same


@pytest.mark.slow
def test_a_bias_that_only_a_has_is_lost():
    other = check(torch_net(), keras_net(bias=False), [SHAPE])
    assert other.agreement.agree is False
    assert [tensor.tensor for tensor in other.map.only_a] == ["3.bias"]


def test_what_only_training_sees_is_told_and_leaves_the_networks_the_same():
    found = check(torch_net(momentum=0.1, drop=0.5), keras_net(), [SHAPE])
    assert found.same
    items = {item.what: (item.a, item.b) for item in found.training}
    assert items["share of the old statistics that a step keeps"] == ("0.9", "0.99")
    assert items["dropout layers"] == ("1 layer, rate 0.5", "none")
    assert "kernels of convolutions" in items


def test_a_network_that_is_random_is_said_to_be():
    torch.manual_seed(0)

    class Noisy(nn.Module):
        def __init__(self, rate):
            super().__init__()
            self.inner, self.rate = torch_net(), rate

        def forward(self, x):
            return nn.functional.dropout(self.inner(x), self.rate)  # the functional one does not know of eval()

    assert check(Noisy(0.01), keras_net(), [SHAPE]).agreement.agree is None  # seldom, so that it is asked often
    found = check(Noisy(0.5), keras_net(), [SHAPE])
    assert found.agreement.agree is None
    assert not found.same
    assert "answers with other numbers" in "\n".join(check_lines(found))


def test_control_flow_that_depends_on_weights_is_refused():
    class Deciding(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.a(x) if float(self.a.weight[0, 0]) > 0.1 else self.b(torch.relu(self.a(x)))

    with pytest.raises(ModelError, match="no one structure"):
        check(Deciding(), Deciding(), ["4"])


def test_inputs_that_do_not_fit_are_refused_in_words():
    with pytest.raises(ModelError, match="does not take inputs of 3×16×16"):
        check(torch_net(), keras_net(), ["3x16x16"])
    with pytest.raises(ModelError, match="takes 8×8×3"):
        check(keras_net(), torch_net(), ["3x16x16"])


def test_tensors_shared_between_layers_on_one_side_only():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(4, 4)

        def forward(self, x):
            return self.one(torch.relu(self.one(x)))

    apart = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    found = check(Shared(), apart, ["4"])
    assert found.agreement.agree is True
    assert len(found.map.moves) == 4
    other = check(apart, Shared(), ["4"])
    assert other.agreement.agree is False
    assert {tensor.tensor for tensor in other.map.only_a} == {"2.weight", "2.bias"}
    assert "B shares one.weight between layers, and 0.weight has its place" in "\n".join(check_lines(other))


def test_a_live_network_has_its_weights_back():
    net = torch_net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    check(net, keras_net(), [SHAPE])
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_a_subclassed_keras_model_is_read_through_its_call():
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(6, activation="relu"), keras.layers.Dense(3)

        def call(self, x):
            return self.second(self.first(x))

    found = check(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), Own(), ["4"])
    assert found.same


def test_a_channel_shuffle_as_the_last_layer_is_compared_in_one_order_of_axes():
    """Channels, rows and columns are as many: only the structure tells them apart."""
    image = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(6, 3)(image)
    x = keras.layers.Permute((1, 2, 4, 3))(keras.layers.Reshape((6, 6, 2, 3))(x))
    port = keras.Model(image, keras.layers.Reshape((6, 6, 6))(x))
    found = check(nn.Sequential(nn.Conv2d(3, 6, 3), nn.ChannelShuffle(2)), port, [SHAPE])
    assert found.same, "\n".join(check_lines(found))


def test_what_a_function_of_jax_leaves_open_is_said_and_names_with_slashes_stay_apart():
    draw = np.random.default_rng(0).standard_normal
    tree = {"a/b": draw((12, 5)).astype(np.float32), "a": {"b": draw((5, 3)).astype(np.float32)}}

    def apply(given, x):
        return x.reshape(len(x), -1) @ given["a/b"] @ given["a"]["b"]

    plain = nn.Sequential(nn.Flatten(), nn.Linear(12, 5, bias=False), nn.Linear(5, 3, bias=False))
    found = check(plain, (apply, tree), ["3x2x2"])
    assert found.same
    assert {move.b.tensor for move in found.map.moves} == {"a/b", "a/b#2"}
    assert any("takes images with their channels last and with their channels first" in line
               for line in check_lines(found))  # fmt: skip


class Halved(nn.Module):
    """A layer whose answers are multiplied with a number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x) * 0.5


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (Halved, lambda: nn.Linear(4, 3), "mul 0.5 only in"),
        (
            lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)),
            lambda: nn.Linear(4, 3),
            "no norm in",
        ),
    ],
)
def test_what_exporters_fold_away_is_a_difference_between_two_networks_in_code(a, b, words):
    """A file may have a norm or a number in its kernels; in a network's code it was forgotten."""
    found = check(a(), b(), ["4"])
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert words in "\n".join(check_lines(found))
