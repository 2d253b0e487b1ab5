from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.passes import canonical
from zoolens.findings.graph.passes.proof import prove, random_inputs, with_varied_weights


def network(**weights):
    values = {"k": np.ones((4, 3)), "s": np.ones(4), "m": np.zeros(4), "v": np.ones(4)} | weights
    norm = tuple(Parameter(role, (4,), role[0]) for role in ("scale", "mean", "variance"))
    nodes = (
        Node("x", "input", (), (1, 3)),
        Node("d", "dense", ("x",), (1, 4), parameters=(Parameter("kernel", (4, 3), "k"),)),
        Node("n", "batch_norm", ("d",), (1, 4), {"epsilon": 1e-3}, norm),
        Node("p", "softmax", ("n",), (1, 4), {"axis": 1}),
    )
    return Graph("net", nodes, ("p",), values)


def test_a_right_rewrite_is_proved():
    proof = prove(network(), stepwise=True)
    assert proof.relative < 1e-12
    assert "norms" in proof.passes


def test_a_wrong_pass_is_named(monkeypatch):
    def wrong(graph):
        nodes = tuple(n.with_attributes(epsilon=0.5) if n.get("norm") == "batch" else n for n in graph)
        return replace(graph, nodes=nodes)

    monkeypatch.setattr(canonical, "SETTLING", (*canonical.SETTLING, canonical.Pass("wrong", wrong)))
    with pytest.raises(ModelError, match="after the pass 'wrong'"):
        prove(network(), stepwise=True)
    with pytest.raises(ModelError, match="stepwise"):
        prove(network())


def test_weights_that_are_all_alike_are_varied():
    varied = with_varied_weights(network(), 0).weights
    assert all(len(np.unique(values)) > 1 for values in varied.values())
    assert varied["v"].min() > 0
    own = np.array([1.0, 2.0, 3.0, 4.0])
    assert with_varied_weights(network(s=own), 0).weights["s"] is own


def test_indices_are_drawn_for_an_embedding():
    nodes = (
        Node("x", "input", (), (1, 6)),
        Node("e", "embedding", ("x",), (1, 6, 2), parameters=(Parameter("table", (5, 2), "t"),)),
    )
    graph = Graph("words", nodes, ("e",), {"t": np.random.default_rng(0).standard_normal((5, 2))})
    fed = random_inputs(graph, 0)["x"]
    assert fed.dtype.kind == "i"
    assert fed.max() < 5
    prove(graph)


def test_nothing_is_proved_by_infinities():
    with pytest.raises(ModelError, match="not finite"):
        prove(network(k=np.full((4, 3), np.inf)))
