"""Small random networks in either layout, in whatever spelling: their canonical form computes the same."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.conftest import Sketch
from zoolens.findings.graph.passes.proof import prove


def _hard_swish(sketch, x):
    inner = sketch.one("clip", sketch.one("add", x, scalar=3.0), low=0.0, high=6.0)
    return sketch.two("mul", x, sketch.one("mul", inner, scalar=1 / 6))


def _gate(sketch, x):
    c = sketch.sizes(x)[0]
    gate = sketch.one("relu", sketch.conv(sketch.mean(x, keep=True), 2, bias=True))
    return sketch.two("mul", x, sketch.one("sigmoid", sketch.conv(gate, c, bias=True)))


def _crop(sketch, x):
    c, h, w = sketch.sizes(x)
    if h < 3:
        return x
    shape = sketch.map(c, h - 1, w)
    return sketch.builder.add("slice", (x,), shape, axis=sketch.axes.index("H"), start=1, stop=h)


def _per_channel(sketch, x):
    c = sketch.sizes(x)[0]
    return sketch.two("mul", x, sketch.learned(*((c,) if sketch.axes == "NHWC" else (c, 1, 1))))


def _there_and_back(sketch, x):
    return sketch.other_layout(sketch.one("abs", sketch.other_layout(x)))


STEPS = {
    "conv": lambda s, x: s.conv(x, 4, 3, 1, (1, 1, 1, 1)),
    "conv with bias": lambda s, x: s.conv(x, 6, bias=True),
    "depthwise": lambda s, x: s.conv(x, s.sizes(x)[0], 3, 1, (1, 1, 1, 1), groups=s.sizes(x)[0]),
    "norm": lambda s, x: s.norm(x),
    "written-out norm": lambda s, x: s.norm_written_out(x),
    "relu": lambda s, x: s.one("relu", x),
    "hard swish": _hard_swish,
    "gate": _gate,
    "padded conv": lambda s, x: s.conv(s.pad(x, 1, 0, 1, 2), 4, 2),
    "padded max pool": lambda s, x: s.pool("max_pool", s.pad(x, 1, 1, 1, 1), 3, 1),
    "padded avg pool": lambda s, x: s.pool("avg_pool", s.pad(x, 1, 1, 1, 1), 3, 1),
    "avg pool": lambda s, x: s.pool("avg_pool", x, 3, 1, (1, 1, 1, 1), count_pad=True),
    "transpose": lambda s, x: s.other_layout(x),
    "there and back": _there_and_back,
    "concat": lambda s, x: s.concat(x, s.conv(x, 2)),
    "concats": lambda s, x: s.concat(s.concat(x, s.one("tanh", x)), x),
    "residual": lambda s, x: s.two("add", x, s.norm(s.conv(x, s.sizes(x)[0]))),
    "shuffle": lambda s, x: s.shuffle(x, 2),
    "crop": _crop,
    "per channel": _per_channel,
    "dropout": lambda s, x: s.one("dropout", x, rate=0.5),
}
ENDS = {
    "map": lambda s, x: x,
    "pool": lambda s, x: s.dense(s.mean(x), 3),
    "kept pool": lambda s, x: s.conv(s.mean(x, keep=True), 3),
    "flatten": lambda s, x: s.dense(s.flat(x), 3),
    "flat": lambda s, x: s.flat(x),
}


@given(
    st.sampled_from(["NCHW", "NHWC"]),
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    st.sampled_from(sorted(ENDS)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_canonical_graphs_compute_the_same(axes, steps, end):
    sketch = Sketch(axes)
    x = sketch.input(4, 5, 6)
    for step in steps:
        x = STEPS[step](sketch, x)
    graph = sketch.graph(ENDS[end](sketch, x))
    assert prove(graph, stepwise=True).relative < 1e-6
    once = canonical(graph)
    assert "transpose" not in {node.op for node in once}
    assert canonical(once) == once
