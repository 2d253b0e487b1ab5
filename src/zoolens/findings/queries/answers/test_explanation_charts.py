import json

from zoolens.base.present.charts import for_file
from zoolens.findings.queries.answers.explanation import explain_analyze, funnel
from zoolens.findings.queries.answers.explanation_charts import funnel_chart, misses_chart
from zoolens.findings.queries.query import query


def test_each_condition_tells_how_many_rows_it_leaves(index):
    plan = query("CORR big WITHIN 90% ON memory <= 20 MB", store=index).plan
    steps = {step.condition: step for step in funnel(plan)}
    assert steps["memory <= 20 MB"].left >= steps["equivalence >= 90 %"].left == int(plan.fitting.sum())
    for step in steps.values():
        assert step.left <= step.alone
    without = query("CORR big ON memory <= 20 MB", store=index).plan
    assert steps["equivalence >= 90 %"].only == int(without.fitting.sum()) - int(plan.fitting.sum())
    assert f"{steps['memory <= 20 MB'].left:,} after memory <= 20 MB" in explain_analyze(plan, 0, (), {})


def test_the_funnel_begins_with_all_rows_and_is_json(index):
    answer = query("CORR big WITHIN 90% ON memory <= 20 MB", store=index)
    chart = funnel_chart(answer.plan)
    rows = chart.spec["data"]["values"]
    assert (rows[0]["condition"], rows[0]["left"]) == ("all rows", len(index))
    assert rows[-1]["left"] == int(answer.plan.fitting.sum())
    json.dumps(for_file(chart), allow_nan=False)


def test_near_misses_are_bars_of_what_they_lack(index):
    answer = query("CORR big WITHIN 99.9% ON memory <= 40 MB", store=index)
    chart = misses_chart(answer)
    rows = chart.spec["data"]["values"]
    first = answer.misses[0]
    assert rows[0]["name"].startswith(first.ref.partition("@")[0])
    assert rows[0]["by"] == 100 * first.rejections[0].by
    assert [row["sentence"] for row in rows][: len(first.rejections)] == [why.sentence for why in first.rejections]


def test_without_near_misses_there_is_no_picture(index):
    answer = query("CORR big WITHIN 0% LIMIT 99", store=index)
    assert not answer.misses
    assert misses_chart(answer) is None


def test_an_unknown_figure_has_no_bar_but_a_sentence(index):
    chart = misses_chart(query("CORR big WITHIN 0% ON memory <= 0.1 MB ORDER BY memory", store=index))
    (unknown,) = [row for row in chart.spec["data"]["values"] if row["sentence"] == "memory is unknown"]
    assert unknown["by"] == 0
