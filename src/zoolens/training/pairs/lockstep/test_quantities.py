import math

import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.pairs.lockstep.quantities import (
    ComparedQuantity,
    ToldQuantities,
    captured_key,
    computation_order,
    key_of,
)


def row(kind, name="", *, floor=1e-6, errors=(0.0,), step=1):
    return ComparedQuantity(step, kind, name, tuple(Deviation(error) for error in errors), floor)


@pytest.mark.parametrize(
    ("kind", "name", "key"),
    [("loss", "", "loss"), ("output", "0", "output/0"), ("tensor", "dense/kernel", "tensor/dense/kernel")],
)
def test_a_capture_has_each_quantity_under_one_key(kind, name, key):
    assert key_of(kind, name) == key
    assert captured_key(key) == (kind, name)


def test_a_tensor_is_defined_where_it_is_captured():
    assert key_of("definition", "x.kernel") == "tensor/x.kernel"


def test_the_order_is_that_of_computation():
    assert list(computation_order(["a"], {})) == [("activation", "a")]
    learned = ["a.kernel", "a.bias", "b.kernel"]
    named = {
        "definition": learned, "statistic": ["a.mean", "elsewhere.mean"], "output": ["0"], "loss": [""],
        "gradient": [*learned, "x.kernel", "y.kernel"], "first": ["a.kernel"], "tensor": learned,
    }  # fmt: skip
    assert list(computation_order(["a", "b"], named)) == [
        ("definition", "a.kernel"), ("definition", "a.bias"), ("activation", "a"), ("statistic", "a.mean"),
        ("definition", "b.kernel"), ("activation", "b"), ("statistic", "elsewhere.mean"), ("output", "0"), ("loss", ""),
        ("gradient", "b.kernel"), ("gradient", "a.kernel"), ("gradient", "a.bias"), ("gradient", "y.kernel"),
        ("gradient", "x.kernel"), ("first", "a.kernel"), *(("tensor", name) for name in learned),
    ]  # fmt: skip


def test_of_several_sides_the_farthest_counts():
    found = row("loss", errors=(1e-7, 3e-3, 2e-3))
    assert found.beyond == (1, 2)
    assert [found.verdict(), found.verdict(1)] == ["within", "beyond"]
    assert found.apart == Deviation(3e-3)
    assert found.worst == pytest.approx(3e-3 / 1e-6)
    assert row("definition", "x", floor=0.0).worst == math.inf


def test_a_quantity_is_blind_where_nothing_can_be_told_of_some_side():
    told = ComparedQuantity(1, "tensor", "w", (Deviation(math.inf, "shape"),), 2.0)
    assert (told.blind, told.beyond) == (False, (0,))
    half = ComparedQuantity(1, "tensor", "w", (Deviation(math.inf, "shape"), Deviation(0.0)), 2.0)
    assert half.blind


def test_the_layer_of_a_quantity():
    assert row("statistic", "conv1_norm.mean").layer == "conv1_norm"
    assert row("activation", "conv1").layer == "conv1"


def lost(*rows):
    return ToldQuantities(rows).lost(("tensor", "statistic"))


def test_what_was_told_once_is_not_lost():
    rows = [row("tensor", "w", floor=floor) for floor in (1.0, 1e-6, 1.0)]
    rows += [row("statistic", "mean", floor=1.0), row("activation", "fc", floor=1.0)]
    assert lost(*rows) == ("mean",)
    rows.append(row("loss"))
    assert lost(*rows) == ("mean",)  # a statistic has no gradient that could be rounding
    rows.append(row("gradient", "mean", floor=1.0))
    assert lost(*rows) == ()
    rows.append(row("gradient", "mean"))
    assert lost(*rows) == ("mean",)


def test_a_gradient_says_nothing_of_its_tensor_where_not_even_the_loss_can_be_told():
    rows = [row("tensor", "w", floor=1.0), row("gradient", "w", floor=1.0)]
    assert lost(*rows, row("loss", floor=1.0)) == ("w",)
    assert lost(*rows, row("loss")) == ()
    assert ToldQuantities([*rows, row("loss")]).tensors(("tensor",)) == ()
    assert lost(*rows) == ("w",)  # no loss was captured
