import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.records import Provenance
from zoolens.findings.index.index import Index
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.queries.answers.choice import MOST_POINTS, Standing, answer_choice, index_choice
from zoolens.findings.queries.answers.choice_chart import choice_chart
from zoolens.findings.queries.query import query

MS = 1e-3


def row(name, latency, accuracy, size=1e6, *, provenance=Provenance.MEASURED, sure=None, cpu="one", runtime="fake"):
    """`sure`: half the width of both intervals, as a share of the figure."""
    figures = {
        "latency_p50@batch=1": Figure(latency * MS, "s", low=latency * MS * (1 - sure), high=latency * MS * (1 + sure))
        if sure
        else Figure(latency * MS, "s"),
        "top1": Figure(
            accuracy, "fraction", provenance, *((accuracy - sure / 10, accuracy + sure / 10) if sure else ())
        ),
    }
    if size is not None:
        figures["file_size"] = Figure(size, "B")
    return Row(f"run-{name}", name, f"zoo:{name}@1", {"name": name, "runtime": runtime, "cpu": cpu}, figures)


def points(choice):
    return {point.ref.partition(":")[2].partition("@")[0]: point for point in choice.points}


def drawn(chart):
    """The rows of the layer of points."""
    return next(layer for layer in chart.spec["layer"] if layer.get("name") == "points")["data"]["values"]


def texts(chart):
    return [
        row["text"] for layer in chart.spec["layer"] if "text" in layer["encoding"] for row in layer["data"]["values"]
    ]


def test_the_front_has_what_nobody_beats_in_both_and_the_wider_one_counts_the_size_too():
    choice = index_choice(
        Index([row("fast", 1, 0.7), row("good", 5, 0.9), row("slow", 6, 0.8), row("small", 6, 0.8, size=1e3)])
    )
    shown = points(choice)
    assert {name for name, point in shown.items() if point.front} == {"fast", "good"}
    assert {name for name, point in shown.items() if point.front_with_size} == {"fast", "good", "small"}
    assert choice.x.title == "median latency, one input at a time"  # its ticks have the unit
    assert choice.y.title == "top-1 accuracy"
    assert choice.x.factor == 1e-3


def test_a_claim_is_hollow_and_beats_nobody():
    claimed = row("claimed", 0.5, 0.99, provenance=Provenance.CLAIMED)
    choice = index_choice(Index([row("real", 1, 0.8), claimed]))
    assert points(choice)["real"].front
    assert not points(choice)["claimed"].front
    assert any(note.startswith("Hollow points (1)") for note in choice.notes)
    assert {row["name"]: row["measured"] for row in drawn(choice_chart(choice))} == {
        "zoo:real@1": True,
        "zoo:claimed@1": False,
    }


def test_only_who_is_beaten_beyond_the_intervals_is_pale():
    sure = Index([row("best", 1, 0.9, sure=0.1), row("near", 1.1, 0.895, sure=0.1), row("far", 9, 0.5, sure=0.1)])
    assert {name for name, point in points(index_choice(sure)).items() if point.beaten} == {"far"}
    unsure = Index([row("best", 1, 0.9), row("far", 9, 0.5)])
    assert not any(point.beaten for point in index_choice(unsure).points)  # without intervals nobody can say


def test_what_has_no_point_is_said():
    incomplete = replace(row("half", 1, 0.9), figures={"top1": Figure(0.9, "fraction")})
    not_a_number = row("nan", 2, float("nan"))
    choice = index_choice(Index([row("whole", 1, 0.8), incomplete, not_a_number]))
    assert [point.key for point in choice.points] == ["run-whole"]
    assert choice.notes[0].endswith("without a point: 2 of 3 rows.")
    choice_chart(choice)


def test_times_of_several_machines_are_told():
    choice = index_choice(Index([row("a", 1, 0.8), row("b", 2, 0.9, cpu="another")]))
    assert any("2 different processors" in note for note in choice.notes)


@pytest.mark.parametrize("rows", [[], [row("only", 1, 0.9)], [row("same", 1, 0.9), row("same too", 1, 0.9)]])
def test_no_point_one_point_and_equal_points_are_drawn(rows):
    chart = choice_chart(index_choice(Index(rows)))
    json.dumps(for_file(chart), allow_nan=False)
    assert ("layer" in chart.spec) == bool(rows)


def test_a_size_that_nobody_knows_is_left_out():
    choice = index_choice(Index([row("a", 1, 0.9, size=None)]))
    assert choice.size is None
    assert len(choice.points) == 1
    assert "size" not in choice_chart(choice).spec["layer"][-2]["encoding"]


def test_of_very_many_rows_a_sample_is_drawn_that_has_the_front():
    random = np.random.default_rng(0)
    many = [row(f"m{i}", *random.uniform((1, 0.2), (50, 0.8))) for i in range(MOST_POINTS + 500)]
    choice = index_choice(Index([*many, row("best", 0.5, 0.95)]))
    assert len(choice.points) == MOST_POINTS
    assert points(choice)["best"].front
    assert "A sample of 2,000 of 2,501 rows" in choice.notes[0]


def test_an_answer_shows_who_fits_and_what_was_asked(index):
    choice = answer_choice(query("CORR big WITHIN 90% ON latency <= 50% LIMIT 1", store=index))
    standing = {point.ref.partition(":")[2]: point.standing for point in choice.points}
    assert standing["big@1.0"] is Standing.REFERENCE
    assert {name for name, one in standing.items() if one is Standing.LEFT_OUT} == {"near@1.0", "tiny@1.0", "twin@1.0"}
    assert [standing[name] for name in ("silent@1.0",)] == [Standing.ANSWER]
    assert choice.x.limits == ((pytest.approx(5 * MS), "latency <= 5 ms (50 % of the reference's 10 ms)"),)
    chart = choice_chart(choice)
    assert "toys:big" in texts(chart)
    legend = next(layer for layer in chart.spec["layer"] if layer.get("name") == "points")["encoding"]["color"]["scale"]
    assert legend["domain"] == ["in the answer", "fits too", "reference", "does not fit"]


def test_whoever_was_not_judged_is_not_known_and_not_unfit():
    rows = [row("fits", 1, 0.7), row("large", 1, 0.8, size=9e9), row("open", 1, 0.9, size=None)]
    answer = query("ON latency <= 2 ms AND size <= 1 MB", store=Index([*rows, row("slow", 6, 0.9, size=None)]))
    shown = points(answer_choice(answer))
    assert shown["open"].standing is Standing.NOT_KNOWN  # its size is not known, and its latency is well
    assert {shown[name].standing for name in ("large", "slow")} == {Standing.LEFT_OUT}
    assert [(models.understood, models.total) for models in answer.verdict.coverage.tallies] == [(3, 4)]


def test_near_misses_say_why_not(index):
    choice = answer_choice(query("CORR big WITHIN 99.5% ON latency < 1 ms", store=index))
    misses = [point for point in choice.points if point.standing is Standing.NEAR_MISS]
    assert misses
    assert any("equivalence is" in point.why_not for point in misses)


def test_the_picture_can_be_brushed_and_names_of_strangers_are_data(index):
    hostile = replace(row("x", 1, 0.9), ref="zoo:<img onerror=alert(1)>'\"]+datum.x@1")
    chart = choice_chart(index_choice(Index([hostile, row("y", 2, 0.95)])))
    layer = next(layer for layer in chart.spec["layer"] if layer.get("name") == "points")
    assert [param["name"] for param in layer["params"]] == ["brush", "picked"]
    without_data = [{key: part for key, part in layer.items() if key != "data"} for layer in chart.spec["layer"]]
    assert "onerror" not in json.dumps(without_data)
