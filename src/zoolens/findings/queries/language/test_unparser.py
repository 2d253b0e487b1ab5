"""parse(to_text(query)) == query, for any query."""

import random
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zoolens.findings.queries.language.parser import QueryError, parse
from zoolens.findings.queries.language.syntax import (
    AllOf,
    AnyOf,
    Bound,
    Comparison,
    FunctionCall,
    Known,
    Metric,
    Negative,
    Not,
    Number,
    OneOf,
    Operation,
    Order,
    Quantity,
    Query,
)
from zoolens.findings.queries.language.tokens import RESERVED
from zoolens.findings.queries.language.units import UNITS, is_fraction, kind_of
from zoolens.findings.queries.language.unparser import number_text, to_text

LONG = (
    "SELECT MODELS CORR resnet50 WITHIN 95% ON memory <= 20% AND flops < 2 GFLOPS AND latency_p95 < 10 ms "
    "WHERE zoo = 'torchvision' ORDER BY equivalence DESC LIMIT 5 "
    "EXEC (device=cpu, runtime=onnxruntime, batch=1) CONFIDENCE 95% ELSE NEAREST"
)

odd_names = st.text(min_size=1, max_size=8)
names = (
    st.sampled_from(["zoo", "memory", "Memory", "latency_p95@batch=1", "top-1", "x.y", "REF.x", "5x", "it's", 'a"b'])
    | st.sampled_from(sorted(RESERVED))
    | odd_names
)
metrics = (
    st.sampled_from(["memory", "flops", "macs", "latency_p95", "parameters", "energy", "accuracy", "top1"]) | names
)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-10_000, 10_000).map(float)
shares = st.floats(0, 1)


@st.composite
def quantities(draw, metric):
    """What a query can hold: shares are relative except of fractions, and a unit fits its metric."""
    kind = kind_of(metric)
    if draw(st.booleans()):
        unit = draw(st.sampled_from(["", "%", "x"]))
        return Quantity(draw(numbers), unit, relative=True)
    if is_fraction(metric):
        return Quantity(draw(st.floats(-1, 1)), draw(st.sampled_from(["", "%"])))
    fitting = [""] + [unit.name for unit in UNITS.values() if unit.kind == kind or (not kind and unit.kind != "share")]
    return Quantity(draw(numbers), draw(st.sampled_from(fitting)))


@st.composite
def bounds(draw):
    metric = draw(metrics)
    return Bound(metric, draw(st.sampled_from(["<", "<=", ">", ">=", "="])), draw(quantities(metric)))


values = st.text(max_size=8) | numbers
tests = (
    st.builds(Comparison, names, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values)
    | st.builds(Comparison, names, st.just("LIKE"), st.text(max_size=8))
    | st.builds(OneOf, names, st.lists(values, min_size=1, max_size=3).map(tuple))
    | st.builds(Known, names)
)
conditions = st.recursive(
    tests,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=8,
)
expressions = st.recursive(
    st.builds(Number, numbers) | st.builds(Metric, names, st.booleans()),
    lambda inner: (
        st.builds(Negative, inner)
        | st.builds(Operation, st.sampled_from("+-*/"), inner, inner)
        | st.builds(FunctionCall, names, st.lists(inner, max_size=3).map(tuple))
    ),
    max_leaves=10,
)
circumstances = st.dictionaries(names, names, max_size=3).map(lambda found: tuple(found.items()))
queries = st.builds(
    Query,
    reference=names,
    task=st.none() | names,
    within=st.none() | shares,
    on=st.lists(bounds(), max_size=3).map(tuple),
    where=st.none() | conditions,
    order=st.lists(st.builds(Order, expressions, st.booleans()), max_size=2).map(tuple),
    limit=st.none() | st.integers(1, 10**9),
    exec=circumstances,
    show=st.lists(st.sampled_from(["memory", "zoo", "my metric", "latency_p95@batch=8"]), unique=True).map(tuple),
    confidence=st.none() | st.floats(0, 1, exclude_min=True, exclude_max=True),
    bound=st.sampled_from(["on", "off", "On", "OFF"]) | names,
    data=st.none() | names,
    segments=st.booleans(),
    nearest=st.booleans(),
    explain=st.sampled_from(["", "plan", "analyze"]),
)


@given(queries)
@settings(max_examples=100, deadline=None)
def test_any_query_is_read_back_as_it_was(query):
    assert parse(to_text(query)) == query


@given(st.text(max_size=60) | st.text(string.printable, max_size=60))
@example("'")
@example("CORR \x00")
@example("(" * 9_000)
@example("ORDER BY " + "-" * 9_000 + "x")
@example("ORDER BY " + "+".join("a" * 4_000))
@example("WHERE " + "NOT " * 2_000 + "a = b")
@example("ON a < 1e999999999999999999999 GB")
@example("ON a < 1e-999999999999999999999 GB")
@example("LIMIT " + "9" * 5_000)
@example("x" * 10_001)
@example("ON a < 5 Mss")
@settings(max_examples=100, deadline=None)
def test_no_text_is_answered_by_anything_but_a_query_or_a_query_error(text):
    survives(text)


WORDS = [
    *sorted(RESERVED),
    *LONG.split(),
    "(",
    ")",
    ",",
    ";",
    "'",
    '"',
    "-",
    "5",
    "%",
    "x",
    "ms",
    "=>",
    "REF.",
    "@",
    "\n",
]


@given(st.integers(0, 2**32), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_damaged_queries_are_refused_in_good_order(seed, times):
    chance = random.Random(seed)
    words = LONG.split(" ")
    for _ in range(times):
        at = chance.randrange(len(words))
        how = chance.randrange(4)
        if how == 0:
            del words[at]
        elif how == 1:
            words.insert(at, chance.choice(WORDS))
        elif how == 2:
            words[at] = chance.choice(WORDS)
        else:
            words[at] = words[at][: chance.randrange(len(words[at]) + 1)]
        words = words or ["SELECT"]
    survives(chance.choice(["", " "]).join(words) if chance.random() < 0.1 else " ".join(words))


def survives(text):
    """What is understood can be written and read again; what is not is told in a few lines."""
    try:
        query, error = parse(text), None
    except QueryError as refused:
        query, error = None, refused
    if query is not None:
        assert parse(to_text(query)) == query
    else:
        shown = str(error).splitlines()
        assert 0 <= error.start <= error.end <= max(len(text), 1) + 1
        assert error.hint
        assert len(shown) >= 4
        assert max(map(len, shown)) < 400


def test_text_is_as_a_person_would_write_it():
    assert to_text(parse(LONG)) == LONG.replace("=cpu", " = cpu").replace("=onnx", " = onnx").replace("=1", " = 1")
    text = "EXPLAIN ANALYZE SELECT MODELS TASK image-classification ON file_size < 1.5 MiB AND top1 >= 70% SEGMENTS"
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)", "a - b - c", "a / (b * c)", "a * b / c", "(a + b) * c", "-(a + b)", "-a * b", "a - -5", "-(5)",
        "--a", "min(a, b, 0.5) / REF.memory", "REF.'odd name' + 'odd name'", "f()", "a * (b / c) - (d - e)",
    ],
)  # fmt: skip
def test_parentheses_stand_only_where_they_must(text):
    assert to_text(parse(f"ORDER BY {text}")) == f"SELECT MODELS ORDER BY {text}"


@pytest.mark.parametrize(
    "text",
    ["a = '1' AND (b = '2' OR c = '3')", "a = '1' AND b = '2' OR c = '3'", "NOT (a = '1' AND b IS KNOWN)",
     "NOT a LIKE 'x*'", "a IN ('1', 2) OR (b = 0.5 OR c IS UNKNOWN)", "(a = 1 AND b = 2) AND c = 3"],
)  # fmt: skip
def test_conditions_keep_their_parentheses(text):
    assert to_text(parse(f"WHERE {text}")) == f"SELECT MODELS WHERE {text}"


def test_what_is_not_finite_has_no_text():
    with pytest.raises(ValueError):
        number_text(float("inf"))
