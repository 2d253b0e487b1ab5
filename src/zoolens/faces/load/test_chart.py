import numpy as np

from zoolens.base.present import images
from zoolens.base.present.charts import themed
from zoolens.faces.load.chart import MOST_POINTS, latency_chart
from zoolens.faces.load.exchanges import Exchanges, Outcome
from zoolens.faces.load.results import summarise


def run_of(count, *, outcome=Outcome.ANSWERED):
    exchanges = Exchanges(count)
    exchanges.intended[:] = exchanges.sent[:] = np.linspace(0, 10, count, endpoint=False)
    latency = np.random.default_rng(0).exponential(0.01, count)
    for row in range(count):
        exchanges.finish(row, exchanges.intended[row] + latency[row], outcome)
        if outcome is Outcome.ANSWERED:
            exchanges.answered_by(row, "large" if row < count // 2 else "small")
    return exchanges, summarise(exchanges, loop="open", seconds=10, deadline=0.05)


def layers(chart):
    return themed(chart)["vconcat"][0]["layer"]


def test_every_answer_switch_and_the_deadline_are_drawn():
    chart = latency_chart(*run_of(400))
    switches, answers, deadline, words = layers(chart)
    assert len(switches["data"]["values"]) == 1
    assert len(answers["data"]["values"]) == 400
    assert answers["encoding"]["color"]["scale"]["domain"] == ["large", "small"]
    assert deadline["data"]["values"][0]["y"] == 50
    assert words["data"]["values"][0]["text"] == "deadline 50 ms"
    counts = themed(chart)["vconcat"][1]["data"]["values"]
    assert sum(row["y"] for row in counts if row["line"] == "requests sent") * 10 / 60 == 400


def test_of_many_answers_the_slowest_are_all_drawn():
    exchanges, results = run_of(12_000)
    drawn = layers(latency_chart(exchanges, results))[1]["data"]["values"]
    assert len(drawn) == MOST_POINTS
    slowest = np.sort(exchanges.latency)[-240:] * 1e3
    assert set(np.round(slowest, 6)) <= {round(row["y"], 6) for row in drawn}


def test_a_run_without_answers_is_drawn_too():
    chart = latency_chart(*run_of(50, outcome=Outcome.SHED))
    names = {row["line"] for row in themed(chart)["vconcat"][1]["data"]["values"]}
    assert "not answered" in names
    if images.can_draw():
        assert images.png(chart).startswith(b"\x89PNG")
