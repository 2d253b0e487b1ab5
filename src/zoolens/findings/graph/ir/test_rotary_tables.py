"""Tables of cosines and sines become their rates; anything else stays a table that nobody knows."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.rotary_tables import rate_words, same_rates, with_rotary_tables

LENGTH, HALF = 40, 8


def rates(base=10000.0, factor=1.0, count=HALF):
    return base ** (-np.arange(count) / count) / factor


def tables(own, dtype=np.float32, first=0):
    angles = (np.arange(first, first + LENGTH, dtype=dtype)[:, None] * own.astype(dtype))[None, None]
    return {name: np.tile(function(angles), 2) for name, function in (("cos", np.cos), ("sin", np.sin))}


def described(values):
    builder = GraphBuilder("tables")
    names = {
        name: builder.leaf("constant", builder.parameter("value", each.shape, name), name=name)
        for name, each in values.items()
    }
    graph = with_rotary_tables(builder.finish(names.values()), values)
    return {node.name: (node.get("rotary"), node.get("rates")) for node in graph}


@pytest.mark.parametrize(
    ("base", "factor", "words"),
    [
        (10000.0, 1.0, "the base 10,000"),
        (10001.0, 1.0, "the base 10,001"),
        (500000.0, 1.0, "the base 500,000"),
        (10000.0, 4.0, "the base 10,000, positions divided by 4"),
    ],
)
def test_tables_say_their_rates(base, factor, words):
    found = described(tables(rates(base, factor)))
    assert [kind for kind, _ in found.values()] == ["cosines", "sines"]
    assert found["cos"][1] == found["sin"][1]
    assert rate_words(found["sin"][1]) == words
    assert same_rates(found["sin"][1], rates(base, factor))


def test_rates_that_follow_no_base_are_compared_one_by_one():
    own = rates() / [1, 1, 1, 1, 2, 4, 8, 8]
    found = described(tables(own))["cos"][1]
    assert same_rates(found, own)
    assert not same_rates(found, rates())
    assert rate_words(found).startswith("8 rates of their own (from 1 to ")


def test_angles_in_float32_and_float64_have_the_same_rates():
    single, double = (described(tables(rates(), dtype))["sin"][1] for dtype in (np.float32, np.float64))
    assert same_rates(single, double)
    other = described(tables(rates(10005.0)))["sin"][1]
    assert not same_rates(single, other)


@pytest.mark.parametrize("case", ["first", "noise", "half", "cosines alone", "one number", "not finite", "pairs"])
def test_other_tables_stay_unknown(case):
    values = tables(rates())
    if case == "first":
        values = tables(rates(), first=1)  # positions do not begin with 0
    elif case == "noise":
        for each in values.values():
            each[0, 0, 20] += 1e-4
    elif case == "half":
        values = {name: each.astype(np.float16) for name, each in values.items()}
    elif case == "cosines alone":
        del values["sin"]
    elif case == "one number":
        for each in values.values():
            each[0, 0, 7, 3] = each[0, 0, 7, 11] = 0.5
    elif case == "not finite":
        for each in values.values():
            each[0, 0, 7, 3] = each[0, 0, 7, 11] = np.inf
    else:
        values = {name: np.repeat(each[..., :HALF], 2, axis=-1) for name, each in values.items()}
    assert set(described(values).values()) == {(None, None)}
