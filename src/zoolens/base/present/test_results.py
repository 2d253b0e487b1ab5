import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import MissingDependency
from zoolens.base.present.results import LONGEST, Result, frame
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Graph, Node


@dataclass(frozen=True)
class Inner:
    values: tuple[int, ...] = tuple(range(100_000))


class Kind(Enum):
    NEAR = "near"


@dataclass(frozen=True, repr=False)
class Found(Result):
    name: str = "a"
    share: float = 1 / 3
    kind: Kind = Kind.NEAR
    path: Path = Path("x")
    inner: Inner = field(default_factory=Inner)
    few: tuple[str, ...] = ("a", "b")
    many: tuple[str, ...] = tuple("abcdefghij")
    values: object = None
    notes: tuple[str, ...] = ()
    flag: bool = False
    hidden: str = field(default="secret", repr=False)


def test_a_result_is_one_short_line():
    assert repr(Found()) == (
        "Found(name='a', share=0.333333, kind=near, path=x, inner=Inner(…), few=('a', 'b'), many=<10>)"
    )
    assert repr(Found(values=np.zeros((3, 4)), flag=True)).endswith("many=<10>, values=<3×4>, flag=True)")


def test_no_result_is_long_whatever_it_holds():
    long = Found("x" * 10_000, few=("y" * 10_000,), values={"z" * 1000: 1})
    assert len(repr(long)) <= LONGEST
    nested = Found(values=Found(values=long))
    assert len(repr(nested)) <= LONGEST
    assert "few=<1>" in repr(long)


def test_a_result_without_a_page_is_shown_as_text():
    assert Found()._repr_html_() is None


@pytest.fixture
def graph():
    nodes = (Node("x", "input", (), (1, 4)), Node("y", "relu", ("x",), (1, 4)))
    return Graph("net", nodes, ("y",))


def test_a_result_with_a_page_is_html_in_a_notebook(graph):
    found = cost(graph)
    assert found._repr_html_() == zoolens.show(found)._repr_html_()
    assert found._repr_html_().startswith('<div class="zoolens">')


def test_a_result_is_a_table_in_pandas(graph):
    pytest.importorskip("pandas")
    table = cost(graph).frame()
    assert list(table["op"]) == ["input", "relu"]
    assert {"macs", "parameters", "intensity"} <= set(table.columns)


def test_without_pandas_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as Python marks what cannot be imported
    with pytest.raises(MissingDependency, match=r"Cost\.frame needs pandas, which is not installed"):
        frame([], "Cost.frame")
