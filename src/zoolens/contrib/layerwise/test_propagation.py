from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise.places import places
from zoolens.contrib.layerwise.propagation import bound_twin
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.segments.segment import Segment
from zoolens.findings.graph.segments.splicing import splice
from zoolens.findings.twins.activations import values_of
from zoolens.testing.bound_contract import TwinBoundContract

ROUNDED = 1 + 1e-9


class Sketch:
    """A small convolutional network with random weights, grown layer by layer."""

    def __init__(self, seed, name="net"):
        self.random = np.random.default_rng(seed)
        self.builder = GraphBuilder(name, keep_weights=True)
        self.last = self.builder.add("input", (), (1, 3, 8, 8), name="x")

    def learned(self, role, *shape):
        values = self.random.standard_normal(shape) * (0.4 if role == "kernel" else 0.1)
        values = np.abs(values) + 0.5 if role.endswith("variance") else values
        return self.builder.parameter(role, shape, f"{len(self.builder.weights)}.{role}", values)

    def conv(self, source, width, *, size=3, stride=1, norm=False):
        _, inner, height, wide = self.builder.shapes[source]
        roles = [self.learned("kernel", width, inner, size, size), self.learned("bias", width)]
        if norm:
            roles += [self.learned(f"norm_{role}", width) for role in ("scale", "shift", "mean", "variance")]
        shape = (1, width, -(-height // stride), -(-wide // stride))
        pads = (size // 2,) * 4
        more = {"norm": "batch", "epsilon": 1e-3} if norm else {}
        return self.builder.add(
            "conv", (source,), shape, parameters=roles, kernel=(size, size), stride=(stride, stride), pads=pads, **more
        )

    def one(self, op, source, **attributes):
        return self.builder.add(op, (source,), self.builder.shapes[source], **attributes)

    def block(self, source, *, deep=1):
        inner = source
        for _ in range(deep):
            inner = self.conv(self.one("relu", inner), self.builder.shapes[source][1], norm=True)
        return self.builder.add("add", (source, inner), self.builder.shapes[source])

    def head(self, source, classes=4):
        width = self.builder.shapes[source][1]
        pooled = self.builder.add("global_avg_pool", (source,), (1, width))
        roles = [self.learned("kernel", classes, width), self.learned("bias", classes)]
        dense = self.builder.add("dense", (pooled,), (1, classes), parameters=roles)
        return self.builder.finish([self.builder.add("softmax", (dense,), (1, classes), axis=1)])


def network(seed, *, deep=1, name="net"):
    sketch = Sketch(seed, name)
    stem = sketch.one("relu", sketch.conv("x", 6, stride=2))
    pooled = sketch.builder.add(
        "max_pool", (stem,), (1, 6, 2, 2), kernel=(3, 3), stride=(2, 2), pads=(1, 1, 1, 1), name="pool"
    )
    return sketch.head(sketch.block(sketch.block(pooled, deep=deep)))


def shaken(graph, keys, by=0.05):
    random = np.random.default_rng(1)
    changed = {
        key: values + by * random.standard_normal(values.shape) if key in keys else values
        for key, values in graph.weights.items()
    }
    return replace(graph, weights=changed)


def examples(count=6, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 3, 8, 8))


def between(graph, entry, exit_):
    names = [node.name for node in graph.nodes]
    return Segment(entry, exit_, tuple(names[names.index(entry) + 1 : names.index(exit_) + 1]))


def measured(a, b, inputs):
    logits = [[n.inputs[0] for n in graph.nodes if n.name in graph.outputs] for graph in (a, b)]
    one, two = (values_of(graph, names, {"x": inputs})[names[0]] for graph, names in zip((a, b), logits, strict=True))
    return np.linalg.norm(one - two, axis=1)


class TestContract(TwinBoundContract):
    bound_twin = staticmethod(bound_twin)


def test_a_network_is_no_distance_from_itself():
    graph = network(0)
    found = bound_twin(graph, graph, examples())
    assert found.value == found.measured == 0
    assert found.unchanged == 1
    assert found.shares == ()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_the_bound_holds_whatever_weights_change(data):
    graph = network(data.draw(st.integers(0, 20)))
    keys = data.draw(
        st.sets(st.sampled_from(sorted(key for key in graph.weights if "variance" not in key)), min_size=1)
    )
    twin = shaken(graph, keys, by=10.0 ** data.draw(st.integers(-3, 0)))
    inputs = examples(4)
    found = bound_twin(graph, twin, inputs)
    np.testing.assert_allclose(found.each_measured, measured(graph, twin, inputs), rtol=1e-6)
    assert (found.each * ROUNDED >= found.each_measured).all()  # equal, where only the last bias differs
    assert found.value * ROUNDED >= found.measured > 0
    assert found.looseness * ROUNDED >= 1


def test_a_single_changed_last_layer_is_bounded_closely():
    graph = network(3)
    [key] = [one.key for node in graph.nodes if node.op == "dense" for one in node.parameters if one.role == "kernel"]
    found = bound_twin(graph, shaken(graph, {key}), examples())
    assert 1 <= found.looseness < 4


def test_a_spliced_segment_of_the_same_structure_is_found_under_other_names():
    graph, donor = network(0), network(1, name="donor")
    segment = between(graph, "pool", "add")
    twin = splice(graph, segment, donor, between(donor, "pool", "add"))
    renamed = replace(
        twin,
        nodes=tuple(
            replace(node, name=f"d.{node.name}" if node.name in ("relu#2", "conv#2") else node.name)
            if node.name != "conv#2"
            else replace(node, name="d.conv#2", inputs=("d.relu#2",))
            for node in (
                replace(n, inputs=tuple("d.conv#2" if i == "conv#2" else i for i in n.inputs)) for n in twin.nodes
            )
        ),
    )
    inputs = examples()
    for one in (twin, renamed):
        assert places(graph, one).ends == frozenset()
        found = bound_twin(graph, one, inputs)
        assert [share.segment for share in found.shares] == ["add"]
        assert (found.each >= found.each_measured).all()
        assert found.shares[0].value == pytest.approx(found.value)


def test_a_segment_that_is_built_otherwise_is_measured_where_it_ends():
    graph, donor = network(0), network(1, deep=2, name="donor")
    segment, replacement = (between(one, "add", "add#2") for one in (graph, donor))
    twin = splice(graph, between(graph, "pool", "add"), donor, between(donor, "pool", "add"))
    inputs = examples()
    found = bound_twin(graph, twin, inputs)
    assert places(graph, twin).ends == {"add"}
    assert (found.each >= found.each_measured).all()
    both = splice(twin, segment, donor, replacement)
    second = bound_twin(graph, both, inputs)
    assert [share.segment for share in second.shares] == ["add", "add#2"]
    assert (second.each >= second.each_measured).all()
    assert second.value <= sum(share.value for share in second.shares) * (1 + 1e-9)


def test_first_classes_that_cannot_have_changed():
    graph = network(2)
    key = next(key for key in graph.weights if "kernel" in key)
    slight, large = (bound_twin(graph, shaken(graph, {key}, by=by), examples(12)) for by in (1e-6, 1.0))
    assert slight.unchanged == 1
    assert not slight.vacuous
    assert large.unchanged < 1


def test_a_product_of_two_values_makes_it_infinite_and_says_so():
    graph = network(0)
    last = graph.by_name["add#2"]
    gate = Node("gate", "mul", (last.name, last.name), last.shape)
    nodes = []
    for node in graph.nodes:
        nodes.append(node if node.op != "global_avg_pool" else replace(node, inputs=("gate",)))
        if node.name == last.name:
            nodes.append(gate)
    graph = replace(graph, nodes=tuple(nodes))
    key = next(key for key in graph.weights if "kernel" in key)
    found = bound_twin(graph, shaken(graph, {key}), examples())
    assert found.value == inf
    assert found.vacuous
    assert "product" in found.reasons[0]


def test_the_quick_norms_bound_as_well():
    graph = network(4)
    twin = shaken(graph, set(graph.weights) - {key for key in graph.weights if "variance" in key})
    exact, quick = (bound_twin(graph, twin, examples(), proof=proof) for proof in ("cholesky", "random"))
    assert (quick.each >= quick.each_measured).all()
    assert quick.value == pytest.approx(exact.value, rel=0.5)


def test_examples_that_do_not_fit():
    graph = network(0)
    with pytest.raises(ModelError, match="has the shape"):
        bound_twin(graph, graph, np.zeros((2, 3, 9, 9)))
    with pytest.raises(ModelError, match="has the shape"):
        bound_twin(graph, graph, np.zeros((0, 3, 8, 8)))
