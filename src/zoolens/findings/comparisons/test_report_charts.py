import json

import numpy as np
import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.records import Observation
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.report_charts import figures_chart, flips, flips_chart, side_names, told_figures

LABELS = np.arange(20) % 4
A = LABELS.copy()
B = LABELS.copy()
A[:3] = (A[:3] + 1) % 4  # wrong on 0, 1, 2
B[2:4] = (B[2:4] + 2) % 4  # wrong on 2, 3


@pytest.fixture
def pair(store):
    return write_run(store, "a", one_hot(A, 4), LABELS), write_run(store, "b", one_hot(B, 4, sure=0.6), LABELS)


def observe(store, run, **figures):
    store.finish_stage(run.id, "size", [
        Observation(name, value, scope="batch=1" if unit == "s" else "", unit=unit, low=low, high=high)
        for name, (value, unit, low, high) in figures.items()
    ])  # fmt: skip


def test_flips_are_counted_by_who_was_right_and_drawn_by_how_sure_both_were(store, pair):
    report = compare_runs(store, *pair)
    assert flips(report) == {"only A correct": 1, "only B correct": 2, "both wrong": 1}
    chart = flips_chart(report)
    rows = {row["input"]: row for row in chart.spec["data"]["values"]}
    assert set(rows) == {"0", "1", "2", "3"}
    assert rows["3"]["of"] == "only A correct: 1"
    assert (rows["3"]["x"], rows["3"]["y"]) == (pytest.approx(90), pytest.approx(60))
    assert chart.spec["params"][0]["select"]["fields"] == ["input"]
    assert chart.spec["title"]["subtitle"] == "4 of 20 inputs (20.0 %)"
    json.dumps(for_file(chart), allow_nan=False)


def test_flips_call_classes_by_their_names_or_else_by_their_numbers(store, pair):
    def words(a, b):
        rows = flips_chart(compare_runs(store, a, b)).spec["data"]["values"]
        return next(row["words"] for row in rows if row["input"] == "3")

    assert words(*pair) == f"label class {LABELS[3]}, A class {A[3]}, B class {B[3]}"
    names, unlabelled = ["ant", "bee", "cat", "dog"], np.full(len(LABELS), -1)
    named = [write_run(store, name, one_hot(side, 4), unlabelled, classes=names) for name, side in (("c", A), ("d", B))]
    assert words(*named) == f"A {names[A[3]]}, B {names[B[3]]}"


def test_equal_answers_have_no_picture_of_flips(store, pair):
    report = compare_runs(store, pair[0], pair[0])
    assert flips_chart(report) is None
    assert flips(report) == {}


def test_figures_are_told_relative_to_the_first_run(store, pair):
    observe(
        store, pair[0], latency_p50=(0.01, "s", 0.009, 0.011), file_size=(100.0, "B", None, None), odd=(1.0, "", 0, 2)
    )
    observe(
        store, pair[1], latency_p50=(0.02, "s", 0.018, 0.022), file_size=(50.0, "B", None, None), odd=(1.0, "", 0, 2)
    )
    for run, value in zip(pair, (0.85, 0.9), strict=True):
        store.finish_stage(run.id, "metric:topk", [Observation("top1", value, unit="fraction", low=0.8, high=0.95)])
    report = compare_runs(store, *pair)
    assert [each.metric for each in told_figures(report)] == ["top1", "latency_p50", "file_size"]
    shares, others = figures_chart(report).spec["vconcat"]
    assert [row["x"] for row in shares["data"]["values"]] == [0, pytest.approx(5)]
    drawn = {(row["figure"], row["of"][0]): row for row in others["data"]["values"]}
    assert drawn["latency p50, batch 1", "B"]["x"] == pytest.approx(2)
    assert drawn["latency p50, batch 1", "B"]["low"] == pytest.approx(1.8)
    assert drawn["file size", "B"]["low"] is None
    assert "p = " in figures_chart(report).spec["title"]["subtitle"]


def test_a_figure_of_zero_has_no_ratio_and_none_has_no_picture(store, pair):
    assert figures_chart(compare_runs(store, *pair)) is None
    for run, value in zip(pair, (0.0, 5.0), strict=True):
        observe(store, run, latency_p50=(value, "s", None, None))
    assert figures_chart(compare_runs(store, *pair)) is None


def test_one_model_in_two_stacks_is_named_by_the_stacks(store, pair):
    other = write_run(store, "a", one_hot(A, 4), LABELS, runtime="another")
    names = side_names(compare_runs(store, pair[0], other))
    assert names == ("A: zoo:a in fake 1", "B: zoo:a in another 1")
