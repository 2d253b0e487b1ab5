import pytest

from zoolens.findings.queries.language.errors import QueryError
from zoolens.findings.queries.language.parser import parse_condition
from zoolens.findings.queries.language.syntax import AllOf, AnyOf, Comparison, Known, Not, OneOf

A, B, C = Comparison("a", "=", 1.0), Comparison("b", "=", 2.0), Comparison("c", "=", 3.0)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("zoo = 'timm'", Comparison("zoo", "=", "timm")), ("zoo == timm", Comparison("zoo", "=", "timm")),
        ("zoo != timm", Comparison("zoo", "!=", "timm")), ("zoo <> 'timm'", Comparison("zoo", "!=", "timm")),
        ("name LIKE res*-5?", Comparison("name", "LIKE", "res*-5?")),
        ("name LIKE '%50%'", Comparison("name", "LIKE", "%50%")),
        ("name NOT LIKE x*", Not(Comparison("name", "LIKE", "x*"))),
        ("version = '1.0'", Comparison("version", "=", "1.0")),
        ("threads = 4", Comparison("threads", "=", 4.0)), ("x = -0.5", Comparison("x", "=", -0.5)),
        ("version = 1.0.1", Comparison("version", "=", "1.0.1")), ("size < 20 MB", Comparison("size", "<", 20e6)),
        ("sparsity >= 50%", Comparison("sparsity", ">=", 0.5)), ("sparsity = 50%", Comparison("sparsity", "=", 0.5)),
        ("a >= -5", Comparison("a", ">=", -5.0)), ("version >= v2", Comparison("version", ">=", "v2")),
        ("zoo IN (timm, 'a b', 5)", OneOf("zoo", ("timm", "a b", 5.0))), ("zoo NOT IN (a)", Not(OneOf("zoo", ("a",)))),
        ("license IS KNOWN", Known("license")), ("license IS NOT KNOWN", Not(Known("license"))),
        ("license IS UNKNOWN", Not(Known("license"))), ("license IS NOT UNKNOWN", Known("license")),
        ("license IS NULL", Not(Known("license"))), ("task = x", Comparison("task", "=", "x")),
        ("a BETWEEN 1 AND 2", AllOf((Comparison("a", ">=", 1.0), Comparison("a", "<=", 2.0)))),
    ],
)  # fmt: skip
def test_one_condition(text, meant):
    assert parse_condition(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a=1 AND b=2 AND c=3", AllOf((A, B, C))),
        ("a=1 OR b=2 AND c=3", AnyOf((A, AllOf((B, C))))),
        ("(a=1 OR b=2) AND c=3", AllOf((AnyOf((A, B)), C))),
        ("NOT a=1 AND b=2", AllOf((Not(A), B))),
        ("not (a=1 or b=2)", Not(AnyOf((A, B)))),
        ("((a=1))", A),
    ],
)
def test_and_binds_closer_than_or_and_not_closest(text, meant):
    assert parse_condition(text) == meant


@pytest.mark.parametrize(
    ("text", "wrong", "hint"),
    [
        ("zoo timm", "timm", "Write one of <, <=, >, >=, =, !=, LIKE, IN, IS."),
        ("zoo = ", "", "Write an attribute, a comparison and a value, as in zoo = 'torchvision'."),
        ("zoo = LIMIT 5", "LIMIT", "A value like a keyword needs quotes."),
        ("zoo = AND a = 1", "AND", "A value like a keyword needs quotes."),
        ("zoo IS timm", "timm", "A value is compared by =."),
        ("zoo IN timm", "timm", "Write IN ('a', 'b')."),
        ("zoo IN (timm", "(", "Write ) where it ends."),
        ("zoo IN (timm pytorch)", "pytorch", "Expected a comma or )."),
        ("zoo NOT = 5", "=", "NOT else stands first."),
        ("(zoo = timm", "(", "Write ) where it ends."),
        ("(zoo = timm b = 2)", "b", "Expected AND, OR or )."),
        ("zoo = timm && b = 2", "&&", "Write AND or OR."),
        ("memory < 20%", "20%", "Shares of its figures go to ON."),
        ("memory < 2x", "2x", "Shares of its figures go to ON."),
        ("a = 1e999", "1e999", "Put it into quotes if it is a name."),
    ],
)
def test_mistakes_are_pointed_at_and_put_right(text, wrong, hint):
    with pytest.raises(QueryError) as caught:
        parse_condition(text)
    error = caught.value
    assert (text[error.start : error.end], error.hint) == (wrong, hint)
