import json
from dataclasses import replace

import pytest

from zoolens.base.errors import UnknownName
from zoolens.base.present.charts import for_file
from zoolens.training.crosstrain.study.report.conftest import EVIL, made_study
from zoolens.training.crosstrain.study.report.plane_chart import plane_chart, plane_names, trial_as_data
from zoolens.training.crosstrain.study.report.study_findings import gather
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial


@pytest.fixture
def findings():
    study = made_study()
    failed = Trial(
        "failed",
        {"rate": 0.01, "optimizer": "sgd", "epochs": 3},
        (TrainedSide("torch", "failed"), TrainedSide("jax", accuracy=0.8)),
    )
    return gather(replace(study, trials=(*study.trials, failed)), deep=False)


def test_a_quick_look_leaves_out_what_takes_long(findings):
    assert findings.dependence is None
    assert findings.information == ()
    assert findings.pair_count == 40


def test_any_two_quantities_make_a_plane(findings):
    assert plane_names(findings) == ["rate", "optimizer", "torch", "jax", "Δ"]
    for x in plane_names(findings):
        chart = plane_chart(findings, x, "Δ" if x != "Δ" else "torch")
        json.dumps(for_file(chart), allow_nan=False)
    rows = plane_chart(findings, "rate", "optimizer").spec["data"]["values"]
    assert len(rows) == 41
    assert rows[0]["trial"] == "failed"  # without Δ, below all others
    assert rows[-1]["delta"] == max(row["delta"] for row in rows[1:])
    assert "1 without one of the two" in plane_chart(findings, "rate", "Δ").spec["title"]["subtitle"]
    with pytest.raises(UnknownName):
        plane_chart(findings, "rate", "rat")


def test_trials_are_plain_data(findings):
    data = [trial_as_data(findings, place) for place in range(len(findings.study.trials))]
    json.dumps(data, allow_nan=False)
    assert data[-1]["delta"] is None
    assert data[-1]["sides"][0]["status"] == "failed"
    assert data[0]["hyperparameters"]["optimizer"] in ("adam", "sgd")


def test_a_study_without_trials_and_names_of_strangers():
    empty = gather(Study("empty", ("torch", "jax"), ()), deep=False)
    json.dumps(for_file(plane_chart(empty, "torch", "jax")), allow_nan=False)
    evil = Trial(EVIL, {EVIL: 1.0}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", accuracy=0.6)))
    other = Trial("b", {EVIL: 2.0}, (TrainedSide("torch", accuracy=0.5), TrainedSide("jax", accuracy=0.9)))
    chart = plane_chart(gather(Study("evil", ("torch", "jax"), (evil, other)), deep=False), EVIL, "Δ")
    assert EVIL not in json.dumps([layer["transform"] for layer in chart.spec["layer"]])
