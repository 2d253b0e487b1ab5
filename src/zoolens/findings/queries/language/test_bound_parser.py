import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.queries.language.bound_parser import keyword_bounds
from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.parser import parse
from zoolens.findings.queries.language.syntax import Bound, Quantity


def on(text):
    return parse(f"ON {text}").on


@pytest.mark.parametrize(
    ("sign", "meant"), [("<", "<"), ("<=", "<="), ("≤", "<="), (">", ">"), ("==", "="), ("=", "=")]
)
def test_comparisons(sign, meant):
    assert on(f"memory {sign} 5") == (Bound("memory", meant, Quantity(5.0)),)


def test_a_bound_may_stand_the_other_way_round():
    assert on("10 ms > latency_p95 AND 5 <= top5_x") == on("latency_p95 < 10 ms AND top5_x >= 5")
    assert on("-1% < accuracy_drop") == on("accuracy_drop > -1%")


def test_between_is_two_bounds_and_one_unit_serves_both():
    both = on("latency >= 10 ms AND latency <= 20 ms")
    assert on("latency BETWEEN 10 ms AND 20 ms") == on("latency BETWEEN 10 AND 20 ms") == both
    assert on("top1 BETWEEN 90% AND 99% OF REF") == on("top1 >= 90% OF REF AND top1 <= 99% OF REF")
    assert on("latency BETWEEN 10 AND 20 ms AND memory < 5") == (*both, *on("memory < 5"))


def test_names_of_metrics():
    assert on("Memory < 5") == on("MEMORY < 5") == on("'memory' < 5") == on('"memory" < 5')
    assert on("'Memory' < 5")[0].metric == "Memory"
    assert on("Custom_Score < 5")[0].metric == "Custom_Score"
    assert on("latency_p95@batch=8 < 10 ms")[0].metric == "latency_p95@batch=8"
    assert on("peak_memory@process = 10")[0] == Bound("peak_memory@process", "=", Quantity(10.0))
    assert on("confidence < 5")[0].metric == "confidence"  # a keyword, but compared


@pytest.mark.parametrize(
    ("text", "wrong", "hint"),
    [
        ("memory => 20%", "=>", "Write >=."),
        ("memory =< 20%", "=<", "Write <=."),
        ("memory != 5", "!=", "Write one of <, <=, >, >=, =, BETWEEN."),
        ("memory 20%", "20", "Write one of <, <=, >, >=, =, BETWEEN."),
        ("memory < 20%, flops < 5", ",", "Write AND between them."),
        ("memory < 20% OR flops < 5", "OR", "Join them by AND; alternatives go to WHERE."),
        ("memory < 200 latency < 5", "latency", "Write AND before latency."),
        ("memory < 200 WITIN 95%", "WITIN", "Did you mean WITHIN?"),
        ("5 MB < memory < 10 MB", "<", "Write memory BETWEEN … AND …."),
        ("memory BETWEEN 10 MB AND 5 MB", "10 MB AND 5 MB", "Write the smaller quantity first."),
        ("memory BETWEEN 10 MB, 5 MB", ",", "Write BETWEEN low AND high."),
        ("memory <", "", "Write a number and its unit, as in 200 MB, 10 ms, 2 GFLOPS or 20%."),
        ("< 5", "<", "Write a metric, a comparison and a quantity, as in memory <= 20%."),
    ],
)
def test_mistakes_are_pointed_at_and_put_right(text, wrong, hint):
    with pytest.raises(QueryError) as caught:
        on(text)
    error = caught.value
    assert (error.text[error.start : error.end], error.hint) == (wrong, hint)


def test_a_keyword_needs_quotes_to_be_a_metric():
    with pytest.raises(QueryError, match='needs quotes: "limit"'):
        on("limit")


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("memory", "20%", "memory <= 20%"), ("memory", 200e6, "memory <= 200000000"), ("flops", "2G", "flops <= 2G"),
        ("memory", "< 200MB", "memory < 200 MB"), ("memory", ("<", "200 MB"), "memory < 200 MB"),
        ("accuracy", 0.7, "accuracy >= 0.7"), ("throughput", "100 fps", "throughput >= 100 fps"),
        ("accuracy_drop", "1%", "accuracy_drop <= 1%"), ("latency", "between 1 and 2 ms", "latency BETWEEN 1 AND 2 ms"),
        ("memory", ["> 10 MB", "< 20 MB"], "memory > 10 MB AND memory < 20 MB"),
        ("memory", (">=", Quantity(0.5, "x", relative=True)), "memory >= 0.5x"),
    ],
)  # fmt: skip
def test_keywords_say_the_same(metric, value, text):
    assert keyword_bounds(metric, value) == on(text)


def test_keywords_that_say_nothing_are_refused():
    for wrong in (None, object(), ("<", "5", "6"), ("~", 5), {}):
        with pytest.raises(ZoolensError, match="is not a quantity"):
            keyword_bounds("memory", wrong)
    with pytest.raises(QueryError, match="Write >="):
        keyword_bounds("memory", "=> 5")
    with pytest.raises(QueryError, match="Write one bound"):
        keyword_bounds("memory", "< 5 AND > 3")
