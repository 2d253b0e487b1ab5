"""Recurrent layers, attention and branches, one small pair of each kind; `test_sequence_mistakes` has the rest."""

from functools import partial

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_data, check_lines
from zoolens.training.port.weights import move_weights

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
nn, kl = torch.nn, keras.layers


class Last(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def port(layer):
    return keras.Sequential([keras.Input((5, 3)), layer, kl.Dense(2)])


def test_two_biases_of_torch_are_the_one_of_keras_and_every_tensor_moves(tmp_path):
    a, b = Last(nn.LSTM(3, 4, batch_first=True)), port(kl.LSTM(4))
    found = check(a, b, ["5x3"])
    assert found.same, "\n".join(check_lines(found))
    assert [(each.bias.tensor, len(found.map.only_a)) for each in found.map.sums] == [("layer.bias_hh_l0", 0)]
    moved = move_weights(a, b, ["5x3"], tmp_path / "b.safetensors")
    assert moved.verdict.outcome is Outcome.SAME
    assert moved.written is not None


def test_gates_that_are_packed_in_another_order_move_and_a_reset_before_the_product_is_named():
    found = check(Last(nn.GRU(3, 4, batch_first=True)), port(kl.GRU(4, reset_after=False)), ["5x3"])
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert "reset first True" in found.diff.differences[0].text
    assert found.agreement.first is not None
    assert found.agreement.first.op == "recurrent_layer"
    ways = {move.a.tensor: move.how for move in found.map.moves}
    assert ways["layer.weight_ih_l0"] == "its gates from the order reset, update, new to update, reset, new"


def test_one_shape_of_the_input_fits_both_in_one_dimension():
    a = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.Flatten(), nn.Linear(36, 2))
    b = keras.Sequential([keras.Input((9, 3)), kl.Conv1D(4, 3, padding="same"), kl.Flatten(), kl.Dense(2)])
    found = check(a, b, ["3x9"])
    assert found.same, "\n".join(check_lines(found))


def test_a_sequence_that_one_side_turns_by_itself_is_no_map():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(3, 3)

        def forward(self, x):
            return torch.relu(self.dense(x.transpose(1, 2))).mean(1)

    b = keras.Sequential([keras.Input((5, 3)), kl.Dense(3, activation="relu"), kl.GlobalAveragePooling1D()])
    found = check(Turned(), b, ["3x5"])
    assert found.same, "\n".join(check_lines(found))


class Branch(nn.Module):
    """Two layers, of which the sign of the input chooses one. `never`: no input chooses the second."""

    def __init__(self, factor=1.0, *, never=False):
        super().__init__()
        self.above, self.below, self.factor, self.never = nn.Linear(4, 3), nn.Linear(4, 3), factor, never

    def forward(self, x):
        if (x.square().sum() >= 0) if self.never else (x.mean() > 0):
            return self.above(x)
        return self.below(x) * self.factor


def test_both_branches_are_compared_where_an_input_takes_each():
    found = check(Branch(), Branch(), ["4"])
    assert found.same
    assert found.map.unused == ((), ())
    assert "both ways were compared" in "\n".join(found.notes)


def test_a_difference_in_the_branch_that_is_not_read_is_found_by_the_answers():
    class Turned(Branch):
        def forward(self, x):
            return self.below(x) if x.mean() <= 0 else self.above(x) * self.factor

    found = check(Branch(), Turned(2.0), ["4"])
    assert found.verdict.outcome is Outcome.DIFFERENT


def test_a_branch_that_no_input_takes_is_not_known():
    found = check(Branch(never=True), Branch(never=True), ["4"])
    assert found.agreement.agree is True
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    text = "\n".join(check_lines(found))
    assert "The same network" not in text
    assert "With the same weights" not in text
    assert "that no input took" in text
    assert check_data(found)["outcome"] == "not known"


def test_answers_that_are_not_finite_on_both_sides_are_not_known():
    class Infinite(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x) / torch.zeros(3)

    found = check(Infinite(), Infinite(), ["4"])
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "not finite" in found.verdict.coverage.text


def test_weights_that_were_not_moved_are_no_same_weights():
    class Mixed(nn.Module):
        """A tensor that nothing but the answers shows."""

        def __init__(self, name):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_parameter(name, nn.Parameter(torch.rand(3)))
            self.name = name

        def forward(self, x):
            return self.inner(x) + torch.special.bessel_j0(getattr(self, self.name))

    found = check(Mixed("first"), Mixed("second"), ["4"])
    assert not found.map.lossless
    assert found.verdict.outcome is not Outcome.SAME
    assert "With the same weights" not in "\n".join(check_lines(found))
    assert np.isfinite(found.agreement.error)


class Loop(nn.Module):
    """A cell that code calls at every step."""

    def __init__(self, kind):
        super().__init__()
        self.cell = kind(3, 4)

    def forward(self, x):
        state = torch.zeros(x.shape[0], 4)
        states = []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return torch.stack(states, 1)


def test_cells_in_a_loop_are_read_as_they_compute():
    """A cell writes into what it made of its weights and the zeros that it begins with."""
    assert check(Loop(nn.GRUCell), Loop(nn.GRUCell), ["5x3"]).same
    found = check(Loop(nn.RNNCell), Loop(partial(nn.RNNCell, nonlinearity="relu")), ["5x3"])
    assert found.agreement.layers == ""  # else: why what was read is not what runs
    assert found.agreement.first is not None
    assert "relu in" in "\n".join(check_lines(found))


def test_a_loop_that_may_be_a_recurrent_layer_is_not_accused():
    port = keras.Sequential([keras.Input((5, 3)), keras.layers.GRU(4, return_sequences=True)])
    found = check(Loop(nn.GRUCell), port, ["5x3"])
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert [gap.what for gap in found.verdict.coverage.gaps] == [
        "the steps of A, which may be a recurrent layer that its code writes out"
    ]
