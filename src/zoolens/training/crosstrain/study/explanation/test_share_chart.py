import json
from dataclasses import replace

import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.seeds import seed_noise
from zoolens.base.statistics.student import Estimate
from zoolens.training.crosstrain.study.explanation.contest import Arm, contest
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation
from zoolens.training.crosstrain.study.explanation.share_chart import shares_chart
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.explanation.results import Explained
from zoolens.training.pairs.explanation.shapley import ShapleyShare
from zoolens.training.pairs.semantics import Semantics

RECIPE = Recipe(architecture="mlp", learning_rate=0.1, batch_size=8, epochs=1)
GAME = contest(Arm("a"), Semantics(norm_momentum=0.9), Arm("b"), Semantics(norm_momentum=0.99))
PAIR = seed_noise("a", [0.80, 0.82, 0.81, 0.79], "b", [0.30, 0.33, 0.29, 0.31])
SHARES = (
    ShapleyShare("norm_momentum", Estimate(-0.45, Interval(-0.5, -0.4)), Estimate(0.9)),
    ShapleyShare("init", Estimate(-0.05, Interval(-0.12, 0.02)), Estimate(0.1)),
)


@pytest.fixture
def explanation():
    explained = Explained(None, SHARES, ShapleyShare("interactions", Estimate(0.01), Estimate(-0.02)), (), (), 0, {})
    return Explanation("study", RECIPE, GAME, PAIR, explained)


def test_each_semantic_has_a_bar_and_those_within_noise_are_pale(explanation):
    chart = shares_chart(explanation)
    rows = chart.spec["data"]["values"]
    assert [(row["name"], row["sure"]) for row in rows] == [
        ("norm_momentum", True),
        ("init", False),
        ("interactions", False),
    ]
    assert (rows[0]["points"], rows[0]["low"], rows[0]["words"]) == (-45, -50, "90 %")
    assert rows[2]["low"] is None
    assert "Gap −49.75" in chart.spec["title"]["subtitle"]
    json.dumps(for_file(chart), allow_nan=False)


def test_without_shares_there_is_no_picture(explanation):
    assert shares_chart(replace(explanation, explained=None)) is None
