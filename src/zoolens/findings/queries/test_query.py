import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.statistics.binomial import binomial_lower
from zoolens.base.store.records import Provenance
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.index.index import Index
from zoolens.findings.index.tables.rows import Figure
from zoolens.findings.queries.conftest import MODELS
from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.syntax import Query
from zoolens.findings.queries.planning.planner import make_plan
from zoolens.findings.queries.planning.view import View
from zoolens.findings.queries.prepared_query import PreparedQuery
from zoolens.findings.queries.query import prepare, query


def names(answer):
    return [match.row.attributes["name"] for match in answer.matches]


def ask(index, text, **given):
    return query(text, store=index, **given)


def test_most_alike_within_the_budget(index):
    answer = ask(index, "SELECT MODELS CORR big WITHIN 90% ON memory <= 70%")
    assert names(answer) == ["near", "small"]
    assert answer.best.ref == "toys:near@1.0"
    assert answer.best.equivalence == 0.98
    assert answer.best.figures["memory"].value == 60e6
    assert answer.best.ratios["memory"] == pytest.approx(0.6)
    assert answer.reference.ref == "toys:big@1.0"
    assert (answer.dataset, answer.n, answer.fitting) == ("probes", 1000, 2)
    assert answer
    assert len(answer) == 2


def test_keywords_ask_the_same(index):
    text = ask(index, "SELECT MODELS CORR big WITHIN 90% ON memory <= 70%")
    words = query(ref="big", within=0.9, memory="70%", store=index)
    assert names(text) == names(words)
    assert text.query == words.query


def test_one_row_for_each_model_the_best_that_fits(index):
    assert ask(index, "CORR big ON memory <= 20 MB LIMIT 1").best.runtime == "onnxruntime"
    assert ask(index, "CORR big ON memory < 15 MB LIMIT 1").best.runtime == "litert"
    assert names(ask(index, "CORR big ON memory <= 20 MB LIMIT 2")) == ["small", "tiny"]
    assert names(ask(index, "CORR big EXEC (runtime=litert)", ref="small")) == []


def test_formats_and_names_of_one_model_are_one(index):
    rows = [replace(row, model=f"content {number}") for number, row in enumerate(index.rows)]
    rows[3] = replace(rows[3], ref="toys:renamed@1.0", model=rows[4].model)  # small in litert: tiny's content
    assert View(Index(rows)).models.tolist() == [0, 1, 2, 3, 3, 5, 6, 7]
    assert View(Index([replace(row, ref="a") for row in rows])).models.tolist() == [0] * 8
    assert View(Index([])).models.tolist() == []


def test_an_index_of_some_rows_answers_of_these_alone(index):
    some = index.only({"run-big", "run-small", "run-tiny"})
    assert len(some) == 3
    assert names(ask(some, "CORR big WITHIN 90%")) == ["small"]
    whole = ask(index, "CORR big WITHIN 90%")
    assert {match.ref: match.equivalence for match in whole.matches}["toys:small@1.0"] == some.agreement(0)[1]


def test_twins_are_candidates_only_when_asked_for(index):
    assert names(ask(index, "CORR big LIMIT 1")) == ["near"]
    assert names(ask(index, "CORR big SEGMENTS LIMIT 1")) == ["twin"]


def test_order_by_expression_and_function(index):
    assert names(ask(index, "CORR big WITHIN 90% ORDER BY latency")) == ["small", "silent", "near"]
    assert names(ask(index, "CORR big ORDER BY latency / REF.latency DESC LIMIT 1")) == ["near"]
    answer = ask(
        index,
        "CORR big ORDER BY worth(equivalence, latency) DESC LIMIT 2",
        functions={"worth": lambda e, s: e - 100 * s},
    )
    assert names(answer) == ["small", "tiny"]  # 0.94 − 0.2 (0.938 − 0.15 in litert), 0.8 − 0.1
    assert answer.best.runtime == "litert"


def test_resources_alone_need_no_reference_and_take_claims(index):
    answer = ask(index, "SELECT MODELS ON memory <= 10 MB")
    assert names(answer) == ["claimed", "tiny", "small"]
    assert answer.best.figures["memory"].provenance is Provenance.CLAIMED
    assert answer.best.equivalence is None
    assert answer.reference is None
    assert names(ask(index, "ON memory <= 10 MB EXEC (provenance=measured)")) == ["tiny", "small"]
    assert names(ask(index, "ON accuracy >= 80%"))[:2] == ["claimed", "big"]


def test_task_takes_the_most_accurate_measured_model(index):
    answer = ask(index, "TASK image-classification LIMIT 1")
    assert answer.reference.ref == "toys:big@1.0"
    assert answer.plan.guarantee.comparisons == answer.plan.candidates * answer.plan.reference.among
    with pytest.raises(ZoolensError, match="no task 'poetry'"):
        ask(index, "TASK poetry")


def test_who_names_a_task_may_get_the_most_accurate_model_in_another_runtime(make_index):
    """Who names a model by CORR asks what else there is."""
    index = make_index({**MODELS, "big/litert": ("litert", 0, 90, 0.5)})
    asked = "ON accuracy_drop <= 1% ORDER BY latency_p50"
    answer = ask(index, f"TASK image-classification {asked}")
    assert (answer.reference.runtime, answer.reference.ref) == ("onnxruntime", "toys:big@1.0")
    assert (answer.best.runtime, answer.best.ref) == ("litert", "toys:big@1.0")
    assert names(answer).count("big") == 1
    assert "big" not in names(ask(index, f"CORR big {asked}"))
    # in the order of agreement too, and its comparison is counted like any other
    agreeing = ask(index, "TASK image-classification")
    assert names(agreeing)[0] == "big"
    assert agreeing.plan.candidates == ask(index, "CORR big").plan.candidates + 1


def test_where(index):
    assert names(ask(index, "CORR big WHERE name LIKE 's%' LIMIT 5")) == ["silent", "small"]


# --- confidence


def test_confidence_is_for_every_figure_made_from_answers(index):
    """Not for WITHIN alone: what is asked of accuracy and of agreement holds of their confidence bounds."""
    for said, meant in (
        ("ON accuracy >= 80%", "ON accuracy_lower >= 80%"),
        ("CORR big ON equivalence >= 93%", "CORR big ON equivalence_lower >= 93%"),
        ("CORR big ON agreement > 93% AND memory <= 60 MB", "CORR big ON equivalence_lower > 93% AND memory <= 60 MB"),
    ):
        confident = ask(index, f"{said} CONFIDENCE 95%")
        assert [one.ref for one in confident.matches] == [one.ref for one in ask(index, meant).matches]
        assert len(confident) < len(ask(index, said))
        assert f"{said} CONFIDENCE 95%" in confident.query  # as it was asked
    assert "accuracy" in ask(index, "ON accuracy >= 80% CONFIDENCE 95%").best.figures


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("CORR big CONFIDENCE 95%", "CONFIDENCE decides nothing", "Add WITHIN 95%"),
        ("CORR big ON memory <= 50% CONFIDENCE 95%", "CONFIDENCE decides nothing", "accuracy_drop <= 2%"),
        ("ON accuracy <= 80% CONFIDENCE 95%", "cannot be had for accuracy <=", "Write accuracy >= 80%"),
        ("CORR big ON accuracy_drop >= 1% CONFIDENCE 95%", "cannot be had for accuracy_drop", "accuracy_drop <= 2%"),
        ("CORR big ON accuracy = 90% CONFIDENCE 95%", "cannot be had for accuracy =", "Write accuracy >= 80%"),
        ("CORR big ON accuracy >= 98% OF REF CONFIDENCE 95%", "share of the reference's accuracy", "accuracy_drop"),
        ("CORR big ON l2 <= 1 CONFIDENCE 95%", "No confidence bound of l2", "accuracy_drop"),
    ],
)
def test_a_confidence_that_cannot_be_given_is_refused_with_the_words_to_write(index, text, message, hint):
    with pytest.raises(QueryError, match=message) as caught:
        ask(index, text)
    assert hint in caught.value.hint


def test_twins_that_might_have_been_made_count(make_index):
    def comparisons(**attributes):
        built = make_index()
        rows = [replace(row, attributes={**row.attributes, **attributes}) if row.twin_of else row for row in built.rows]
        found = Index(rows, dataset=built.dataset, semantic=built.semantic)
        return ask(found, "SELECT MODELS WITH SEGMENTS CORR big WITHIN 50%").guarantee.comparisons

    made = comparisons()
    assert comparisons(twins_possible=5) == made + 4  # one of five was made, by looking at answers
    assert (
        comparisons(segments="a → b (equal weights); c → d (near weights)") == made + 1
    )  # from before it was recorded
    assert comparisons(twins_possible=1) == made


def test_confidence_is_a_stricter_threshold(index):
    without = ask(index, "CORR big WITHIN 93%")
    confident = ask(index, "CORR big WITHIN 93% CONFIDENCE 95%")
    assert names(without) == ["near", "silent", "small"]
    assert names(confident) == ["near", "silent"]
    alpha = 0.05 / 5  # near, small in two runtimes, tiny, silent
    assert confident.best.equivalence_lower == pytest.approx(binomial_lower(980, 1000, alpha))
    assert all(match.equivalence_lower >= 0.93 for match in confident.matches)


def test_only_what_does_not_look_at_answers_narrows_the_candidates(index):
    assert ask(index, "CORR big WITHIN 90%").plan.guarantee.comparisons == 5
    assert ask(index, "CORR big WITHIN 90% ON memory <= 20 MB").plan.guarantee.comparisons == 3
    assert ask(index, "CORR big WITHIN 90% WHERE runtime = litert").plan.guarantee.comparisons == 1
    assert ask(index, "CORR big WITHIN 90% ON accuracy >= 89%").plan.guarantee.comparisons == 5
    assert ask(index, "CORR big ON equivalence >= 97%").plan.guarantee.comparisons == 5


def test_each_kind_of_bound_counts(index):
    assert ask(index, "CORR big WITHIN 50% ON accuracy_lower >= 50%").plan.guarantee.comparisons == 10
    assert ask(index, "CORR big ON accuracy_lower >= 50%").plan.guarantee.comparisons == 10  # agreement's is shown
    assert ask(index, "CORR big ORDER BY accuracy_lower DESC").plan.guarantee.comparisons == 10
    assert ask(index, "CORR big ORDER BY equivalence_lower DESC").plan.guarantee.comparisons == 5


def test_what_is_not_bounded_promises_nothing(index):
    answer = ask(index, "ON memory <= 10 MB")
    assert (answer.guarantee, answer.confidence) == (None, None)
    assert ask(index, "ON accuracy_lower >= 50%").confidence == 0.95


def test_bound_off(index):
    answer = ask(index, "CORR big WITHIN 93% BOUND OFF")
    assert names(answer) == ["near", "silent", "small"]
    assert answer.best.equivalence_lower is None
    assert answer.confidence is None
    with pytest.raises(ZoolensError, match="equivalence_lower needs a bound"):
        ask(index, "CORR big ON equivalence_lower >= 90% BOUND OFF")
    with pytest.raises(QueryError, match="CONFIDENCE needs a bound") as caught:
        ask(index, "CORR big WITHIN 93% CONFIDENCE 95% BOUND OFF")  # confidence was asked for: not just left out
    assert caught.value.start == 35


def test_too_few_probes_for_such_a_claim(index):
    with pytest.raises(ZoolensError, match="Even 1,000 equal answers to 1,000 inputs"):
        ask(index, "CORR big WITHIN 99.99% CONFIDENCE 95%")


def test_bound_from_other_data(make_index):
    here, there = make_index(), make_index(probes=400, name="elsewhere")
    plan = make_plan(Query(reference="big", within=0.8, confidence=0.95), View(here), elsewhere=View(there))
    answer = PreparedQuery(plan).run()
    assert names(answer) == ["near", "silent", "small"]  # of 400, small differs in 60
    assert answer.best.equivalence == 0.98
    assert answer.best.equivalence_lower == pytest.approx(binomial_lower(380, 400, 0.05 / 5))
    assert "from 400 inputs of elsewhere" in answer.explanation


def test_a_loss_of_exactly_as_much(make_index):
    """0.9 less 0.87 is 0.030000000000000027."""
    models = {"big": ("a", 0, 1, 1), "other": ("a", 33, 1, 1)}  # of these, 30 were right
    answer = ask(make_index(models), "CORR big ON accuracy_drop <= 3%")
    assert names(answer) == ["other"]
    assert answer.best["accuracy_drop"] == 0.03


def test_nothing_is_a_share_of_what_compares_with_the_reference(index):
    for bound in ("accuracy_drop <= 50% OF REFERENCE", "l2 <= 50%", "equivalence >= 90% OF REFERENCE"):
        with pytest.raises(QueryError, match="compares with the reference"):
            ask(index, f"CORR big ON {bound}")
    assert ask(index, "CORR big ON accuracy_lower >= 90% OF REFERENCE")


def test_figures_relative_to_the_reference(index):
    assert names(ask(index, "CORR big ON accuracy_drop <= 3% LIMIT 9")) == ["near", "silent"]
    assert names(ask(index, "CORR big ON accuracy >= 95% OF REFERENCE")) == ["near", "silent"]
    lower = ask(index, "CORR big ON equivalence_lower >= 93%").matches
    assert [match.row.attributes["name"] for match in lower] == ["near", "silent"]
    assert lower[0].figures["equivalence_lower"].value == lower[0].equivalence_lower


# --- nothing fits


def test_nothing_fits_is_never_silent(index):
    answer = ask(index, "CORR big WITHIN 95% ON memory <= 5%")
    assert not answer
    assert answer.best is None
    assert answer.matches == ()
    assert [miss.row.attributes["name"] for miss in answer.misses] == ["tiny", "small", "near", "silent"]
    tiny, small, near, silent = answer.misses
    assert [one.sentence for one in tiny.rejections] == ["equivalence is 80 %, 15 points below 95 %"]
    assert small.runtime == "litert"
    assert small.rejections[1].sentence == "memory is 10 MB, 100 % above 5 MB"
    assert small.rejections[1].by == pytest.approx(1.0)
    assert near.rejections[0].threshold == 5e6
    assert silent.rejections[0].sentence == "memory is unknown"
    assert silent.rejections[0].by is None
    assert "Nothing fits" in repr(answer)
    assert "memory is unknown" in repr(answer)


def test_bounds_of_near_misses_count_all_that_were_considered(index):
    answer = ask(index, "CORR big WITHIN 95% ON memory <= 1%")
    assert answer.plan.candidates == 0
    assert answer.guarantee.comparisons == 5
    assert answer.misses[0].equivalence_lower == pytest.approx(binomial_lower(800, 1000, 0.05 / 5))


def test_of_equally_near_misses_the_most_alike_comes_first(index):
    answer = ask(index, "CORR big WHERE zoo = 'nowhere'")
    assert [miss.row.attributes["name"] for miss in answer.misses] == ["near", "silent", "small", "tiny"]


def test_a_limit_of_nothing_has_no_share(index):
    miss = ask(index, "CORR big ON memory < 0%").misses[0]
    assert [one.sentence for one in miss.rejections] == ["memory is 5 MB, above 0 B"]
    assert miss.rejections[0].by is None


def test_else_nearest(index):
    answer = ask(index, "CORR big WITHIN 95% ON memory <= 5% LIMIT 2 ELSE NEAREST")
    assert answer
    assert not answer.exact
    assert names(answer) == ["tiny", "small"]
    assert not answer.best.fits
    assert names(ask(index, "CORR big ELSE NEAREST LIMIT 1")) == ["near"]


def test_a_condition_that_nobody_meets_is_the_reason(index):
    answer = ask(index, "CORR big ON memory <= 20 MB WHERE zoo = 'nowhere'")
    assert answer.misses[0].rejections[0].sentence == "WHERE zoo = 'nowhere' does not hold"
    assert [one.fits for one in answer.misses] == [False] * len(answer.misses)


# --- mistakes


@pytest.mark.parametrize(
    ("text", "told", "at"),
    [
        ("CORR bigg", "Did you mean toys:big", "bigg"),
        ("CORR big ON memmory <= 3 MB", "Did you mean memory", "memmory"),
        ("CORR big ORDER BY latenzy", "Did you mean latency", "latenzy"),
        ("CORR big WHERE zooo = 'toys'", "Did you mean zoo", "zooo"),
        ("CORR big WHERE equivalence > 0.9", "Write ON equivalence", "equivalence"),
        ("CORR big WHERE memory LIKE 'x*'", "is a number, and LIKE compares text", "memory"),
        ("CORR big WHERE memory = large", "is compared with a number; 'large' is not one", "memory"),
        (
            "CORR big WITHIN 50% CONFIDENCE 95% WHERE accuracy > 0.8",
            "CONFIDENCE cannot be had",
            "accuracy",
        ),
        ("CORR big SHOW memry", "Did you mean memory", "memry"),
        ("CORR big ON memory <= -5 MB", "memory is never negative", "memory"),
        ("CORR big ON latency > -10%", "latency is never negative", "latency"),
        ("CORR big ORDER BY memory / 0", "divides by zero", "ORDER"),
        ("CORR big ORDER BY memory / (1 - 1)", "divides by zero", "ORDER"),
        ("CORR big EXEC (runtim=litert)", "Did you mean runtime", "runtim"),
        ("CORR big ORDER BY worht(memory)", "no function for ORDER BY named 'worht'", "worht"),
        ("CORR big ORDER BY log(memory, 2)", "log takes one argument", "log"),
        ("CORR a WITHIN 90%", "could be any of", "a"),
        ("CORR near EXEC (runtime=litert)", "was not measured with runtime=litert", "near"),
        ("CORR near EXEC (runtime=litert, batch=1)", "of candidates alone, write WHERE runtime = 'litert'", "near"),
        ("ON memory <= 20%", "the query names none", "memory"),
        ("ORDER BY equivalence", "the query names none", "equivalence"),
        ("WITHIN 95% ON memory <= 20 MB", "WITHIN is relative", "WITHIN"),
        ("CORR silent ON memory <= 20%", "has no peak_memory@process", "memory"),
        ("CORR big EXEC (batch=many)", "batch size is 'many'", "batch"),
        ("CORR big EXEC (provenance=claimed)", "cannot be asked for", "provenance"),
        ("TASK poetry", "no task 'poetry'", "poetry"),
        ("CORR claimed ON memory <= 1 GB", r"claimed was not measured on probes(.|\n)*other:claimed`\.$", "claimed"),
        ("CORR big WITHIN 99.99% CONFIDENCE 95%", "Even 1,000 equal answers", "WITHIN"),
        ("CORR big BOUND 'elsewhere'", "needs the store", "BOUND"),
    ],
)
def test_names_that_mean_nothing_are_pointed_at(index, text, told, at):
    with pytest.raises(QueryError, match=told) as caught:
        ask(index, text)
    assert text[caught.value.start : caught.value.end] == at


def test_metrics_of_your_own_are_bounded_in_their_unit(index):
    figures = {"download": Figure(0.2, "s"), "confusion": Figure(0.1, "fraction")}
    rows = [replace(row, figures={**row.figures, **figures}) for row in index.rows]
    own = Index(rows, dataset=index.dataset, semantic=index.semantic)
    for bound in ("download <= 300 ms", "download <= 1x", "download <= 100%", "confusion <= 0.1", "confusion <= 1x"):
        assert ask(own, f"CORR big ON {bound}"), bound
    with pytest.raises(QueryError, match="MB counts bytes, but download is in seconds"):
        ask(own, "CORR big ON download <= 100 MB")
    with pytest.raises(QueryError, match=r"could be of 1 or of the reference's(.|\n)*Write 0.2, or 0.2x"):
        ask(own, "CORR big ON confusion <= 20%")


def test_other_mistakes(index):
    with pytest.raises(UnknownName, match="memmory"):
        query(ref="big", memmory="3 MB", store=index)
    with pytest.raises(ZoolensError, match="names none"):
        ask(index, "ON memory <= 20%")
    with pytest.raises(ZoolensError, match="WITHIN is relative"):
        ask(index, "WITHIN 95% ON memory <= 20 MB")
    with pytest.raises(ZoolensError, match="has no peak_memory@process"):
        ask(index, "CORR silent ON memory <= 20%")
    with pytest.raises(ZoolensError, match="was not measured on probes"):
        ask(index, "CORR claimed")
    with pytest.raises(ZoolensError, match="batch size is 'many'"):
        ask(index, "CORR big EXEC (batch=many)")
    with pytest.raises(ZoolensError, match="needs the store"):
        ask(index, "CORR big BOUND 'elsewhere'")


# --- claims and estimates


def of(index, name, metric, **changes):
    """The index with one figure changed."""
    rows = list(index.rows)
    number = next(i for i, row in enumerate(rows) if row.attributes["name"] == name)
    figures = {**rows[number].figures, metric: rows[number].figures[metric]._replace(**changes)}
    rows[number] = replace(rows[number], figures=figures)
    return Index(rows, dataset=index.dataset, semantic=index.semantic)


def test_only_what_was_measured_orders_too(index):
    guessed = of(index, "tiny", "latency_p50@batch=1", provenance=Provenance.ESTIMATED)
    assert names(ask(guessed, "CORR big ORDER BY latency LIMIT 1")) == ["tiny"]
    assert names(ask(guessed, "CORR big ORDER BY latency LIMIT 1 EXEC (provenance=measured)")) == ["small"]


def test_a_share_of_what_the_reference_only_claims(index):
    claimed = of(index, "big", "peak_memory@process", provenance=Provenance.CLAIMED)
    answer = ask(claimed, "EXPLAIN CORR big ON memory <= 20%")
    assert "memory <= 20 MB (20 % of the reference's 100 MB, which is claimed)" in answer.explanation
    for text in ("ON memory <= 20%", "ORDER BY memory / REF.memory"):
        with pytest.raises(QueryError, match="is claimed, and only what was measured"):
            ask(claimed, f"CORR big {text} EXEC (provenance=measured)")


def test_why_not_says_what_is_only_claimed(index):
    claimed = of(index, "tiny", "peak_memory@process", provenance=Provenance.CLAIMED)
    miss = next(one for one in ask(claimed, "CORR big ON memory < 1 MB").misses if one.ref == "toys:tiny@1.0")
    assert miss.rejections[0].sentence == "memory is 5 MB (claimed), 400 % above 1 MB"


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_unknown(index, odd):
    strange = of(index, "tiny", "peak_memory@process", value=odd)
    answer = ask(strange, "CORR big ON latency < 10 ms AND memory < 1 MB ORDER BY memory")
    json.dumps(answer.as_data(), allow_nan=False)
    answer = ask(strange, "CORR big ORDER BY memory")
    json.dumps(answer.as_data(), allow_nan=False)
    assert set(names(answer)[-2:]) == {"silent", "tiny"}
    assert "memory" not in answer.matches[-1].figures


# --- the whole against brute force

MEMORY = st.sampled_from([None, 5.0, 10.0, 20.0, 40.0])
FLEET = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 40), MEMORY, st.integers(1, 4)), max_size=8)


@given(FLEET, st.sampled_from([0, 50, 80, 90]), st.sampled_from([4, 10, 30]), st.booleans(), st.integers(1, 4))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_answer_is_what_looking_at_every_row_gives(make_index, fleet, within, most, by_latency, limit):
    models = {"big": ("a", 0, 100, 10)} | {f"m{i // 2}/{i}": one for i, one in enumerate(fleet)}
    index = make_index(models, probes=100)
    order = "latency" if by_latency else "equivalence DESC"
    answer = ask(index, f"CORR big WITHIN {within}% ON memory < {most} MB ORDER BY {order} LIMIT {limit}")
    fitting = [
        (one[3] if by_latency else one[1], i)
        for i, one in enumerate(fleet)
        if one[2] is not None and one[2] < most and one[1] <= 100 - within
    ]
    best = list(dict.fromkeys(f"m{i // 2}" for _, i in sorted(fitting)))
    assert names(answer) == best[:limit]
    assert answer.fitting == len(best)
    others = {f"model-m{i // 2}" for i in range(len(fleet))} - {f"model-{name}" for name in best}
    assert {match.row.model for match in answer.misses} == others
    assert all(match.rejections for match in answer.misses)


# --- prepared queries, other forms of an answer


def test_prepared_queries_run_again_with_other_limits(index):
    prepared = prepare("CORR big", store=index)
    assert names(prepared.run(limit=1)) == ["near"]
    assert len(prepared.run()) == 4
    assert prepared.run().matches[0] == prepared.run(limit=1).best
    for limit in (0, -1, "many"):
        with pytest.raises(ZoolensError, match="not a whole number"):
            prepared.run(limit=limit)


def test_explain(index):
    told = ask(index, "EXPLAIN CORR big WITHIN 90% ON memory <= 20%").explanation
    assert "reference: toys:big@1.0 in onnxruntime" in told
    candidates = told.index("candidates: 3 of 8 rows")
    assert (
        candidates < told.index("memory <= 20 MB") < told.index("answers on the probes") < told.index("equivalence >=")
    )
    assert "memory <= 20 MB (20 % of the reference's 100 MB)" in told
    assert "near misses" not in told
    analysed = ask(index, "EXPLAIN ANALYZE CORR big WITHIN 90% ON memory <= 20%")
    assert "toys:near@1.0 in onnxruntime: memory is 60 MB, 200 % above 20 MB" in analysed.explanation
    assert "search:" in analysed.explanation
    assert "3 after memory <= 20 MB" in analysed.explanation  # as many as there are candidates
    assert repr(analysed) == analysed.explanation


def test_explain_without_candidates(make_index):
    told = ask(make_index({"big": ("a", 0, 1, 1)}), "EXPLAIN ANALYZE CORR big").explanation
    assert "none: no candidate" in told
    assert "comparisons" not in told


def test_data_and_frame(index):
    answer = ask(index, "CORR big WITHIN 90% ON memory <= 70%")
    data = answer.as_data()
    assert data["matches"][0]["figures"]["memory"] == {
        "value": 60e6, "unit": "B", "provenance": "measured", "low": None, "high": None, "error": None, "ratio": 0.6,
    }  # fmt: skip
    assert data["reference"]["model"] == "toys:big@1.0"
    frame = answer.frame()
    assert frame["model"].tolist() == ["toys:near@1.0", "toys:small@1.0"]
    assert frame["memory_ratio"].tolist() == pytest.approx([0.6, 0.15])
    assert np.isfinite(frame["equivalence_lower"]).all()


def test_distances_of_models_that_order_their_classes_differently(tmp_path):
    given = np.arange(40) % 10
    names_in_order = [f"class {number}" for number in range(10)]
    turned = {"outputs": [{"labels": names_in_order[-3:] + names_in_order[:-3]}]}
    with open_store(tmp_path / "store.sqlite") as store:
        write_run(store, "plain", one_hot(given), given, classes=names_in_order)
        write_run(store, "turned", one_hot((given + 3) % 10), given, classes=names_in_order, **turned)
        answer = query("CORR plain ON l2 < 0.2", store=store)
        assert answer.best.ref == "zoo:turned@1.0.0"
        assert answer.best["l2"] < 0.05  # they answer alike, class for class


# --- for newcomers


def test_like_is_corr(index):
    assert query("LIKE big WITHIN 90%", store=index).query == query("CORR big WITHIN 90%", store=index).query
    with pytest.raises(QueryError, match="a second time"):
        query("LIKE big CORR near", store=index)


def test_where_takes_figures_and_or_goes_over_both(index):
    def found(condition):
        return sorted(names(ask(index, f"WHERE {condition} LIMIT 20")))

    assert found("memory <= 15 MB AND runtime IS KNOWN") == ["small", "tiny"]
    assert found("memory <= 5 MB OR name = near") == ["claimed", "near", "tiny"]
    assert found("NOT memory <= 15 MB AND NOT name LIKE '*n*'") == ["big"]  # what is unknown neither holds nor fails
    assert found("memory IS UNKNOWN") == ["silent"]
    assert found("memory BETWEEN 50 MB AND 60 MB OR latency < 1.2 ms") == ["near", "tiny"]


def test_a_word_in_one_manifest_does_not_hide_the_figures_of_all_models(index):
    """A manifest may say of its model what it likes: `memory: 5`, where the others were measured."""
    rows = [
        replace(row, attributes={**row.attributes, "memory": 5}) if row.attributes["name"] == "tiny" else row
        for row in index.rows
    ]
    described = Index(rows, dataset=index.dataset, semantic=index.semantic)
    assert sorted(names(ask(described, "WHERE memory <= 15 MB AND runtime IS KNOWN"))) == ["small", "tiny"]
    assert list(ask(described, "CORR big WITHIN 90% SHOW memory").best.figures) == ["memory"]


def test_a_condition_on_answers_does_not_narrow_who_is_counted(index):
    counted = ask(index, "CORR big WITHIN 50%").guarantee.comparisons
    assert ask(index, "CORR big WITHIN 50% WHERE memory <= 60 MB").guarantee.comparisons < counted
    assert ask(index, "CORR big WITHIN 50% WHERE accuracy >= 0.85").guarantee.comparisons == counted
    assert len(ask(index, "CORR big WITHIN 50% WHERE accuracy >= 0.85")) < len(ask(index, "CORR big WITHIN 50%"))


def test_columns_are_chosen(index):
    answer = ask(index, "CORR big WITHIN 90% SHOW zoo, latency, memory")
    assert list(answer.best.figures) == ["latency", "memory"]
    assert answer.best.attributes == {"zoo": "toys"}
    assert answer.columns[:5] == ["model", "runtime", "zoo", "equivalence", "equivalence_lower"]
    assert query(ref="big", show="zoo, latency", store=index).best.as_data()["attributes"] == {"zoo": "toys"}


def test_an_empty_answer_keeps_its_columns(index):
    some, none = ask(index, "CORR big ON memory <= 60 MB"), ask(index, "CORR big ON memory <= 1 kB")
    assert (len(some) > 0, len(none)) == (True, 0)
    assert some.columns == none.columns
    assert list(none.frame().columns) == none.columns


@pytest.mark.parametrize(
    "wrong",
    [
        {"ref": 5},
        {"ref": ""},
        {"text": 5},
        *(
            {"ref": "big", name: 5}
            for name in ("exec", "where", "data", "order_by", "bound", "explain", "show", "task")
        ),
        {"ref": "big", "store": 5},
    ],
)
def test_arguments_of_the_wrong_kind_give_a_sentence(index, wrong):
    with pytest.raises(ZoolensError, match=r"5|''") as caught:
        query(**{"store": index, **wrong})
    assert caught.value.hint.startswith(("Write", "Give"))
