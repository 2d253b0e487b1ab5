import pytest

from zoolens.findings.queries.language.parser import (
    QueryError,
    error_about,
    parse,
    parse_bounds,
    parse_condition,
    parse_orders,
    places,
)
from zoolens.findings.queries.language.syntax import Bound, Comparison, Metric, Order, Quantity, Query

MEMORY = Bound("memory", "<", Quantity(0.8, "%", relative=True))


def told(text):
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value


def test_the_whole_language_in_one_query():
    query = parse(
        "EXPLAIN ANALYZE SELECT MODELS WITH SEGMENTS CORR torchvision:resnet50@IMAGENET1K_V2 WITHIN 95% "
        "ON memory <= 20% AND flops < 2 GFLOPS AND latency_p95 < 10 ms WHERE zoo = 'torchvision' "
        "ORDER BY equivalence DESC, file_size LIMIT 5 EXEC (device=cpu, runtime=onnxruntime, batch=1) "
        "CONFIDENCE 99% DATA 'imagenet val' BOUND cifar-10 ELSE NEAREST TASK image-classification;"
    )
    assert query == Query(
        reference="torchvision:resnet50@IMAGENET1K_V2",
        task="image-classification",
        within=0.95,
        on=(
            Bound("memory", "<=", Quantity(0.2, "%", relative=True)),
            Bound("flops", "<", Quantity(2e9, "GFLOPS")),
            Bound("latency_p95", "<", Quantity(0.01, "ms")),
        ),
        where=Comparison("zoo", "=", "torchvision"),
        order=(Order(Metric("equivalence"), descending=True), Order(Metric("file_size"))),
        limit=5,
        exec=(("device", "cpu"), ("runtime", "onnxruntime"), ("batch", "1")),
        confidence=0.99,
        bound="cifar-10",
        data="imagenet val",
        segments=True,
        nearest=True,
        explain="analyze",
    )


def test_what_survives_of_the_published_language():
    flops = Bound("flops", "<=", Quantity(0.5, "%", relative=True))
    found = Query(reference="ResNet50", on=(MEMORY, flops))
    assert parse("CORR ResNet50 ON memory < 80% AND flops <= 50%") == found
    assert parse("SELECT MODEL CORR ResNet50 ON memory < 80% AND flops <= 50%;") == found


def test_clauses_stand_in_any_order_and_keywords_in_any_case():
    assert parse("limit 3 On memory < 80% coRR x") == parse("CORR x ON memory < 80% LIMIT 3")
    assert parse("corr x else nothing bound OFF segments") == Query(reference="x", bound="off", segments=True)
    assert parse("SELECT * CORR x BOUND on") == parse("SELECT MODELS CORR x ELSE NOTHING") == Query(reference="x")
    assert parse("SELECT SEGMENTS CORR x") == parse("SELECT MODEL WITH SEGMENTS CORR x") == parse("CORR x SEGMENTS")


@pytest.mark.parametrize(
    ("written", "meant"),
    [("resnet-50/v1.5", "resnet-50/v1.5"), ("hub:timm/vit.a1_in1k", "hub:timm/vit.a1_in1k"), ("'my model'", "my model"),
     ('"it\'s"', "it's"), ("'it''s'", "it's"), ("on/v1", "on/v1"), ("'limit'", "limit"), ("50", "50"),
     ("模型", "模型")],
)  # fmt: skip
def test_references_are_bare_or_quoted(written, meant):
    assert parse(f"CORR {written} WITHIN 90%") == Query(reference=meant, within=0.9)


def test_shares_are_written_in_two_ways():
    assert parse("CORR x WITHIN 0.95 CONFIDENCE .9") == parse("CORR x WITHIN 95% CONFIDENCE 90%")


@pytest.mark.parametrize(
    ("text", "wrong", "hint"),
    [
        ("CORR resnet50 WITIN 95%", "WITIN", "Did you mean WITHIN?"),
        ("CORR resnet50 WITHIN 95", "95", "Write 95% or 0.95."),
        ("CORR resnet50 WITHIN 950%", "950%", "Write 95% or 0.95."),
        ("CORR resnet50 WITHIN ON memory < 5", "ON", "Write WITHIN 95%."),
        ("CORR resnet50 95%", "95", "A least agreement is written WITHIN 95%."),
        ("CORR x CONFIDENCE 100%", "100%", "No finite number of probes gives 100%: write CONFIDENCE 95%."),
        ("CORR x LIMIT 0", "0", "Write LIMIT 5."),
        ("CORR x LIMIT 2.5", "2.5", "Write LIMIT 5."),
        ("CORR x LIMIT", "", "Write LIMIT 5."),
        ("CORR WITHIN 95%", "WITHIN", "Write LIKE resnet50 or CORR 'zoo:name@version'."),
        ("CORR 'resnet50 WITHIN 5%", "'", "Write ' behind the name too; a quote inside a name is doubled."),
        ("CORR ‘x’", "‘", "Write 'name' with straight quotes."),
        ("CORR x memory < 5", "memory", "Write ON before memory."),
        ("CORR x ON memory < 5% flops < 5", "flops", "Write AND before flops."),
        ("CORR x ORDER memory", "memory", "Write ORDER BY metric."),
        ("CORR x EXEC device=cpu", "device", "Write EXEC (device=cpu, runtime=onnxruntime, batch=1)."),
        ("CORR x EXEC (a=1, a=2)", "a", "Give it once."),
        ("CORR x EXEC (a=1", "(", "Write ) where it ends."),
        ("CORR x)", ")", "Remove it, or open one before."),
        ("CORR x ELSE FAIL", "FAIL", "Write ELSE NEAREST."),
        ("SELECT MODLES CORR x", "MODLES", "Did you mean MODELS?"),
        ("SELECT MODELS FROM timm", "FROM", "A zoo is chosen by WHERE zoo = 'name', probe data by DATA name."),
        ("CORR x SELECT MODELS", "SELECT", "SELECT stands first, and once."),
        ("CORR x; CORR y", "CORR", "Ask one query at a time."),
    ],
)
def test_mistakes_are_pointed_at_and_put_right(text, wrong, hint):
    error = told(text)
    assert (text[error.start : error.end], error.hint) == (wrong, hint)


@pytest.mark.parametrize("clause", ["CORR y", "WITHIN 5%", "ON a < 1", "LIMIT 1", "SEGMENTS", "ELSE NEAREST"])
def test_the_second_of_two_equal_clauses_is_pointed_at(clause):
    text = f"CORR x WITHIN 5% ON a < 1 LIMIT 1 SEGMENTS ELSE NEAREST {clause}"
    error = told(text)
    assert error.start == text.rindex(clause)
    assert "second time" in error.message
    assert told("SELECT MODELS WITH SEGMENTS CORR x SEGMENTS").start == 35


@pytest.mark.parametrize("text", ["", "   ", "SELECT MODELS", "LIMIT 5", "WITHIN 95% CONFIDENCE 95%", ";"])
def test_a_query_must_look_for_something(text):
    assert told(text).message == "The query does not say what to look for."


def test_long_and_deep_queries_are_refused():
    assert "10,000 are read" in told("x" * 10_001).message
    assert "nested more than 50" in told("WHERE " + "(" * 51).message
    assert "more than 100 operations" in told("ORDER BY " + "+".join("a" * 102)).message
    parse("WHERE " + "(" * 50 + "a = 1" + ")" * 50)
    parse("ORDER BY " + "+".join("a" * 101))


def test_places_of_names_are_known_for_errors_found_later():
    text = "CORR resnet50 ON Memory < 5 AND 10 ms > 'odd name' WHERE zoo = x ORDER BY f(memory) / REF.energy"
    found = places(text)
    assert {name: text[slice(*place)] for name, place in found.items()} == {
        "resnet50": "resnet50", "memory": "Memory", "odd name": "'odd name'", "zoo": "zoo", "f": "f",
        "energy": "energy", "CORR": "CORR", "ON": "ON", "WHERE": "WHERE", "ORDER": "ORDER",
    }  # fmt: skip
    error = error_about("zoo", text, "There is no zoo.", hint="Ask for name.")
    assert (error.start, error.end) == found["zoo"]


def test_parts_are_read_alone():
    assert parse_condition("zoo = 'timm'") == Comparison("zoo", "=", "timm")
    assert parse_orders("memory DESC") == (Order(Metric("memory"), descending=True),)
    assert parse_bounds("memory < 80%") == (MEMORY,)
    for read, text in ((parse_condition, "zoo = 'timm'"), (parse_bounds, "memory < 80%")):
        with pytest.raises(QueryError, match="should end here"):
            read(f"{text} LIMIT 5")


def test_a_name_of_nothing_is_pointed_at():
    error = told("CORR '' WITHIN 90%")
    assert (error.start, error.end) == (5, 7)


def test_ref_is_an_attribute_where_it_is_compared():
    assert parse("WHERE ref LIKE 'timm:*'").where == Comparison("ref", "LIKE", "timm:*")
    assert "REF" in told("WHERE ref").message
    assert parse("ORDER BY REF.memory").order == (Order(Metric("memory", reference=True)),)
