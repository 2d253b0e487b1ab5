from zoolens.graph.building import GraphBuilder
from zoolens.graph.cost import cost


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
