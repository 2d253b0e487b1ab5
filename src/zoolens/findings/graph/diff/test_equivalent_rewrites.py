"""Rewrites that give a network another form compute the same numbers."""

import numpy as np
import pytest

from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.folded_norms import folded_scales
from zoolens.findings.graph.passes.grouped_convolutions import join_grouped_convolutions
from zoolens.findings.graph.passes.leading_constants import fold_leading_constants
from zoolens.findings.graph.passes.lifted_sequences import has_sequences, lift_sequences
from zoolens.findings.graph.passes.merged_norms import merge_norms
from zoolens.findings.graph.passes.separate_tensors import separate_tensors
from zoolens.findings.graph.passes.sunk_reshapes import sink_reshapes
from zoolens.findings.graph.reference.interpreter import run

RNG = np.random.default_rng(0)


class Network:
    def __init__(self, *shape):
        self.build = GraphBuilder("network", keep_weights=True)
        self.last = self.build.add("input", (), shape, name="x")
        self.count = 0

    @property
    def shape(self):
        return self.build.shapes[self.last]

    def tensor(self, role, *shape):
        self.count += 1
        return self.build.parameter(role, shape, f"{role} {self.count}", RNG.standard_normal(shape))

    def add(self, op, *inputs, shape=None, **settings):
        self.last = self.build.add(op, inputs or (self.last,), shape or self.shape, **settings)
        return self.last

    def conv(self, width, *kernel, groups=1, of=None, bias=None, **settings):
        of = of or self.last
        inputs, extents = self.build.shapes[of][1], self.build.shapes[of][2:]
        tensors = [self.tensor("kernel", width, inputs // groups, *kernel), bias or self.tensor("bias", width)]
        pads = tuple(k // 2 for k in kernel) * 2
        shape = (1, width, *extents)
        return self.add(
            "conv", of, shape=shape, parameters=tensors, kernel=kernel, pads=pads, groups=groups, **settings
        )

    def dense(self, width):
        tensors = [self.tensor("kernel", width, self.shape[-1]), self.tensor("bias", width)]
        return self.add("dense", shape=(*self.shape[:-1], width), parameters=tensors)

    def affine(self, axis, roles=("scale", "shift")):
        tensors = [self.tensor(role, self.shape[axis]) for role in roles]
        return self.add("affine", axis=axis, parameters=tensors)

    def finish(self):
        return self.build.finish([self.last])


def grouped(*, separate, cuts=((0, 2), (2, 4))):
    net = Network(1, 4, 5, 5)
    if not separate:
        net.conv(6, 3, 3, groups=2)
        return net.finish()
    x = net.last
    parts = []
    for start, stop in cuts:
        part = net.add("slice", x, shape=(1, stop - start, 5, 5), axis=1, start=start, stop=stop)
        parts.append(net.conv(3, 3, 3, of=part))
    net.add("concat", *parts, shape=(1, 6, 5, 5), axis=1)
    return net.finish()


def shared_parts():
    """One convolution over both halves of a value."""
    net = Network(1, 4, 5, 5)
    tensors = [net.tensor("kernel", 3, 2, 3, 3), net.tensor("bias", 3)]
    x, parts = net.last, []
    for start in (0, 2):
        part = net.add("slice", x, shape=(1, 2, 5, 5), axis=1, start=start, stop=start + 2)
        parts.append(
            net.add("conv", part, shape=(1, 3, 5, 5), parameters=tensors, kernel=(3, 3), pads=(1,) * 4, groups=1)
        )
    net.add("concat", *parts, shape=(1, 6, 5, 5), axis=1)
    return net.finish()


def scaled_input(op="mul", **settings):
    net = Network(1, 4, 5, 5)
    net.conv(4, 3, 3)
    net.add("relu")
    net.add(op, scalar=0.7, **settings)
    net.conv(3, 1, 1)
    return net.finish()


def sequence():
    net = Network(1, 4, 9)
    net.conv(8, 3)
    entry = net.add("relu")
    net.conv(8, 3, groups=4)
    net.affine(1)
    net.add("add", net.last, entry)
    net.add("max_pool", shape=(1, 8, 4), kernel=(2,), stride=(2,))
    net.add("mean", shape=(1, 8), axes=(2,))
    net.dense(3)
    return net.finish()


def map_of_height_one():
    net = Network(1, 4, 9)
    net.add("reshape", shape=(1, 4, 1, 9))
    net.conv(8, 1, 3)
    entry = net.add("relu")
    net.conv(8, 1, 3, groups=4)
    net.affine(1)
    net.add("add", net.last, entry)
    net.add("max_pool", shape=(1, 8, 1, 4), kernel=(1, 2), stride=(1, 2))
    net.add("global_avg_pool", shape=(1, 8))
    net.dense(3)
    return net.finish()


def rows(*, flat):
    net = Network(2, 3, 4)
    if flat:
        net.add("reshape", shape=(6, 4))
    net.dense(5)
    net.affine(len(net.shape) - 1)
    net.add("gelu")
    net.dense(4)
    if flat:
        net.add("reshape", shape=(2, 3, 4))
    return net.finish()


def scales():
    net = Network(1, 4, 5, 5)
    net.conv(4, 3, 3)
    net.affine(1, ("scale",))
    net.affine(1)
    net.add("relu")
    return net.finish()


def shared_biases(*, kernels=3):
    net = Network(1, 4, 5, 5)
    bias = net.tensor("bias", 4)
    own = [net.tensor("kernel", 4, 4, 1, 1) for _ in range(kernels)]
    for place in range(3):
        tensors = [own[place % kernels], bias]
        net.add("conv", parameters=tensors, kernel=(1, 1))
        net.add("relu")
    return net.finish()


@pytest.mark.parametrize(
    ("form", "graph"),
    [
        (join_grouped_convolutions, grouped(separate=True)),
        (fold_leading_constants, scaled_input()),
        (fold_leading_constants, scaled_input("div")),
        (lift_sequences, sequence()),
        (sink_reshapes, rows(flat=True)),
        (folded_scales, scales()),
        (separate_tensors, shared_biases()),
    ],
)
def test_another_form_computes_the_same(form, graph):
    changed = form(graph)
    assert changed is not graph
    (given,) = graph.inputs
    x = RNG.standard_normal(given.shape)
    (expected,) = run(graph, {"x": x}).values()
    (found,) = run(changed, {"x": x.reshape(changed.inputs[0].shape)}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (grouped(separate=False), grouped(separate=True)),
        (sequence(), map_of_height_one()),
        (rows(flat=False), rows(flat=True)),
    ],
)
def test_two_spellings_of_one_network_are_the_same(a, b):
    assert diff(a, b).same
    assert diff(b, a).same


def test_parts_in_another_order_are_no_groups():
    graph = grouped(separate=True, cuts=((2, 4), (0, 2)))
    assert join_grouped_convolutions(graph) is graph


def test_convolutions_that_share_a_kernel_are_no_groups():
    graph = shared_parts()
    assert join_grouped_convolutions(graph) is graph
    assert not diff(grouped(separate=False), graph).same


def test_a_number_that_is_divided_stays():
    graph = scaled_input("div", reverse=True)
    assert fold_leading_constants(graph) is graph


def test_layers_that_share_a_kernel_share_their_bias():
    graph = shared_biases(kernels=1)
    assert separate_tensors(graph) is graph


def test_biases_that_are_stored_once_are_no_difference():
    net = Network(1, 4, 5, 5)
    for _ in range(3):
        net.conv(4, 1, 1)
        net.add("relu")
    found = diff(net.finish(), shared_biases())
    assert found.same
    assert "equal tensors that are stored once" in found.headline
    assert not diff(net.finish(), shared_biases(kernels=1)).same


def test_widths_of_convolutions_over_sequences_are_told():
    graph = sequence()
    assert has_sequences(graph)
    net = Network(1, 4, 9)
    net.conv(8, 3)
    wide = Network(1, 4, 9)
    wide.conv(12, 3)
    found = diff(net.finish(), wide.finish())
    assert [(one.cause, one.findings[0].values) for one in found.differences] == [("classes", (8, 12))]
    found = diff(net.finish(), wide.finish(), exported=False)
    assert found.differences[0].cause == "classes"


def test_a_scale_behind_a_reshape_meets_its_layer():
    net = Network(1, 4)
    net.dense(6)
    net.add("reshape", shape=(1, 1, 6))
    net.affine(2, ("scale",))
    graph = net.finish()
    merged = merge_norms(graph)
    assert [node.op for node in merged.nodes] == ["input", "dense", "reshape"]
    x = {"x": RNG.standard_normal((1, 4))}
    for one, other in zip(run(graph, x).values(), run(merged, x).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
