from __future__ import annotations

import math

import pytest

from zoolens.findings.graph.ir.equality import same_structure
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.proof import prove


def last(graph):
    """The canonical node of the output, after a proof that it computes the same."""
    prove(graph, stepwise=True)
    found = canonical(graph)
    return found.by_name[found.outputs[0]]


def signed(sketch):
    return sketch.conv(sketch.input(3, 6, 6), 4)


# activations ------------------------------------------------------------------------------------------------------


def half_erf(s, x):
    inner = s.one("add", s.one("erf", s.one("div", x, scalar=math.sqrt(2))), scalar=1.0)
    return s.one("mul", s.two("mul", x, inner), scalar=0.5)


def half_tanh(s, x):
    cubic = s.two("add", x, s.one("mul", s.one("pow", x, scalar=3.0), scalar=0.044715))
    inner = s.one("add", s.one("tanh", s.one("mul", cubic, scalar=0.7978845608)), scalar=1.0)
    return s.two("mul", s.one("mul", x, scalar=0.5), inner)


SPELLINGS = {
    "relu6": (lambda s, x: s.one("minimum", s.one("relu", x), scalar=6.0), {}),
    "relu": (lambda s, x: s.one("maximum", x, scalar=0.0), {}),
    "silu": (lambda s, x: s.two("mul", s.one("sigmoid", x), x), {}),
    "hard_sigmoid": (lambda s, x: s.one("clip", s.one("add", s.one("mul", x, scalar=0.2), scalar=0.5), low=0, high=1),
                     {"alpha": 0.2}),
    "hard_swish": (lambda s, x: s.two("mul", x, s.one("div", s.one("relu6", s.one("add", x, scalar=3.0)), scalar=6.0)),
                   {}),
    "mish": (lambda s, x: s.two("mul", x, s.one("tanh", s.one("softplus", x))), {}),
    "leaky_relu": (lambda s, x: s.two("maximum", x, s.one("mul", x, scalar=0.1)), {"alpha": 0.1}),
    "sigmoid": (lambda s, x: s.one("reciprocal", s.one("add", s.one("exp", s.one("neg", x)), scalar=1.0)), {}),
    "gelu": (half_erf, {}),
    "gelu tanh": (half_tanh, {"approximate": "tanh"}),
    "gelu quick": (lambda s, x: s.two("mul", x, s.one("sigmoid", s.one("mul", x, scalar=1.702))),
                   {"approximate": "quick"}),
    "clip": (lambda s, x: s.one("maximum", s.one("minimum", x, scalar=2.0), scalar=-1.0), {"low": -1.0, "high": 2.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_written_out_activations(drawing, name):
    spelling, attributes = SPELLINGS[name]
    sketch = drawing()
    node = last(sketch.graph(spelling(sketch, signed(sketch))))
    assert node.op == name.split()[0]
    assert dict(node.attributes) == attributes


def test_a_sixth_that_was_rounded_is_a_sixth(drawing):
    sketch = drawing()
    x = sketch.one("relu6", sketch.one("add", signed(sketch), scalar=3.0))
    found = canonical(sketch.graph(sketch.one("mul", x, scalar=0.16667)))
    assert (found.nodes[-1].op, dict(found.nodes[-1].attributes)) == ("hard_sigmoid", {})


def test_a_gate_from_elsewhere_is_no_activation(drawing):
    sketch = drawing()
    x = signed(sketch)
    assert last(sketch.graph(sketch.two("mul", x, sketch.one("sigmoid", sketch.conv(x, 4))))).op == "mul"


# norms ------------------------------------------------------------------------------------------------------------


def test_a_norm_stays_where_others_use_the_layer(drawing):
    sketch = drawing()
    x = signed(sketch)
    assert last(sketch.graph(sketch.two("add", sketch.norm(x), x))).op == "add"
    assert "batch_norm" in {node.op for node in canonical(sketch.graph(sketch.two("add", sketch.norm(x), x)))}


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_forms_of_batch_norm(drawing, axes):
    forms = {
        "node": lambda s, x: s.norm(x, epsilon=1e-3),
        "linear": lambda s, x: s.norm_written_out(x, epsilon=1e-3),
        "centred": centred_norm,
        "caffe": lambda s, x: s.two("add", s.two("mul", bare_norm(s, x), aligned(s, x)), aligned(s, x)),
    }
    for name, form in forms.items():
        sketch = drawing(axes)
        node = last(sketch.graph(form(sketch, signed(sketch))))
        assert (node.op, node.get("norm"), node.get("epsilon")) == ("conv", "batch", 1e-3), name
        roles = {"kernel", "norm_scale", "norm_shift", "norm_mean", "norm_variance"}
        assert {one.role for one in node.parameters} == roles, name


def aligned(sketch, x):
    c = sketch.sizes(x)[0]
    return sketch.learned(*((c,) if sketch.axes == "NHWC" else (c, 1, 1)), low=0.5)


def bare_norm(sketch, x):
    c = sketch.sizes(x)[0]
    learned = [sketch.tensor("mean", c), sketch.tensor("variance", c, low=0.5)]
    return sketch.builder.add("batch_norm", (x,), sketch.shape(x), axes=sketch.axes, parameters=learned, epsilon=1e-3)


def centred_norm(sketch, x):
    root = sketch.one("sqrt", sketch.one("add", aligned(sketch, x), scalar=1e-3))
    centred = sketch.two("div", sketch.two("sub", x, aligned(sketch, x)), root)
    return sketch.two("add", sketch.two("mul", centred, aligned(sketch, x)), aligned(sketch, x))


def test_a_constant_per_channel_is_a_bias_or_an_affine_norm(drawing):
    sketch = drawing("NHWC")
    x = signed(sketch)
    node = last(sketch.graph(sketch.two("add", x, sketch.learned(4))))
    assert [one.role for one in node.parameters] == ["kernel", "bias"]
    node = last(sketch.graph(sketch.two("mul", sketch.two("sub", x, sketch.learned(4)), sketch.learned(4, low=1))))
    assert node.get("norm") == "affine"
    assert [one.role for one in node.parameters] == ["kernel", "bias", "norm_scale"]
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 6, 6), 4, bias=True)
    node = last(sketch.graph(sketch.two("div", x, sketch.learned(4, 1, 1, low=1))))
    assert (node.op, node.get("norm")) == ("conv", "affine")


def test_layer_norm_and_l2_norm(drawing):
    sketch = drawing()
    x = sketch.reshape(sketch.input(3, 2, 4), 1, 3, 8)

    def mean(value, op="mean"):
        return sketch.builder.add(op, (value,), (1, 3, 1), axes=(2,), keep=True)

    centred = sketch.two("sub", x, mean(x))
    root = sketch.one("sqrt", sketch.one("add", mean(sketch.one("pow", centred, scalar=2.0)), scalar=1e-5))
    y = sketch.two("mul", sketch.two("div", centred, root), sketch.learned(8))
    node = last(sketch.graph(sketch.two("add", y, sketch.learned(8))))
    assert (node.op, node.get("axes"), node.get("epsilon"), node.learned) == ("layer_norm", (2,), 1e-5, 16)
    floor = sketch.one("maximum", mean(sketch.two("mul", x, x), "sum"), scalar=1e-12)
    node = last(sketch.graph(sketch.two("mul", x, sketch.one("rsqrt", floor))))
    assert (node.op, node.get("epsilon")) == ("l2_normalize", 1e-6)


@pytest.mark.parametrize(("floor", "epsilon"), [(1e-12, None), (1e-3, 1e-3)])
def test_the_floor_of_a_length_is_kept(drawing, floor, epsilon):
    """As torch spells F.normalize; the vector of zeros must not become 0 / 0."""
    sketch = drawing()
    x = sketch.one("relu", sketch.reshape(sketch.one("mul", sketch.input(3, 2, 4), scalar=0.0), 1, 3, 8))
    total = sketch.builder.add("sum", (sketch.one("square", x),), (1, 3, 1), axes=(2,), keep=True)
    length = sketch.one("clip", sketch.one("sqrt", total), low=floor)
    node = last(sketch.graph(sketch.two("div", x, sketch.builder.add("expand", (length,), (1, 3, 8)))))
    assert (node.op, node.get("epsilon")) == ("l2_normalize", epsilon)


# pads and pools ---------------------------------------------------------------------------------------------------


def test_pads_go_into_every_layer_that_follows(drawing):
    sketch = drawing("NHWC")
    padded = sketch.pad(sketch.one("relu", signed(sketch)), 1, 0, 2, 1)
    parts = sketch.conv(padded, 4, 3), sketch.pool("max_pool", padded, 3, 1), sketch.pool("avg_pool", padded, 3, 1)
    graph = sketch.graph(sketch.concat(*parts))
    prove(graph, stepwise=True)
    found = {node.op: node for node in canonical(graph).nodes}
    assert "pad" not in found
    assert found["conv"].get("pads") == found["max_pool"].get("pads") == (1, 0, 2, 1)
    assert found["max_pool"].get("pad_value") is None  # nothing is negative, so zeros never win
    assert found["avg_pool"].get("count_pad") is True


def test_zeros_before_a_max_pool_matter_where_values_are_negative(drawing):
    sketch = drawing()
    node = last(sketch.graph(sketch.pool("max_pool", sketch.pad(signed(sketch), 1, 1, 1, 1), 3, 2)))
    assert node.get("pad_value") == 0
    sketch = drawing()
    node = last(sketch.graph(sketch.pool("max_pool", sketch.pad(signed(sketch), 1, 1, 1, 1, -1e38), 3, 2)))
    assert (node.get("pads"), node.get("pad_value")) == ((1, 1, 1, 1), None)


def test_a_pad_and_a_crop_are_a_shift(drawing):
    """NASNet takes every second place from the second on: one library pads and crops, another pads by -1."""
    sketch = drawing()
    x = sketch.pad(signed(sketch), 0, 0, 1, 1)
    x = sketch.builder.add("slice", (x,), (1, 4, 6, 7), axis=2, start=1, stop=7)
    x = sketch.builder.add("slice", (x,), (1, 4, 6, 6), axis=3, start=1, stop=7)
    graph = sketch.graph(sketch.pool("avg_pool", x, 1, 2))
    prove(graph, stepwise=True)
    found = canonical(graph)
    assert [node.op for node in found] == ["input", "conv", "pad", "avg_pool"]
    assert found.nodes[2].get("pads") == (0, 0, -1, -1, 0, 0, 1, 1)


def test_a_pad_with_another_value_stays(drawing):
    sketch = drawing()
    x = sketch.pad(sketch.input(3, 6, 6), 1, 1, 1, 1, 0.5)
    graph = sketch.graph(sketch.conv(x, 4, 3))
    prove(graph, stepwise=True)
    assert "pad" in {node.op for node in canonical(graph)}


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_forms_of_the_global_pool(drawing, axes):
    def adaptive(s, x):
        return s.builder.add("adaptive_avg_pool", (x,), s.map(4, 1, 1), axes=s.axes, size=(1, 1))

    forms = [
        lambda s, x: s.mean(x),
        lambda s, x: s.mean(x, keep=True),
        lambda s, x: s.pool("avg_pool", x, 6, 1),
        adaptive,
        lambda s, x: s.flat(adaptive(s, x)),
        lambda s, x: s.builder.add("global_avg_pool", (x,), s.map(4, 1, 1), axes=s.axes),
    ]
    for form in forms:
        sketch = drawing(axes)
        node = last(sketch.graph(form(sketch, signed(sketch))))
        assert (node.op, node.shape) == ("global_avg_pool", (1, 4))


def test_adaptive_pools_with_even_cells_are_plain(drawing):
    def pooled(size):
        sketch = drawing()
        x = signed(sketch)
        return last(sketch.graph(sketch.builder.add("adaptive_avg_pool", (x,), (1, 4, *size), size=size)))

    assert pooled((6, 6)).op == "conv"
    assert (pooled((3, 2)).op, pooled((3, 2)).get("kernel")) == ("avg_pool", (2, 3))
    assert pooled((4, 4)).op == "adaptive_avg_pool"


# layers and arrangement -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_a_convolution_that_covers_its_map_is_dense(drawing, axes):
    sketch = drawing(axes)
    wide = sketch.one("relu", sketch.conv(signed(sketch), 5, 6, bias=True))
    graph = sketch.graph(sketch.conv(wide, 3))
    prove(graph, stepwise=True)
    assert [node.op for node in canonical(graph)] == ["input", "conv", "flatten", "dense", "relu", "dense"]


def test_a_product_with_a_learned_matrix_is_dense(drawing):
    sketch = drawing()
    x = sketch.flat(sketch.input(3, 2, 2))
    y = sketch.builder.add("matmul", (x, sketch.learned(12, 5)), (1, 5))
    node = last(sketch.graph(sketch.two("add", y, sketch.learned(5))))
    assert (node.op, [one.shape for one in node.parameters]) == ("dense", [(5, 12), (5,)])


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_channel_shuffle(drawing, axes):
    sketch = drawing(axes)
    node = last(sketch.graph(sketch.conv(sketch.shuffle(signed(sketch), 2), 2)))
    assert node.op == "conv"
    sketch = drawing(axes)
    graph = canonical(sketch.graph(sketch.shuffle(signed(sketch), 2)))
    assert [one.op for one in graph] == ["input", "conv", "channel_shuffle"]


def test_nested_concats_are_one_even_where_the_inner_has_other_users(drawing):
    sketch = drawing()
    x = signed(sketch)
    inner = sketch.concat(x, sketch.conv(x, 2))
    graph = sketch.graph(sketch.concat(inner, sketch.conv(inner, 2)))
    prove(graph, stepwise=True)
    assert [len(node.inputs) for node in canonical(graph) if node.op == "concat"] == [2, 3]


def test_written_out_attention(drawing):
    sketch = drawing()
    x = sketch.reshape(sketch.input(3, 4, 4), 1, 6, 8)
    q, k, v = (sketch.transpose(sketch.reshape(sketch.dense(x, 8), 1, 6, 2, 4), 0, 2, 1, 3) for _ in range(3))
    scores = sketch.builder.add("matmul", (q, sketch.transpose(k, 0, 1, 3, 2)), (1, 2, 6, 6))
    scores = sketch.two("add", sketch.one("mul", scores, scalar=0.5), sketch.learned(1, 2, 6, 6))
    weights = sketch.one("softmax", scores, axis=3)
    node = last(sketch.graph(sketch.builder.add("matmul", (weights, v), (1, 2, 6, 4))))
    assert (node.op, len(node.inputs), dict(node.attributes)) == ("attention", 4, {"heads": 2})


def test_sums_are_ordered_by_the_longest_path(drawing):
    def block(sketch, *, swapped):
        x = signed(sketch)
        main = sketch.conv(sketch.one("relu", sketch.conv(x, 4)), 4)
        return canonical(sketch.graph(sketch.two("add", *((main, x) if swapped else (x, main)))))

    assert [node.op for node in block(drawing(), swapped=True)] == [node.op for node in block(drawing(), swapped=False)]
    for swapped in (True, False):
        graph = block(drawing(), swapped=swapped)
        assert graph.by_name[graph.nodes[-1].inputs[0]].shape == (1, 4, 6, 6)
        assert graph.nodes[-1].inputs[1] == graph.nodes[1].name


def test_a_value_that_is_computed_twice_is_computed_once(drawing):
    """Torch's newer exporter shares what DLA computes twice."""

    def pooled(twice):
        sketch = drawing()
        x = sketch.conv(sketch.input(3, 8, 8), 4)
        first = sketch.pool("max_pool", x, 2, 2)
        second = sketch.pool("max_pool", x, 2, 2) if twice else first
        third = sketch.pool("max_pool", x, 3, 2, (0, 0, 1, 1))
        return sketch.graph(sketch.concat(sketch.conv(first, 5), second, third))

    assert same_structure(canonical(pooled(twice=True)), canonical(pooled(twice=False)))
    prove(pooled(twice=True), stepwise=True)


def test_layers_and_products_keep_their_number(drawing):
    sketch = drawing()
    x = sketch.reshape(sketch.conv(sketch.input(3, 4, 4), 4), 4, 16)
    products = [sketch.builder.add("matmul", (x, sketch.transpose(x, 1, 0)), (4, 4)) for _ in range(2)]
    graph = sketch.graph(sketch.two("maximum", products[0], sketch.one("exp", products[1])))
    found = canonical(graph)
    assert [node.op for node in found if node.op in ("matmul", "transpose")] == ["transpose", "matmul", "matmul"]
    prove(graph, stepwise=True)


def test_a_layer_of_constants_keeps_the_weights_that_it_learned(drawing):
    """EdgeNeXt projects waves that are not learned: the projection is, and its parameters are counted."""
    sketch = drawing()
    waves = sketch.builder.add("constant", (), (1, 6, 4, 4), parameters=[sketch.tensor("value", 1, 6, 4, 4)])
    graph = sketch.graph(sketch.two("add", sketch.conv(sketch.input(3, 4, 4), 4), sketch.conv(waves, 4)))
    assert sum(node.learned for node in canonical(graph)) == 4 * 3 + 4 * 6
    prove(graph, stepwise=True)
