import math

import numpy as np
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.queries.language.parser import parse_orders
from zoolens.findings.queries.planning.expression_evaluator import evaluate, order_scores

FIGURES = {
    "latency": np.array([3.0, 1.0, np.nan, 1.0, 2.0]),
    "memory": np.array([10.0, 30.0, 5.0, 20.0, 40.0]),
}


def value_of(metric):
    values = FIGURES[metric.name]
    return float(values[0]) if metric.reference else values


def order(text, **functions):
    return np.argsort(-order_scores(parse_orders(text), value_of, 5, functions)).tolist()


def values(text, **functions):
    return evaluate(parse_orders(text)[0].expression, value_of, 5, functions).tolist()


def test_unknown_comes_last_either_way_and_ties_keep_the_order_of_rows():
    assert order("latency") == [1, 3, 4, 0, 2]
    assert order("latency DESC") == [0, 4, 1, 3, 2]


def test_second_expression_decides_ties():
    assert order("latency, memory") == [3, 1, 4, 0, 2]
    assert order("latency, memory DESC") == [1, 3, 4, 0, 2]


def test_arithmetic_and_reference():
    assert values("-(memory - REF.memory) / 2") == [0.0, -10.0, 2.5, -5.0, -15.0]
    assert values("max(memory, 20)") == [20.0, 30.0, 20.0, 20.0, 40.0]
    assert values("min(memory, latency, 2)")[0] == 2.0
    assert math.isnan(values("min(memory, latency, 2)")[2])
    assert values("sqrt(abs(0 - 4))") == [2.0] * 5


def test_a_function_takes_columns_or_single_numbers():
    def single(latency, memory):
        return memory if latency > 1 else 0.0

    assert values("utility(memory)", utility=lambda memory: 2 * memory) == [20.0, 60.0, 10.0, 40.0, 80.0]
    found = values("utility(latency, memory)", utility=single)
    assert found[:2] == [10.0, 0.0]
    assert math.isnan(found[2])  # an unknown figure is not passed to the function
    assert values("utility()", utility=lambda: 7) == [7.0] * 5
    assert math.isnan(values("utility(memory)", utility=lambda memory: None)[0])


def test_unknown_in_unknown_out_of_whole_columns_too():
    found = values("fast(latency)", fast=lambda latency: latency < 2)
    assert found[:2] == [0.0, 1.0]
    assert math.isnan(found[2])


def test_what_is_no_number_is_told():
    with pytest.raises(ZoolensError, match=r"utility\(10\) failed: TypeError"):
        values("utility(memory)", utility=lambda memory: memory * 1j)


def test_a_failing_function_is_told_with_its_arguments():
    def broken(memory):
        raise KeyError("no")

    with pytest.raises(ZoolensError, match=r"utility\(10\) failed: KeyError"):
        values("utility(memory)", utility=broken)


def test_unknown_functions_and_wrong_arguments():
    with pytest.raises(UnknownName, match="sqrt"):
        values("sqr(memory)")
    with pytest.raises(ZoolensError, match="takes one argument, not 2"):
        values("log(memory, 2)")


def test_nothing_to_order():
    assert order_scores((), value_of, 3, {}).argsort().tolist() == [2, 1, 0]
    assert order_scores(parse_orders("2"), value_of, 0, {}).tolist() == []
