import json

import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.records import Observation
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.history import history_chart, run_history


def run(store, value, *, name="net", **settings):
    made = write_run(store, name, one_hot([0, 1, 2]), [0, 1, 2], **settings)
    if value is not None:
        observation = Observation("top1", value, unit="fraction", low=value - 0.1, high=value + 0.1)
        store.finish_stage(made.id, "metric:topk", [observation])
    return made


def test_runs_of_one_model_on_one_data_by_stack(store):
    run(store, 0.5, runtime="one")
    run(store, 0.6, runtime="two")
    run(store, None, runtime="three")
    run(store, 0.9, runtime="one", dataset="elsewhere")
    run(store, 0.1, name="other")
    history = run_history(store, "*:net")
    assert [(point.stack, point.value) for point in history.points] == [("one 1", 0.5), ("two 1", 0.6)]
    assert (history.dataset, history.others, history.unknown) == ("digits", 1, 1)
    chart = history_chart(history)
    assert chart.spec["title"]["subtitle"] == "2 runs on digits; 1 on other datasets left out; 1 without this figure"
    assert [row["value"] for row in chart.spec["data"]["values"]] == [pytest.approx(50), pytest.approx(60)]


def test_another_content_of_the_name_is_a_square(store):
    run(store, 0.5, description="before")
    run(store, 0.6, description="now")
    history = run_history(store, "*:net")
    assert [point.current for point in history.points] == [False, True]
    assert "squares" in history_chart(history).spec["title"]["subtitle"]


@pytest.mark.parametrize("count", [0, 1])
def test_no_run_and_one_run_are_drawn(store, count):
    for _ in range(count):
        run(store, 0.5)
    chart = history_chart(run_history(store, "*:net"))
    json.dumps(for_file(chart), allow_nan=False)
    assert len(chart.spec["data"]["values"]) == count
