"""Networks that are unusual but right, and networks that nothing can be told of: words, and no wrong answer."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.base.verdicts import Outcome
from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_lines

torch = pytest.importorskip("torch")
nn = torch.nn


def base():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))


class Answers(nn.Module):
    """A network with two outputs, given as `form` puts them."""

    def __init__(self, form):
        super().__init__()
        self.first, self.second, self.form = base(), nn.Linear(4, 2), form

    def forward(self, x):
        return self.form(self.first(x), self.second(x))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_the_floor_of_another_type_is_that_of_the_coarser_one(kind):
    for pair in ((base(), base().to(kind)), (base().to(kind), base())):
        found = check(*pair, ["4"])
        assert found.agreement.agree is True, found.agreement
        assert [item.what for item in found.training] == ["type of the weights"]


def test_outputs_of_a_dictionary_go_by_their_names():
    a = Answers(lambda one, two: {"one": one, "two": two})
    b = Answers(lambda one, two: {"two": two, "one": one})
    assert check(a, b, ["4"]).same
    assert check(a, Answers(lambda one, two: (one, two)), ["4"]).same


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(number):
    spoilt = base()
    spoilt[0].weight.data[0, 0] = number
    found = check(spoilt, base(), ["4"])
    assert found.agreement.agree is None
    text = "\n".join(check_lines(found))
    assert "has weights that are not finite: 0.weight" in text
    assert "other shapes" not in text
    assert check(base(), spoilt, ["4"]).same  # its own weights are replaced by A's


def test_a_network_that_alone_is_not_finite_differs():
    class Divides(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = base()

        def forward(self, x):
            return self.inner(x) / 0.0

    found = check(base(), Divides(), ["4"])
    assert found.agreement.agree is False
    assert "not finite in B alone" in "\n".join(check_lines(found))


def test_a_network_in_training_mode_is_compared_in_evaluation_mode_and_stays_as_it_was():
    made = [nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)) for _ in range(2)]
    assert check(made[0].train(), made[1].eval(), ["4"]).same
    assert [net.training for net in made] == [True, False]


def test_a_network_without_an_answer_is_refused():
    with pytest.raises(ModelError, match="answers without any tensor"):
        check(Answers(lambda *_: None), base(), ["4"])


def test_scales_without_a_partner_are_no_agreement():
    """A scale of 1 that B has no place for: with fresh weights both would answer alike."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.scale = base(), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return self.inner(x) * self.scale.cumsum(0) / torch.arange(1, 4)  # of 1, and no layer that is known

    found = check(Scaled(), base(), ["4"])
    assert not found.map.lossless
    assert found.agreement.agree is False
    assert np.isfinite(found.agreement.error)


class Opaque(nn.Module):
    """A layer that no importer knows."""

    def __init__(self, shift):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.rand(6) + 0.5), shift

    def forward(self, x):
        return torch.special.bessel_j1(x * self.scale) + self.shift


def with_opaque(*, shift=0.0, slope=0.1):
    return nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(slope), Opaque(shift), nn.Linear(6, 3))


def test_unknown_layers_are_compared_by_name_and_their_tensors_move():
    found = check(with_opaque(), with_opaque(), ["4"])
    assert found.agreement.agree is True
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "Not understood: operator aten.special_bessel_j1" in found.diff.headline
    assert [border.agree for border in found.agreement.borders] == [True]
    assert "2 of A and 2 of B (unknown layer aten.special_bessel_j1) answer alike" in "\n".join(check_lines(found))


def test_what_parts_before_an_unknown_layer_or_behind_it_is_found():
    before = check(with_opaque(), with_opaque(slope=0.3), ["4"])
    assert before.agreement.first is not None
    assert before.agreement.first.op == "leaky_relu"
    assert before.agreement.borders[0].agree is None
    assert "are given other numbers already" in "\n".join(check_lines(before))
    behind = check(with_opaque(), with_opaque(shift=0.5), ["4"])
    assert "add 0.5 only in" in behind.diff.unproved[0].text
    assert sum(behind.diff.unproved[0].text in line for line in check_lines(behind)) == 1
    assert behind.agreement.first is not None
    assert behind.agreement.first.op == "dense"
    assert behind.agreement.borders[0].agree is True


class InNumpy(nn.Module):
    """A layer that leaves torch, and has a tensor of its own."""

    def __init__(self, factor=2.0):
        super().__init__()
        self.scale, self.factor = nn.Parameter(torch.rand(6) + 0.5), factor

    def forward(self, x):
        return torch.from_numpy(np.sort(self.factor * x.detach().numpy())) * self.scale


def test_a_layer_that_leaves_torch_is_unknown_and_compared_at_its_borders():
    def net(layer, slope=0.01):
        return nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 5), nn.LeakyReLU(slope), nn.Linear(5, 3))

    same = check(net(InNumpy()), net(InNumpy()), ["4"])
    assert same.agreement.agree is True
    assert same.verdict.outcome is Outcome.NOT_KNOWN
    assert {move.a.tensor for move in same.map.moves} >= {"1.scale"}
    assert [(border.op, border.agree) for border in same.agreement.borders] == [("unknown layer InNumpy", True)]
    other = check(net(InNumpy()), net(InNumpy(3.0)), ["4"])
    assert other.agreement.agree is False
    assert other.agreement.first is not None
    assert other.agreement.first.op == "unknown layer InNumpy"
    text = "\n".join(check_lines(other))
    assert "answer otherwise although they are given equal numbers" in text
    assert "Given equal answers there, no layer behind it parts." in text
    both = check(net(InNumpy()), net(InNumpy(3.0), slope=0.3), ["4"])
    assert both.agreement.behind is not None
    assert both.agreement.behind.op == "leaky_relu"


def test_a_module_that_checks_its_numbers_is_still_read_layer_by_layer():
    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = base()

        def forward(self, x):
            answer = self.inner(x)
            assert torch.isfinite(answer).all()
            return answer

    found = check(nn.Sequential(Checked()), nn.Sequential(base()), ["4"])
    assert found.same
    assert not found.diff.a.unknown


def test_a_network_that_leaves_torch_in_its_own_forward_is_told_what_to_do():
    class Outside(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = base()

        def forward(self, x):
            return torch.from_numpy(2 * self.inner(x).detach().numpy())

    with pytest.raises(ModelError, match="takes numbers out of torch in its own forward") as caught:
        check(Outside(), base(), ["4"])
    assert "a module of its own" in str(caught.value)


def test_unknown_layers_of_keras_and_jax_are_compared_at_their_borders():
    """JAX's sort is none of the vocabulary, nor is that of Keras."""
    keras, jax = pytest.importorskip("keras"), pytest.importorskip("jax")

    def sorting(upwards):
        image = keras.Input((4,))
        hidden = keras.layers.Dense(6, activation="tanh")(image)
        hidden = keras.ops.sort(hidden) if upwards else keras.ops.sort(-hidden)
        return keras.Model(image, keras.layers.Dense(3)(hidden))

    draw = np.random.default_rng(0).standard_normal
    tree = {"w": draw((4, 6)), "b": draw(6), "v": draw((6, 3)), "c": draw(3)}
    tree = {name: array.astype(np.float32) for name, array in tree.items()}

    def apply(given, x):
        return jax.numpy.sort(jax.numpy.tanh(x @ given["w"] + given["b"])) @ given["v"] + given["c"]

    assert check(sorting(True), sorting(True), ["4"]).agreement.borders[0].agree is True
    assert check((apply, tree), (apply, tree), ["4"]).agreement.borders[0].agree is True
    turned = check(sorting(True), sorting(False), ["4"])
    assert turned.agreement.agree is False
    assert turned.agreement.borders[0].inputs > 1e-3


def test_tensors_that_only_a_shares_are_named():
    class Twice(nn.Module):
        def __init__(self, *, tied):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            if tied:
                self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.relu(self.a(x)))

    found = check(Twice(tied=True), Twice(tied=False), ["4"])
    assert found.agreement.agree is True
    assert [difference.text.replace("Twice ", "") for difference in found.diff.differences] == [
        "weights are shared in (A) between a and b, and separate in (B)"
    ]
    assert "Layers of A share a.weight; B has a tensor for each (a.weight, b.weight)" in "\n".join(check_lines(found))


class Calls(nn.Module):
    """A layer and what is done with its output."""

    def __init__(self, after, layer=None):
        super().__init__()
        self.layer, self.after = layer or nn.Linear(4, 6), after

    def forward(self, *given):
        return self.after(self.layer(*given))


def test_what_only_a_batch_shows_is_found():
    """With one input at a time, the length of the whole batch is that of its only row."""
    found = check(Calls(lambda x: x / x.norm(dim=1, keepdim=True)), Calls(lambda x: x / x.norm()), ["4"])
    assert found.agreement.alike_alone
    assert found.agreement.agree is False
    text = "\n".join(check_lines(found))
    assert "given one by one are answered alike" in text
    assert "Calls (B) answers an input otherwise when others are in its batch." in text
    alone = check(Calls(lambda x: x.reshape(6)), Calls(lambda x: x.reshape(6)), ["4"])
    assert alone.agreement.agree is True
    assert "was not compared: Calls (A) and Calls (B) takes none" in "\n".join(check_lines(alone))


def test_a_mask_of_zeros_is_found_in_a_large_vocabulary():
    class Masks(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5000, 3)

        def forward(self, x):
            return (self.table(x) * (x != 0)[..., None]).mean(1)

    found = check(Masks(), Calls(lambda x: x.mean(1), nn.Embedding(5000, 3)), ["int:7"])
    assert found.agreement.agree is False


def test_every_output_is_judged_by_its_own_floor():
    """Rounding moves the first output by per cents, and would hide the mistake in the second."""

    def net(shift):
        return Calls(lambda x: (torch.sin(1e3 * x), x + shift))

    found = check(net(0.0), net(1e-4), ["4"])
    assert found.agreement.agree is False


def test_the_two_parts_of_complex_answers_are_compared():
    found = check(Calls(torch.fft.fft), Calls(lambda x: torch.fft.fft(x).conj()), ["4"])
    assert found.agreement.agree is False


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (lambda x: x.permute(0, 2, 3, 1), "The output has its axes in the order NHWC in A and NCHW in B."),
        (lambda x: x.transpose(2, 3), "The output has its axes in the order NCWH in A and NCHW in B."),
        (lambda x: x.mean((2, 3), keepdim=True), "The output has the shape 1×6×1×1 in A and 1×6 in B, for one input."),
    ],
)
def test_a_form_of_the_output_that_its_numbers_do_not_show_is_told(after, words):
    """A map has as many channels as rows and columns: no shape tells its axes apart."""
    plain = (lambda x: x.mean((2, 3))) if "1×6" in words else (lambda x: x)
    found = check(Calls(after, nn.Conv2d(3, 6, 3)), Calls(plain, nn.Conv2d(3, 6, 3)), ["3x8x8"])
    assert found.agreement.agree is True
    assert not found.same
    assert words in check_lines(found)


class Drops(nn.Module):
    """Dropout by a function, by a layer, and within attention."""

    def __init__(self, kind=nn.Dropout, rate=0.3):
        super().__init__()
        self.layer, self.rate = kind(0.5), rate
        self.attention = nn.MultiheadAttention(4, 2, dropout=rate, batch_first=True)

    def forward(self, x):
        x = nn.functional.dropout(self.layer(x), self.rate, self.training)
        return self.attention(x, x, x, need_weights=False)[0]


def test_dropout_is_compared_with_what_it_drops_and_wherever_it_is_called():
    def told(*pair):
        return [(item.a, item.b) for item in check(*pair, ["5x4"]).training]

    assert told(Drops(), Drops()) == []
    assert told(Drops(), Drops(nn.Dropout1d)) == [
        (
            "3 layers, rate 0.5 in 1, 0.3 in 1, 0.3 (weights of attention) in 1",
            "3 layers, rate 0.5 (whole channels) in 1, 0.3 in 1, 0.3 (weights of attention) in 1",
        )
    ]
    assert told(Drops(), Drops(rate=0.0))[0][1] == "1 layer, rate 0.5"


def test_a_network_that_no_input_reaches_and_complex_weights():
    found = check(Calls(torch.ones_like), Calls(lambda x: x), ["4"])
    assert found.agreement.agree is False
    turned = nn.Linear(4, 6)
    turned.register_buffer("phase", torch.ones(3, dtype=torch.complex64))
    with pytest.raises(ModelError, match="has complex numbers in phase"):
        check(turned, nn.Linear(4, 6), ["4"])


def test_tensors_that_only_one_side_learns_are_named():
    frozen = base()
    frozen[0].requires_grad_(False)
    found = check(base(), frozen, ["4"])
    assert found.same
    assert [(item.what, item.a, item.b) for item in found.training] == [
        ("tensors that only this side learns", "0.weight, 0.bias", "none")
    ]


def test_single_numbers_that_are_learned_or_kept_move_as_other_tensors_do():
    class Scaled(nn.Module):
        def __init__(self, factor, shift):
            super().__init__()
            self.inner, self.shift = nn.Linear(4, 6), nn.Parameter(torch.tensor(shift))
            self.register_buffer("factor", torch.tensor(factor))

        def forward(self, x):
            return self.inner(x) * self.factor + self.shift

    found = check(Scaled(2.0, 0.5), Scaled(3.0, 0.1), ["4"])
    assert found.same, "\n".join(check_lines(found))
    assert {move.a.tensor for move in found.map.moves} == {"inner.weight", "inner.bias", "factor", "shift"}


def test_parts_of_normed_weights_move_by_their_names():
    """What computes a weight from several tensors has no place for them in the graph."""
    norms = torch.nn.utils.parametrizations

    def net(norm):
        return nn.Sequential(norm(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 3))

    for norm in (norms.weight_norm, norms.spectral_norm):
        found = check(net(norm), net(norm), ["4"])
        assert found.same, "\n".join(check_lines(found))
    other = check(net(norms.weight_norm), base(), ["4"])
    assert not other.same
    assert "B has its own numbers in 1 tensor without a partner, which may be why." in check_lines(other)
