import json
from dataclasses import replace

import pytest

from zoolens.base.present.charts import RAMP
from zoolens.training.crosstrain.study.report import trial_charts
from zoolens.training.crosstrain.study.report.conftest import EVIL, made_study
from zoolens.training.crosstrain.study.report.dependence_charts import curves_chart, interaction_chart
from zoolens.training.crosstrain.study.report.study_findings import gather
from zoolens.training.crosstrain.study.report.trial_charts import (
    accuracy_chart,
    delta_chart,
    hyperparameter,
    pairs_chart,
    space_chart,
    training_chart,
)
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial


def marks(spec, kind):
    """Every mark of a kind in a spec, with its data (its own, or those of what it is in)."""

    def walk(part, data):
        data = part.get("data", data)
        mark = part.get("mark")
        if (mark.get("type") if isinstance(mark, dict) else mark) == kind:
            yield part, data["values"] if data else None
        for name in ("layer", "concat", "hconcat", "vconcat"):
            for inner in part.get(name, ()):
                yield from walk(inner, data)

    return list(walk(spec, None))


def test_every_trial_is_a_point_below_its_curve():
    findings = gather(made_study(30), deep=False)
    (_, points), *_ = marks(accuracy_chart(findings).spec, "circle")
    assert sorted(row["x"] for row in points if row["of"].startswith("torch")) == sorted(
        findings.accuracies["torch"].values
    )
    assert all(row["y"] < 0 for row in points)


def test_the_largest_difference_is_drawn_last_and_in_the_darkest_colour():
    findings = gather(made_study(30), deep=False)
    for chart in (space_chart(findings), pairs_chart(findings)):
        part, rows = marks(chart.spec, "circle")[-1]
        assert rows[-1]["delta"] == max(findings.delta.known)
        scale = part["encoding"]["color"]["scale"]
        assert (scale["domain"][-1], scale["range"][-1]) == (rows[-1]["delta"], RAMP[-1])


def test_every_plane_of_two_hyperparameters_and_the_difference_itself_are_panels():
    findings = gather(made_study(30), deep=False)  # rate and optimizer vary, epochs do not
    rows = space_chart(findings).spec["vconcat"]
    assert [len(row["hconcat"]) for row in rows] == [1, 2]
    assert [row["hconcat"][0]["layer"][0]["encoding"]["y"]["field"] for row in rows] == ["d1", "delta"]


def test_trials_without_a_difference_are_grey_and_lie_below():
    study = made_study(30)
    broken = replace(study.trials[0], sides=(study.trials[0].sides[0], TrainedSide("jax", "non-finite")))
    findings = gather(replace(study, trials=(broken, *study.trials[1:])), deep=False)
    chart = space_chart(findings)
    assert chart.spec["data"]["values"][0]["delta"] is None
    grey, coloured = chart.spec["vconcat"][0]["hconcat"][0]["layer"]
    assert "!isValid(datum.delta)" in grey["transform"][0]["filter"]
    assert "color" not in grey["encoding"]
    assert "color" in coloured["encoding"]


def test_a_very_large_study_is_thinned(monkeypatch):
    monkeypatch.setattr(trial_charts, "MOST_POINTS", 50)
    findings = gather(made_study(80), deep=False)
    _, rows = marks(pairs_chart(findings).spec, "circle")[-1]
    assert len(rows) == 50
    assert rows[-1]["delta"] == max(findings.delta.known)


def test_a_planned_logarithmic_range_is_drawn_so():
    study = made_study()
    space = [{"name": "rate", "low": 1e-5, "high": 0.1}, {"name": "optimizer", "choices": ["adam", "sgd"]}]
    assert gather(study, deep=False).log == {"rate"}
    assert gather(replace(study, details={"space": space}), deep=False).log == frozenset()
    narrow = tuple(replace(one, hyperparameters={"size": 16 + i}) for i, one in enumerate(study.trials))
    space = [{"name": "size", "low": 16, "high": 64, "log": True}]
    findings = gather(replace(study, trials=narrow, details={"space": space}))
    assert findings.dependence.curves[0].input.log
    assert hyperparameter("d0", "size", findings)["scale"]["type"] == "log"
    assert "type" not in hyperparameter("d0", "size", replace(findings, log=frozenset()))["scale"]


def test_three_sides_have_a_panel_for_each_pair():
    findings = gather(made_study(25, ("torch", "tensorflow", "jax")), deep=False)
    spec = pairs_chart(findings).spec
    assert [panel["layer"][-1]["encoding"]["x"]["axis"]["title"] for panel in spec["concat"]] == [
        "torch", "torch", "tensorflow",
    ]  # fmt: skip
    assert len({row["of"] for _, rows in marks(delta_chart(findings).spec, "line") for row in rows}) == 3


def test_the_surface_has_a_cell_for_every_value_and_the_trials_as_dots():
    study = made_study(60)
    findings = gather(study)
    surface = findings.dependence.surface
    chart = interaction_chart(surface, dict(findings.columns), findings.dependence)
    ((_, cells),) = marks(chart.spec, "rect")
    assert len(cells) == surface.mean.size
    assert {row["delta"] for row in cells} == set(surface.mean.ravel())
    ((_, dots),) = marks(chart.spec, "circle")
    assert len(dots) == 60
    assert len(curves_chart(findings.dependence).spec["concat"]) == 2


def test_epochs_that_have_no_number_are_left_out():
    sides = (
        TrainedSide("a", losses=(2.0, None, 1.0), accuracies=(0.1, 0.2, 0.3)),
        TrainedSide("b", losses=(3.0, float("nan"))),
    )
    chart = training_chart([Trial("t", {}, sides), Trial("short", {}, (TrainedSide("a", losses=(1.0,)),))])
    assert len(chart.spec["vconcat"]) == 1
    (_, losses), (_, accuracies) = marks(chart.spec, "line")
    assert [(row["of"], row["epoch"]) for row in losses] == [("a", 1), ("a", 3), ("b", 1)]
    assert [row["value"] for row in accuracies] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("draw", [accuracy_chart, delta_chart, pairs_chart, space_chart])
def test_names_of_strangers_are_values_and_titles_only(draw):
    """An expression of vega is code: no name may be in one."""
    trials = tuple(
        replace(one, hyperparameters={f"{EVIL}{name}": value for name, value in one.hyperparameters.items()})
        for one in made_study(30, (EVIL, "tensorflow", "jax")).trials
    )
    study = replace(made_study(30, (EVIL, "tensorflow", "jax"), name=EVIL), trials=trials)
    spec = draw(gather(study, deep=False)).spec

    def expressions(part):
        if isinstance(part, dict):
            for name, value in part.items():
                if name in ("labelExpr", "filter", "field", "test", "calculate", "expr", "signal"):
                    yield json.dumps(value)
                else:
                    yield from expressions(value)
        elif isinstance(part, list):
            for one in part:
                yield from expressions(one)

    assert EVIL in json.dumps(spec)
    assert not any("script" in one for one in expressions(spec))


def test_of_very_many_levels_the_first_are_drawn_and_no_other():
    study = made_study(60)
    settings = [{"kind": f"k{i % 15:02}", "rate": i} for i in range(60)]
    trials = tuple(replace(one, hyperparameters=given) for one, given in zip(study.trials, settings, strict=True))
    findings = gather(replace(study, trials=trials))
    curve = next(one for one in findings.dependence.curves if one.input.name == "kind")
    drawn = curves_chart(replace(findings.dependence, curves=(curve,))).spec["concat"][0]
    shown = drawn["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert [row["x"] for row in drawn["data"]["values"]] == shown == [f"k{i:02}" for i in range(12)]
    assert {row["d0"] for row in space_chart(findings).spec["data"]["values"]} == {*shown, None}
