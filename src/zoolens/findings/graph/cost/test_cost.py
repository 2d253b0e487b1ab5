import pytest

from zoolens.findings.graph.cost.cost import cost, macs
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Node


def small():
    """input 3×8×8 → conv 3×3, 4 kernels, bias → relu → + conv 1×1 without bias → global pool → dense 10."""
    build = GraphBuilder("small")
    image = build.add("input", [], (1, 3, 8, 8))
    first = build.add(
        "conv", [image], (1, 4, 8, 8), kernel=(3, 3), pads=(1, 1, 1, 1),
        parameters=[build.parameter("kernel", (4, 3, 3, 3), "a"), build.parameter("bias", (4,), "b")],
    )  # fmt: skip
    active = build.add("relu", [first], (1, 4, 8, 8))
    second = build.add(
        "conv", [active], (1, 4, 8, 8), kernel=(1, 1), parameters=[build.parameter("kernel", (4, 4, 1, 1), "c")]
    )
    total = build.add("add", [active, second], (1, 4, 8, 8))
    pooled = build.add("global_avg_pool", [total], (1, 4))
    scores = build.add("dense", [pooled], (1, 10), parameters=[build.parameter("kernel", (10, 4), "d")])
    return build.finish([scores])


def test_every_total_of_a_network_counted_by_hand():
    found = cost(small())
    maps = 4 * 8 * 8
    assert found.macs == maps * 27 + maps * 4 + 40
    # bias, relu, addition and the pool's sum are one each per number of the map
    assert found.flops == 2 * found.macs + maps * 4
    assert found.parameters == 108 + 4 + 16 + 40
    assert found.activation_bytes == 4 * (4 * maps + 4 + 10)
    # at the addition: relu's map, the second conv's and the sum
    assert found.peak_bytes == 4 * (168 + 3 * maps)
    assert found.moved_bytes == sum(layer.moved_bytes for layer in found.layers)


def test_a_layer_that_two_nodes_share_is_stored_once_and_computed_twice():
    build = GraphBuilder("shared")
    value = build.add("input", [], (1, 4))
    kernel = build.parameter("kernel", (4, 4), "k")
    for _ in range(2):
        value = build.add("dense", [value], (1, 4), parameters=[kernel])
    found = cost(build.finish([value]))
    assert (found.macs, found.parameters, found.parameter_bytes) == (32, 16, 64)


def test_an_unknown_operator_is_named_and_not_counted():
    build = GraphBuilder("odd")
    value = build.add("input", [], (1, 4))
    value = build.unknown("Sorcery", [value], (1, 4))
    found = cost(build.finish([build.unknown("Sorcery", [value], (1, 4))]))
    assert found.unknown == {"Sorcery": 2}
    assert found.flops == 0


def test_a_table_has_no_figures_of_an_operator_that_is_not_understood():
    pytest.importorskip("pandas")
    build = GraphBuilder("odd")
    value = build.add("input", [], (1, 4))
    value = build.unknown("Sorcery", [value], (1, 4))
    value = build.add("unknown", [value], (1, 4), source_op="TopK", macs=0)
    table = cost(build.finish([build.add("relu", [value], (1, 4))])).frame().set_index("op")
    opaque = table.loc["unknown"]
    assert list(opaque["macs"].isna()) == [True, False]  # sorting multiplies nothing, and compares
    assert opaque[["flops", "intensity"]].isna().all(axis=None)
    assert table.loc["relu", "flops"] == 4
    assert table.loc["relu", "intensity"] == 4 / 32
    assert "macs_known" not in table.columns


def test_attention_counts_both_products():
    build = GraphBuilder("attention")
    tensors = [build.add("input", [], (1, 2, 5, 8)) for _ in range(3)]
    found = cost(build.finish([build.add("attention", tensors, (1, 2, 5, 8))]))
    assert found.macs == 2 * (2 * 5 * 5 * 8)


def test_depthwise_and_transposed_convolutions():
    build = GraphBuilder("odd convolutions")
    value = build.add("input", [], (1, 6, 4, 4))
    deep = build.add(
        "conv", [value], (1, 6, 4, 4), kernel=(3, 3), groups=6, pads=(1, 1, 1, 1),
        parameters=[build.parameter("kernel", (6, 1, 3, 3), "a")],
    )  # fmt: skip
    up = build.add(
        "conv_transpose", [deep], (1, 2, 8, 8), kernel=(2, 2), stride=(2, 2),
        parameters=[build.parameter("kernel", (6, 2, 2, 2), "b")],
    )  # fmt: skip
    found = cost(build.finish([up]))
    assert [layer.macs for layer in found.layers] == [0, 6 * 16 * 9, 96 * 8]


def test_a_view_takes_no_memory():
    build = GraphBuilder("views")
    image = build.add("input", [], (1, 10))
    wide = build.add("dense", [image], (1, 100), parameters=[build.parameter("kernel", (100, 10), "a")])
    flat = build.add("reshape", [wide], (100,))
    back = build.add("dense", [flat], (1, 20), parameters=[build.parameter("kernel", (20, 100), "b")])
    found = cost(build.finish([wide, back]))
    assert found.activation_bytes == 4 * (100 + 20)
    assert found.peak_bytes == 4 * (1000 + 2000 + 100 + 20)  # both answers; the reshaped map is the first of them


def test_a_view_keeps_alive_what_it_looks_at():
    build = GraphBuilder("a view that is read late")
    image = build.add("input", [], (1, 10))
    active = build.add("relu", [image], (1, 10))
    flat = build.add("reshape", [active], (10,))
    wide = build.add("dense", [active], (1, 50), parameters=[build.parameter("kernel", (50, 10), "a")])
    back = build.add("dense", [wide], (1, 60), parameters=[build.parameter("kernel", (60, 50), "b")])
    found = cost(build.finish([build.add("concat", [back, flat], (1, 70))]))
    # At the end: the 60 numbers before, the 70 of the answer, and relu's 10, which only the view still needs.
    assert found.peak_bytes == 4 * (500 + 3000 + 60 + 70 + 10)


def one_layer(op, inputs, shape, parameters=(), **attributes):
    """The cost of the last node of a graph that has inputs of these shapes and one layer."""
    build = GraphBuilder("one layer")
    names = [build.add("input", [], extents) for extents in inputs]
    held = [build.parameter(role, extents, role) for role, extents in parameters]
    return cost(build.finish([build.add(op, names, shape, parameters=held, **attributes)])).layers[-1]


@pytest.mark.parametrize(
    ("op", "inputs", "shape", "attributes", "flops"),
    [
        ("relu", [(1, 6, 4)], (1, 6, 4), {}, 24),
        ("batch_norm", [(1, 6, 4)], (1, 6, 4), {}, 2 * 24),
        ("affine", [(1, 6, 4)], (1, 6, 4), {}, 2 * 24),
        ("layer_norm", [(1, 6, 4)], (1, 6, 4), {}, 5 * 24),
        ("softmax", [(1, 7)], (1, 7), {}, 5 * 7),
        ("max_pool", [(1, 6, 8, 8)], (1, 6, 4, 4), {"kernel": (3, 2)}, 96 * 6),
        ("max_pool", [(1, 6, 8, 8)], (1, 6, 4, 4), {}, 96),
        ("lrn", [(1, 6, 2, 2)], (1, 6, 2, 2), {"size": 5, "kernel": (3, 3)}, 24 * (2 * 5 + 3)),
        ("lrn", [(1, 6, 2, 2)], (1, 6, 2, 2), {}, 24 * (2 * 1 + 3)),
        ("global_avg_pool", [(1, 6, 8, 8)], (1, 6), {}, 384),
        ("mean", [], (1, 6), {}, 0),
        ("flatten", [(1, 6, 4)], (1, 24), {}, 0),
        ("concat", [(1, 6), (1, 4)], (1, 10), {}, 0),
    ],
)
def test_flops_of_what_multiplies_no_matrices(op, inputs, shape, attributes, flops):
    found = one_layer(op, inputs, shape, **attributes)
    assert (found.flops, found.macs) == (flops, 0)


def test_a_norm_merged_into_a_layer_and_a_bias_are_counted_beside_the_products():
    parameters = [("kernel", (4, 3, 3, 3)), ("bias", (4,))]
    plain = one_layer("conv", [(1, 3, 8, 8)], (1, 4, 8, 8), parameters[:1])
    biased = one_layer("conv", [(1, 3, 8, 8)], (1, 4, 8, 8), parameters)
    normed = one_layer("conv", [(1, 3, 8, 8)], (1, 4, 8, 8), parameters, norm="batch_norm")
    assert [one.flops for one in (plain, biased, normed)] == [2 * 256 * 27 + beside * 256 for beside in (0, 1, 3)]


def test_attention_over_another_sequence():
    """5 queries of 8 numbers meet 7 keys, whose values have 6: two heads of each."""
    found = one_layer("attention", [(1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 6)], (1, 2, 5, 6))
    assert found.macs == 2 * 5 * 7 * 8 + 2 * 5 * 7 * 6
    assert found.flops == 2 * found.macs + 5 * (2 * 5 * 7)


def test_attention_with_a_mask_and_as_many_heads_as_it_likes():
    found = one_layer("attention", [(5, 8), (7, 8), (7, 6), (5, 7)], (5, 6))
    assert found.macs == 5 * 7 * 8 + 5 * 7 * 6


@pytest.mark.parametrize(
    ("inputs", "shape", "attributes", "products"),
    [
        ([(2, 3, 4), (2, 4, 5)], (2, 3, 5), {}, 30 * 4),
        ([(2, 4, 3), (2, 4, 5)], (2, 3, 5), {"transpose_a": True}, 30 * 4),
        ([(4, 3), (5, 4)], (3, 5), {"transpose_a": True, "transpose_b": True}, 15 * 4),
        ([(4,), (4, 5)], (5,), {"transpose_a": True}, 5 * 4),
        ([(4,), (4, 5)], (5,), {}, 5 * 4),
    ],
)
def test_a_matrix_product_sums_over_the_inner_extent(inputs, shape, attributes, products):
    assert one_layer("matmul", inputs, shape, **attributes).macs == products


def test_a_recurrent_layer_meets_its_weights_at_every_step():
    weights = [("kernel", (20, 3)), ("recurrent_kernel", (20, 5)), ("bias", (40,)), ("projection", (2, 5))]
    assert one_layer("recurrent", [(7, 2, 3)], (7, 2, 5), weights).macs == 14 * (60 + 100 + 10)
    assert one_layer("recurrent", [(2, 3)], (2, 5), weights).macs == 60 + 100 + 10


@pytest.mark.parametrize("op", ["conv", "dense", "conv_transpose", "relu"])
def test_layers_whose_kernel_nobody_knows_multiply_nothing(op):
    assert macs(Node("n", op, (), (1, 4)), [(1, 4)]) == 0


def test_a_layer_is_described_by_its_node():
    build = GraphBuilder("one")
    image = build.add("input", [], (1, 3))
    held = [build.parameter("kernel", (4, 3), "k"), build.parameter("mean", (4,), "m")]
    name = build.add("dense", [image], (1, 4), source="fc", parameters=held)
    layer = cost(build.finish([name]), bytes_each=2).layers[-1]
    assert (layer.name, layer.op, layer.source, layer.shape) == (name, "dense", "fc", (1, 4))
    assert layer.parameters == 12  # a running mean is not learned
    assert (layer.output_bytes, layer.moved_bytes) == (2 * 4, 2 * (3 + 12 + 4 + 4))
    assert layer.intensity == layer.flops / layer.moved_bytes


def test_values_that_are_given_cost_nothing_to_make():
    build = GraphBuilder("given")
    image = build.add("input", [], (1, 8))
    table = build.add("parameter", [], (1, 8), parameters=[build.parameter("value", (1, 8), "t")])
    fixed = build.add("constant", [], (1, 8))
    first = build.add("add", [image, table], (1, 8))
    flat = build.add("reshape", [build.add("mul", [first, fixed], (1, 8))], (8,))
    found = cost(build.finish([flat]))
    assert [layer.moved_bytes for layer in found.layers] == [0, 0, 0, 4 * 24, 4 * 24, 0]
    assert found.activation_bytes == 4 * 16
    assert found.peak_bytes - found.parameter_bytes == 4 * 16  # two values of 8: what is given is not among them
    assert cost(build.finish([image])).layers[0].intensity == 0


def test_values_that_are_read_last_by_the_same_layer_are_all_freed():
    build = GraphBuilder("two at once")
    image = build.add("input", [], (1, 4))
    one, two = (build.add("relu", [image], (1, 50)) for _ in range(2))
    both = build.add("add", [one, two], (1, 10))
    # At the addition two values of 50 and its 10; then only the 10 and the 60 that follow.
    assert cost(build.finish([build.add("relu", [both], (1, 60))])).peak_bytes == 4 * (50 + 50 + 10)


def test_an_unknown_operator_without_a_name_is_a_question_mark():
    build = GraphBuilder("odd")
    image = build.add("input", [], (1, 4))
    assert cost(build.finish([build.add("unknown", [image], (1, 4))])).unknown == {"?": 1}
