import math

import numpy as np
import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.lockstep.course import LockstepRun, course
from zoolens.training.crosstrain.training.lockstep.recipe_lockstep_words import sentence
from zoolens.training.crosstrain.training.lockstep.reference_search import ReferenceSearch, compare, order
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity
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


@pytest.fixture
def cause(recipe, workers, tmp_path):
    """Of a quantity beyond its floor, for sides that were never trained."""

    def found(kind, name, *, step=1, why="value", **switched):
        runner = course(recipe(), (step,), tmp_path / "runs", workers, threads=1)
        runs = [
            LockstepRun(
                Outcome(framework="torch", versions={}, status="finished"), told, runner.network(told), {}, tmp_path
            )
            for told in (ALIGNED, ALIGNED.model_copy(update=switched))
        ]
        row = ComparedQuantity(
            step, kind, name, (Deviation(0.0), Deviation(1.0 if why == "value" else math.inf, why)), 1e-6
        )
        reference, side = runs
        return ReferenceSearch(runner, reference, (reference, side), ("torch", "jax"), floors={}).cause_of(row)

    return found


@pytest.mark.parametrize(
    ("kind", "name", "switched"),
    [
        ("gradient", "conv1.kernel", {"norm_epsilon": 1e-3, "adam_rule": "inside"}),  # activations would show it first
        ("activation", "conv1", {"norm_epsilon": 1e-3}),  # it is no norm
        ("activation", "conv1_norm", {"norm_momentum": 0.5}),  # a training norm does not look at its statistics
        ("tensor", "conv1.kernel", {"norm_momentum": 0.5}),
        ("statistic", "conv1_norm.mean", {"norm_epsilon": 1e-3}),
        ("statistic", "conv1_norm.variance", {}),
        ("definition", "conv1.bias", {"norm_epsilon": 1e-3}),
        ("activation", "conv2_norm", {}),
    ],
)
def test_what_no_differing_semantic_touches_is_unexplained(cause, kind, name, switched):
    found = cause(kind, name, **switched)
    assert sentence(found).startswith("unexplained")
    assert (found.names, found.proved) == ((), False)


def test_a_definition_needs_no_proof(cause):
    found = cause("definition", "conv1.bias", why="extra", conv_bias=True)
    assert sentence(found) == "conv_bias is False in the reference and True in jax"
    assert found.proved


def test_a_suspect_that_does_not_explain_it(cause):
    """The side has nothing at that step, so that no switch can make the reference agree."""
    found = cause("activation", "conv1_norm", norm_epsilon=1e-3)
    assert sentence(found).startswith("unexplained: norm_epsilon is 1e-05 in the reference and 0.001 in jax, but")
    assert (found.names, found.proved) == (("norm_epsilon",), False)
