import pytest

from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.parser import parse_orders
from zoolens.findings.queries.language.syntax import FunctionCall, Metric, Negative, Number, Operation, Order

A, B, C = Metric("a"), Metric("b"), Metric("c")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a + b * c", Operation("+", A, Operation("*", B, C))),
        ("(a + b) * c", Operation("*", Operation("+", A, B), C)),
        ("a - b - c", Operation("-", Operation("-", A, B), C)),
        ("a/b/c", Operation("/", Operation("/", A, B), C)),
        ("a-b", Operation("-", A, B)),
        ("-a * b", Operation("*", Negative(A), B)),
        ("-5", Number(-5.0)),
        ("1_000 kB", Number(1e6)),
        ("a - 5%", Operation("-", A, Number(0.05))),
        ("a / 10 ms", Operation("/", A, Number(0.01))),
        ("a / 10ms/b", Operation("/", Operation("/", A, Number(0.01)), B)),
        ("5 / s", Operation("/", Number(5.0), Metric("s"))),
        ("REF.Memory", Metric("memory", reference=True)),
        ("ref.latency_p95@batch=8", Metric("latency_p95@batch=8", reference=True)),
        ('REF."odd name"', Metric("odd name", reference=True)),
        ("min(a, max(b, 1))", FunctionCall("min", (A, FunctionCall("max", (B, Number(1.0)))))),
        ("now()", FunctionCall("now", ())),
    ],
)
def test_arithmetic(text, meant):
    assert parse_orders(text) == (Order(meant),)


def test_directions():
    assert parse_orders("a, b DESC, c ASC") == (Order(A), Order(B, descending=True), Order(C))


@pytest.mark.parametrize(
    ("text", "wrong", "told"),
    [
        ("", "", "Expected something to order by"),
        ("a *", "", "Expected something to order by"),
        ("(a + b", "(", "never closed"),
        ("min(a b)", "b", "Expected +, -, *, / or )."),
        ("2x", "2", "Write number * REF.metric."),
        ("1e999", "1e999", "too large"),
        ("REF", "", "Write REF.metric"),
        ("REF.", "", "Write REF.metric"),
        ("LIMIT", "LIMIT", "needs quotes"),
        ("a b", "b", "should end here"),
        ("5 apples", "apples", "no unit"),
    ],
)
def test_mistakes_are_pointed_at_and_put_right(text, wrong, told):
    with pytest.raises(QueryError) as caught:
        parse_orders(text)
    error = caught.value
    assert text[error.start : error.end] == wrong
    assert told in str(error)
