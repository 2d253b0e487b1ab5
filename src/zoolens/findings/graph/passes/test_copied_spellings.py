"""Spellings that only copies of a network have: half precision, products as Gemm, norms written out."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.proof import prove


def gelu(root):
    """With this number for the root of 2."""
    build = GraphBuilder("gelu")
    x = build.add("input", (), (1, 5))
    inner = build.add("erf", (build.add("div", (x,), (1, 5), scalar=root),), (1, 5))
    gate = build.add("add", (inner,), (1, 5), scalar=1.0)
    return build.finish([build.add("mul", (build.add("mul", (x, gate), (1, 5)),), (1, 5), scalar=0.5)])


@pytest.mark.parametrize(
    ("root", "named"),
    [(sqrt(2), True), (float(np.float16(sqrt(2))), True), (1.41, False), (1.4150390625, False)],
)
def test_a_gelu_may_have_its_root_in_half_precision_and_no_other_number(root, named):
    assert ("gelu" in {node.op for node in canonical(gelu(root))}) is named


def test_an_rms_norm_that_is_written_out_gets_its_name_and_its_scale():
    build = GraphBuilder("rms", keep_weights=True)
    x = build.add("input", (), (1, 3, 8))
    mean = build.add("mean", (build.add("pow", (x,), (1, 3, 8), scalar=2.0),), (1, 3, 1), axes=(2,), keep=True)
    root = build.add("rsqrt", (build.add("add", (mean,), (1, 3, 1), scalar=1e-6),), (1, 3, 1))
    normed = build.add("mul", (x, root), (1, 3, 8))
    scale = build.parameter("scale", (8,), "s", np.arange(1.0, 9.0))
    graph = build.finish([build.add("affine", (normed,), (1, 3, 8), axis=2, parameters=[scale])])
    prove(graph, stepwise=True)
    found = canonical(graph)
    assert [(node.op, node.get("epsilon")) for node in found][1:] == [("rms_norm", 1e-6)]
    assert found.parameters == 8


def test_a_dense_layer_between_reshapes_that_join_rows_is_on_the_rows():
    build = GraphBuilder("gemm", keep_weights=True)
    x = build.add("input", (), (1, 3, 8))
    kernel = build.parameter("kernel", (4, 8), "k", np.random.default_rng(0).normal(size=(4, 8)))
    rows = build.add("reshape", (x,), (3, 8))
    dense = build.add("dense", (rows,), (3, 4), parameters=[kernel])
    graph = build.finish([build.add("reshape", (dense,), (1, 3, 4))])
    prove(graph, stepwise=True)
    assert [node.op for node in canonical(graph)] == ["input", "dense"]


@pytest.mark.parametrize(
    ("scale", "usual"),
    [
        (24**-0.5, True),
        (float(np.sqrt(np.float16(24**-0.5))) ** 2, True),  # half in q and half in k
        (0.2, False),
        (0.2035, False),
    ],
)
def test_the_usual_scale_of_attention_in_half_precision(scale, usual):
    build = GraphBuilder("attention")
    q, k, v = (build.add("input", (), (1, 2, 6, 24), name=name) for name in "qkv")
    graph = canonical(build.finish([build.add("attention", (q, k, v), (1, 2, 6, 24), heads=2, scale=scale)]))
    (node,) = [node for node in graph if node.op == "attention"]
    assert (node.get("scale") is None) is usual
