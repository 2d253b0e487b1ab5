import math

import numpy as np

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.lockstep.reference_search import compare, order
from zoolens.training.pairs.semantics import ALIGNED, Semantics


def network(architecture="convnorm", **semantics):
    return build(architecture, Semantics(**semantics).over(ALIGNED), (1, 12, 12), 3)


def test_the_order_is_that_of_computation():
    found = order([network(), network(conv_bias=True)])
    assert len(found) == len(set(found))
    expected = [
        ("activation", "input"), ("definition", "conv1.kernel"), ("definition", "conv1.bias"), ("activation", "conv1"),
        ("activation", "conv1_norm"), ("statistic", "conv1_norm.mean"), ("activation", "relu1"),
        ("activation", "conv2"), ("activation", "logits"), ("loss", ""), ("gradient", "logits.kernel"),
        ("gradient", "conv1.kernel"), ("first", "conv1.kernel"), ("second", "conv1.kernel"),
        ("second", "logits.bias"), ("tensor", "conv1.kernel"), ("tensor", "logits.bias"),
    ]  # fmt: skip
    places = [found.index(key) for key in expected]
    assert places == sorted(places)
    assert ("gradient", "conv1_norm.mean") not in found


def test_a_layer_that_one_side_has_is_in_the_order():
    found = order([network("mlp"), network("mlp", dropout=0.5), network("mlp")])
    assert found.index(("activation", "relu1")) < found.index(("activation", "dropout1"))
    assert found.index(("activation", "dropout1")) < found.index(("activation", "dense2"))


def test_rows_are_of_what_all_have_and_a_tensor_that_one_lacks_is_told_once():
    keys = [("definition", "x.kernel"), ("definition", "x.bias"), ("loss", ""), ("gradient", "x.kernel"),
            ("gradient", "x.bias"), ("first", "x.kernel"), ("tensor", "x.bias")]  # fmt: skip
    one = np.ones(3)
    exact = {"tensor/x.kernel": one, "gradient/x.kernel": one, "loss": one}
    side = {**exact, "loss": one * 2}
    biased = {**exact, "tensor/x.bias": one, "gradient/x.bias": one}
    found = list(compare(7, keys, exact, (side, biased), {(7, key): 0.1 for key in keys}))
    assert [(row.step, row.kind, row.name) for row in found] == [
        (7, "definition", "x.bias"), (7, "loss", ""), (7, "gradient", "x.kernel")
    ]  # fmt: skip
    assert found[0].sides == (Deviation(0.0), Deviation(math.inf, "extra"))
    assert [row.beyond for row in found] == [(1,), (0,), ()]
    missing = list(compare(7, keys[:2], biased, (biased, side), {}))
    assert [row.sides for row in missing] == [(Deviation(0.0), Deviation(math.inf, "missing"))]
