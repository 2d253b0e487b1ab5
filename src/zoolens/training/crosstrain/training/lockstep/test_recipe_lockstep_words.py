import json
import math

import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.crosstrain.training.lockstep.comparison import Lockstep, LockstepSide, coverage
from zoolens.training.crosstrain.training.lockstep.recipe_lockstep_words import as_data, lines, table
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.lockstep.cause_search import DepartureCause
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity
from zoolens.training.pairs.semantics import ALIGNED, Semantics

ROWS = (
    ComparedQuantity(1, "activation", "conv1", (Deviation(1e-7), Deviation(2e-7)), 4e-7),
    ComparedQuantity(1, "activation", "conv2", (Deviation(1e-7), Deviation(3e-7)), 4e-7),
    ComparedQuantity(1, "statistic", "norm1.mean", (Deviation(1e-7), Deviation(0.9)), 3e-7),
    ComparedQuantity(2, "definition", "conv1.bias", (Deviation(0.0), Deviation(math.inf, "missing")), 0.0),
    ComparedQuantity(2, "loss", "", (Deviation(0.5), Deviation(math.inf, "not finite")), math.inf),
)


@pytest.fixture
def found():
    sides = (
        LockstepSide("torch", "torch", {"torch": "2"}, ALIGNED, "finished", ""),
        LockstepSide(
            "jax", "jax", {}, Semantics(norm_momentum=0.99), "non-finite", "The loss of step 3 is not finite."
        ),
    )
    recipe = Recipe(architecture="convnorm", learning_rate=1e-3, batch_size=1, epochs=1)
    cause = DepartureCause(ROWS[2], (SettingDifference("norm_momentum", 0.9, 0.99),), True, sides=("jax",))
    return Lockstep(
        recipe=recipe, sides=sides, reference=ALIGNED, steps=(1, 2, 3), compared=(1, 2), rows=ROWS, first=cause,
        causes=(cause,), coverage=coverage(ROWS, (1, 2, 3), (1, 2)),
    )  # fmt: skip


def test_lines(found):
    told = lines(found)
    assert told[:4] == [
        "torch and jax beside a float64 reference, at steps 1, 2.",
        "jax ended early: The loss of step 3 is not finite.",
        "First beyond the noise floor: step 1: statistic of norm1.mean: jax is off by 9.0e-01 (floor 3.0e-07).",
        "Cause: norm_momentum is 0.9 in the reference and 0.99 in jax; with that, the reference agrees.",
    ]
    assert told[4].startswith("The floor of a quantity is 4 times")


def test_table_has_the_worst_place_of_each_kind(found):
    headings, rows = table(found)
    assert headings == ("step", "quantity", "worst at", "torch", "jax", "floor", "verdict")
    assert rows == [
        ("1", "activation", "conv2", "1.0e-07", "3.0e-07", "4.0e-07", "within"),
        ("1", "statistic", "norm1.mean", "1.0e-07", "9.0e-01", "3.0e-07", "beyond: jax"),
        ("2", "definition", "conv1.bias", "0.0e+00", "missing", "–", "beyond: jax"),
        ("2", "loss", "–", "5.0e-01", "not finite", "inf", "blind"),
    ]


def test_data_is_json(found):
    data = json.loads(json.dumps(as_data(found), allow_nan=False))
    assert data["first"]["sentence"].startswith("step 1: statistic of norm1.mean")
    assert data["first"]["cause"]["semantics"] == ["norm_momentum"]
    assert data["rows"][4]["b"] == {"error": None, "why": "not finite", "verdict": "blind"}
    assert data["b"]["semantics"] == {"norm_momentum": 0.99}
