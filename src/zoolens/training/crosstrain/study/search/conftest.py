import math

import pytest

from zoolens.training.crosstrain.study.search.journal import TrialResult
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan, Search
from zoolens.training.crosstrain.training.recipe import Recipe

SPACE = (
    Dimension(name="learning_rate", low=1e-4, high=1.0, log=True),
    Dimension(name="epochs", low=1, high=50, integer=True),
)


@pytest.fixture
def plan():
    """A plan; what differs is given."""

    def make(space=SPACE, **search):
        search = {"sampler": "design", "trials": 6, **search}
        recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=10, epochs=1)
        return Plan(name="study", recipe=recipe, space=space, search=Search(**search))

    return make


@pytest.fixture
def hill():
    """A cheap objective with one top, at a learning rate of 0.01 and 30 epochs."""

    def objective(trial, hyperparameters):
        off = (math.log10(hyperparameters["learning_rate"]) + 2) ** 2 + ((hyperparameters["epochs"] - 30) / 25) ** 2
        return TrialResult(delta=math.exp(-off), accuracies={"torch": 0.9, "tensorflow": 0.9 - math.exp(-off) / 2})

    return objective
