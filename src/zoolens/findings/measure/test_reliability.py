import json

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import for_file
from zoolens.base.statistics.intervals import wilson
from zoolens.findings.measure.metrics.calibration import BINS
from zoolens.findings.measure.predictions import Predictions
from zoolens.findings.measure.reliability import reliability_chart, reliability_of
from zoolens.inventory.tasks.task import Answers


def predicted(sure, right, labels=None):
    sure, right = np.asarray(sure, np.float32), np.asarray(right, bool)
    labels = np.zeros(len(sure), np.int32) if labels is None else np.asarray(labels, np.int32)
    columns = {
        "top": np.where(right, labels, labels + 1).astype(np.int32)[:, None],
        "score": sure[:, None],
        "label_score": np.full(len(sure), 0.5, np.float32),
        "sum_squares": np.full(len(sure), 0.5, np.float32),
    }
    return Predictions(np.arange(len(sure)).astype(str), labels, (Answers("scores", "classification", columns),))


def test_bins_say_how_often_it_is_right_where_it_is_so_sure():
    sure = np.repeat([0.5, 0.99], [10, 30])
    right = np.r_[np.arange(10) < 2, np.arange(30) < 27]
    reliability = reliability_of(predicted(sure, right))
    filled = [part for part in reliability.bins if part.n]
    assert [part.n for part in filled] == [10, 30]
    assert [part.accuracy for part in filled] == [pytest.approx(0.2), pytest.approx(0.9)]
    assert (filled[0].accuracy_low, filled[0].accuracy_high) == wilson(2, 10)
    assert len(reliability.bins) == BINS
    assert reliability.ece.value == pytest.approx((10 * 0.3 + 30 * 0.09) / 40, abs=1e-6)


def test_inputs_without_a_label_do_not_count_as_wrong():
    all_of_them = reliability_of(predicted([0.9, 0.9, 0.9], [True, True, False], [0, 0, -1]))
    assert (all_of_them.n, all_of_them.unlabelled, all_of_them.accuracy) == (2, 1, 1.0)


def test_without_probabilities_or_labels_it_says_so():
    with pytest.raises(ZoolensError, match="without their probabilities"):
        reliability_of(predicted([np.nan, 0.5], [True, True]))
    with pytest.raises(ZoolensError, match="has a label"):
        reliability_of(predicted([0.5], [True], [-1]))


def test_the_picture_is_json_also_of_one_input():
    reliability = reliability_of(predicted([1.0], [True]))
    spec = for_file(reliability_chart(reliability))
    json.dumps(spec, allow_nan=False)
    (row,) = spec["vconcat"][0]["data"]["values"]
    assert (row["x"], row["y"], row["few"]) == (100, 100, True)
