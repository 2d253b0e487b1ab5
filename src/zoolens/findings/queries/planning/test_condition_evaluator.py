import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.findings.index.tables.row_table import table_of
from zoolens.findings.index.tables.rows import Row
from zoolens.findings.queries.language.parser import parse_condition
from zoolens.findings.queries.language.syntax import AllOf, AnyOf, Comparison, Known, Not, OneOf
from zoolens.findings.queries.planning.condition_evaluator import Attributes, attributes_of, compare, rows_where


def row(number, **attributes):
    return Row(f"run{number}", f"model{number}", f"demo:net{number}@1.0", attributes)


ROWS = [
    row(0, zoo="torchvision", version="1.9", threads=2.0, quantised=False),
    row(1, zoo="Keras", version="1.10", threads=4.0, quantised=True),
    row(2, version="2.0", license="MIT"),
]


def chosen(text):
    return np.flatnonzero(rows_where(parse_condition(text), Attributes(table_of(ROWS)))).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("zoo = 'TorchVision'", [0]),
        ("zoo != 'torchvision'", [1]),
        ("NOT zoo = 'torchvision'", [1]),
        ("zoo IS KNOWN", [0, 1]),
        ("zoo IS UNKNOWN", [2]),
        ("zoo LIKE 'k%'", [1]),
        ("zoo LIKE '?eras'", [1]),
        ("zoo IN ('keras', 'timm') OR license = mit", [1, 2]),
        ("version > 1.9", [2]),  # a number: 1.10 is 1.1
        ("version > '1.9.0'", [1, 2]),  # text: numbers within it count as numbers
        ("version > '1.9'", [1, 2]),
        ("version = '1.1'", []),
        ("version = '1.10'", [1]),
        ("version IN ('1.1', '2.0')", [2]),
        ("threads = '4'", [1]),
        ("threads >= 4", [1]),
        ("quantised = true", [1]),
        ("ref LIKE '*net2@*'", [2]),
        ("ref IN ('demo:net0@1.0')", [0]),
        ("ZOO = keras", [1]),
        ("zoo = keras AND license = MIT", []),
        ("NOT (zoo = keras AND threads = 2)", [0, 1]),
        ("NOT (zoo = keras OR license = MIT)", []),  # unknown licences decide nothing
    ],
)
def test_conditions(text, rows):
    assert chosen(text) == rows


def test_names_that_look_like_numbers_without_being_any():
    assert compare("Infinity", "=", "infinity")
    assert compare("nan", "=", "NaN")
    assert compare("1" * 5000, "<", "v2")


def test_whole_numbers_of_any_length():
    assert not compare(10**400, "=", 5.0)
    assert compare(10**400, "!=", "5")


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("*a*b", True), ("a*a*b", True), ("a%b", True), ("*b*a", False), ("a_*b", True), ("*", True), ("**b**", True),
        ("?" * 6, True), ("?" * 5, False), ("a*ab*b", False), ("a.*b", False), ("A*B", True),
    ],
)  # fmt: skip
def test_like(pattern, holds):
    assert compare("aaaaab", "LIKE", pattern) is holds


def test_many_stars_do_not_take_for_ever():
    assert not compare("a" * 300, "LIKE", "*a" * 100 + "*b")


def test_equal_in_order_is_not_equal():
    assert not compare("v07", "=", "v7")
    assert compare("v07", "<=", "v7")


ATTRIBUTES = ["zoo", "format", "runtime"]
VALUES = ["a", "b", "c"]
LEAVES = st.one_of(
    st.builds(Comparison, st.sampled_from(ATTRIBUTES), st.sampled_from(["=", "!=", "<"]), st.sampled_from(VALUES)),
    st.builds(OneOf, st.sampled_from(ATTRIBUTES), st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES))),
    st.builds(Known, st.sampled_from(ATTRIBUTES)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.tuples(inner, inner)),
        st.builds(AnyOf, st.tuples(inner, inner)),
    ),
    max_leaves=6,
)


def truth(condition, attributes):
    """One row by the book: True, False or None."""
    match condition:
        case Comparison(name, comparison, value):
            return None if name not in attributes else compare(attributes[name], comparison, value)
        case OneOf(name, values):
            return None if name not in attributes else attributes[name] in values
        case Known(name):
            return name in attributes
        case Not(term):
            found = truth(term, attributes)
            return None if found is None else not found
        case AllOf(terms):
            found = [truth(term, attributes) for term in terms]
            return False if False in found else None if None in found else True
        case AnyOf(terms):
            found = [truth(term, attributes) for term in terms]
            return True if True in found else None if None in found else False


@given(CONDITIONS, st.lists(st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES)), max_size=6))
def test_all_rows_at_once_are_each_row_by_itself(condition, attributes):
    rows = [row(i, **one) for i, one in enumerate(attributes)]
    assert rows_where(condition, Attributes(table_of(rows))).tolist() == [
        truth(condition, one) is True for one in attributes
    ]
    assert set(attributes_of(condition)) <= set(ATTRIBUTES)
