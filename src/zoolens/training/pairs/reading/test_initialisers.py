"""Initialisers are told apart by the values they drew: drawn here by their formulas, with numpy alone."""

import numpy as np
import pytest

from zoolens.training.crosstrain.training.diff import defaults
from zoolens.training.crosstrain.training.diff.recipe_findings import Item
from zoolens.training.pairs.reading.initialisers import drawn, explained, fans
from zoolens.training.pairs.reading.side_facts import SideFacts

SHAPES = [(16, 3, 3, 3), (32, 16, 3, 3), (64, 64, 1, 1), (10, 400)]


def uniform(variance):
    return lambda rng, shape: rng.uniform(
        -np.sqrt(3 * variance(*fans(shape))), np.sqrt(3 * variance(*fans(shape))), shape
    )


def normal(variance):
    return lambda rng, shape: rng.normal(0, np.sqrt(variance(*fans(shape))), shape)


def truncated(variance):
    def draw(rng, shape):
        values = rng.standard_normal(4 * int(np.prod(shape)))
        inside = values[np.abs(values) < 2][: int(np.prod(shape))].reshape(shape)
        return inside * np.sqrt(variance(*fans(shape))) / 0.87962566103423978

    return draw


def tensors(draw, shapes=SHAPES, role="kernel", seed=0):
    rng = np.random.default_rng(seed)
    return [
        drawn(draw(rng, shape).astype(np.float32), layer=str(n), kind="conv", role=role, fans=fans(shape))
        for n, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (uniform(lambda i, o: 2 / (i + o)), "glorot_uniform"),
        (truncated(lambda i, o: 2 / (i + o)), "glorot_truncated_normal"),
        (normal(lambda i, o: 2 / o), "kaiming_normal (fan out)"),
        (normal(lambda i, o: 2 / i), "kaiming_normal (fan in)"),
        (uniform(lambda i, o: 2 / i), "kaiming_uniform (fan in)"),
        (uniform(lambda i, o: 1 / i), "lecun_uniform"),
        (uniform(lambda i, o: 1 / (3 * i)), "uniform ±1/√(fan in)"),
        (normal(lambda i, o: 0.01**2), "normal with standard deviation 0.01 in every layer"),
    ],
)
def test_each_formula_is_recognised_in_all_layers(draw, name, seed):
    [found] = explained(tensors(draw, seed=seed))
    assert found.name == name
    assert len(found.layers) == len(SHAPES)


def test_two_initialisers_in_one_network_are_both_named():
    layers = tensors(uniform(lambda i, o: 2 / (i + o))) + tensors(normal(lambda i, o: 2 / o), SHAPES[:2], seed=1)
    assert [(one.name, len(one.layers)) for one in explained(layers)] == [
        ("glorot_uniform", 4),
        ("kaiming_normal (fan out)", 2),
    ]


def test_equal_fans_leave_two_formulas_which_are_both_named():
    [found] = explained(tensors(uniform(lambda i, o: 1 / i), [(64, 64, 1, 1)]))
    assert found.name == "glorot_uniform or lecun_uniform"


def test_a_constant_is_named_by_its_value():
    names = [explained(tensors(lambda _, shape, v=v: np.full(shape, v), role="scale"))[0].name for v in (0, 1, 0.25)]
    assert names == ["zeros", "ones", "constant 0.25"]


def test_a_scale_that_is_off_is_not_called_by_the_formula():
    [found] = explained(tensors(lambda rng, shape: 1.2 * normal(lambda i, o: 2 / o)(rng, shape), SHAPES[1:2]))
    assert found.name.startswith("normal with standard deviation")


def test_large_tensors_are_sampled():
    values = np.zeros((3, 1_000_000), np.float32)
    one = drawn(values, layer="x", kind="dense", role="kernel", fans=(1_000_000, 3))
    assert one.count <= 1_000_000
    assert one.constant == 0


def test_a_stray_number_does_not_change_the_scale():
    values = np.random.default_rng(0).normal(0, 0.02, (300, 300)).astype(np.float32)
    values[3, 4] = -2.0  # what drawing a truncated normal gives once in a while
    [found] = explained([drawn(values, layer="x", kind="dense", role="kernel", fans=(300, 300))])
    assert found.name == "normal with standard deviation 0.02 in every layer"


@pytest.mark.parametrize("declared", ["GlorotUniform", None])
def test_two_draws_of_one_initialiser_are_not_called_different_for_they_are_few(declared):
    """Of 24 numbers, now this and now that formula fits best."""

    def side(seed, scale=1.0, declared=declared):
        values = scale * np.random.default_rng(seed).uniform(-1, 1, 24) * np.sqrt(6 / 10)
        kernel = drawn(values, layer="dense", kind="dense", role="kernel", fans=(6, 4), declared=declared)
        return SideFacts(versions={}, network="", layers=(), drawn=(kernel,), norms=(), channels="first")

    def differ(a, b):
        return any(isinstance(finding, Item) for finding in defaults.initial(a, b))

    alone = {explained(side(seed).drawn)[0].name for seed in range(20)}
    assert len(alone) > 1
    assert not any(differ(side(seed), side(seed + 1)) for seed in range(20))
    assert differ(side(0), side(1, scale=5.0))
