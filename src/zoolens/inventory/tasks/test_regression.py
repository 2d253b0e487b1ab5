import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.resampling import resampled_estimate
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.regression import Regression
from zoolens.inventory.tasks.task import Answers


def answers(predicted, true):
    truths = Regression().keep_truth([Truth("value", {"value": np.atleast_1d(each)}) for each in true])
    return Answers("price", "regression", {"vector": np.asarray(predicted, np.float32)}, truths=truths)


def figures(judgement, weights):
    names = [metric.name for metric in judgement.metrics]
    return dict(zip(names, judgement.aggregate(np.array([weights]))[0], strict=True))


def test_errors_and_correlations():
    """As scikit-learn 1.9.1 and scipy 1.17.1 give them."""
    judgement = Regression().judgement(answers([[1], [2], [3], [5]], [1.0, 2.0, 4.0, 4.0]))
    assert judgement.main.name == "mae"
    assert judgement.main.lower_is_better
    assert figures(judgement, [1, 1, 1, 1]) == pytest.approx(
        {
            "mae": 0.5,
            "rmse": 0.7071067811865476,
            "r2": 0.7037037037037037,
            "spearman": 0.9486832980505139,
            "pearson": 0.87831006565368,
        }
    )


def test_a_weight_repeats_an_input():
    predicted, true = [[1.0], [2.0], [3.0], [5.0]], [1.0, 2.0, 4.0, 4.0]
    weights = np.array([2, 0, 1, 3])
    repeated = Regression().judgement(answers(np.repeat(predicted, weights, axis=0), np.repeat(true, weights)))
    weighted = Regression().judgement(answers(predicted, true))
    assert figures(weighted, weights) == pytest.approx(figures(repeated, [1] * 6))


def test_several_numbers_have_the_mean_of_their_errors():
    """scikit-learn 1.9.1: mean_absolute_error, root_mean_squared_error and r2_score of two columns."""
    predicted, true = [[1, 10], [2, 30], [3, 20]], [[1.0, 20.0], [2.0, 20.0], [4.0, 40.0]]
    judgement = Regression().judgement(answers(predicted, true))
    assert figures(judgement, [1, 1, 1]) == pytest.approx({"mae": 6.833333, "rmse": 7.359743, "r2": -0.232143})


def test_blind_answers_have_the_error_of_the_median():
    assert Regression().judgement(answers([[1], [2], [3]], [1.0, 2.0, 6.0])).main.blind == pytest.approx(5 / 3)
    several = Regression().judgement(answers([[1, 1], [2, 2], [3, 3]], [[1.0, 0.0], [2.0, 0.0], [6.0, 0.3]]))
    assert several.main.blind == pytest.approx((5 / 3 + 0.1) / 2)
    # Nothing is better than the same answer to all inputs where the truth is the same.
    same = Regression().judgement(answers([[1], [2]], [4.0, 4.0])).main
    assert same.blind == same.best == 0.0


def test_squared_errors_have_no_interval():
    judgement = Regression().judgement(answers([[1], [2]], [1.0, 3.0]))
    assert {metric.name for metric in judgement.metrics if metric.interval} == {"mae", "spearman"}


def test_the_main_figure_has_an_interval_above_0():
    random = np.random.default_rng(3)
    true = random.normal(size=150)
    judgement = Regression().judgement(answers((true + random.normal(0, 0.1, 150))[:, None], true))
    estimate = resampled_estimate(judgement.of("mae"), 150, judgement.main.limits)
    assert 0 < estimate.interval.low < estimate.value < estimate.interval.high


def test_answers_of_another_width_than_the_truth_are_refused():
    with pytest.raises(ZoolensError, match="answers of 2 numbers, but the dataset has true values of 1"):
        Regression().judgement(answers([[1, 2]], [1.0]))


def test_an_answer_that_is_no_number_leaves_no_figure_and_says_so():
    judgement = Regression().judgement(answers([[1], [np.nan]], [1.0, 3.0]))
    assert np.isnan(judgement.aggregate(np.ones((1, 2), np.int64))).all()
    assert judgement.notes == ("A number is NaN or infinite for 1 of 2 inputs.",)
