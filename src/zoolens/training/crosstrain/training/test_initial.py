import numpy as np
import pytest

from zoolens.training.crosstrain.training.architectures import build, tensor_shapes
from zoolens.training.crosstrain.training.initial import SPREADS, fitting_bias, fitting_kernel, initial_weights
from zoolens.training.pairs.semantics import ALIGNED, Semantics


def network(**changes):
    return build("resnet8", Semantics(**changes).over(ALIGNED), (1, 28, 28), 10)


def kernels(weights):
    return [array for name, array in weights.items() if name.endswith(".kernel")]


def test_every_tensor_in_its_shape():
    weights = initial_weights(network(), ALIGNED, 0)
    assert {name: array.shape for name, array in weights.items()} == tensor_shapes(network())
    assert {array.dtype.name for array in weights.values()} == {"float32"}


def test_norms_begin_neutral():
    weights = initial_weights(network(), Semantics(), 0)
    for part, value in (("scale", 1), ("shift", 0), ("mean", 0), ("variance", 1)):
        assert (weights[f"conv1_norm.{part}"] == value).all()


def test_seed_and_salt_decide():
    first = initial_weights(network(), ALIGNED, 3)
    for name, array in initial_weights(network(), ALIGNED, 3).items():
        np.testing.assert_array_equal(array, first[name])
    for other in (initial_weights(network(), ALIGNED, 4), initial_weights(network(), ALIGNED, 3, salt="torch")):
        assert not np.array_equal(other["conv1.kernel"], first["conv1.kernel"])


def test_a_bias_more_changes_no_other_tensor():
    without = initial_weights(network(), ALIGNED, 0)
    biased = initial_weights(network(conv_bias=True), Semantics(conv_bias=True, bias_init="uniform"), 0)
    assert "conv1.bias" in biased
    np.testing.assert_array_equal(biased["logits.kernel"], without["logits.kernel"])


@pytest.mark.parametrize("rule", SPREADS)
@pytest.mark.parametrize("seed", range(5))
def test_a_rule_is_recognised_by_what_it_drew(rule, seed):
    assert fitting_kernel(kernels(initial_weights(network(), Semantics(init=rule), seed))) == rule


def test_bounds_of_the_rules():
    """By the formulas of their authors, for 16 × 3 × 3 → 32 × 3 × 3."""
    wanted = {"glorot_uniform": 6 / (144 + 288), "kaiming_uniform": 6 / 144, "lecun_uniform": 3 / 144}
    for rule, square in wanted.items():
        kernel = initial_weights(network(), Semantics(init=rule), 0)["stage2_block1_conv1.kernel"]
        assert kernel.shape == (32, 16, 3, 3)
        assert 0.999 < np.abs(kernel).max() / np.sqrt(square) <= 1


def test_another_spread_is_no_rule_of_ours():
    drawn = kernels(initial_weights(network(), ALIGNED, 0))
    assert fitting_kernel([kernel * 1.2 for kernel in drawn]) is None
    assert fitting_kernel([]) is None


def test_biases():
    uniform = initial_weights(network(), Semantics(bias_init="uniform"), 0)
    pair = (uniform["logits.bias"], uniform["logits.kernel"].shape)
    assert fitting_bias([pair]) == "uniform"
    assert fitting_bias([(np.zeros(10), (10, 64))]) == "zeros"
    assert fitting_bias([(np.ones(10), (10, 64))]) is None
    assert fitting_bias([]) is None
