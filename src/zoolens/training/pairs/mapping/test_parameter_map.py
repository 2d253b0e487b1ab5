"""Which tensor becomes which, on graphs and origins that are written by hand. `make mutants` runs these."""

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.diff.alignment import Alignment, BlockRow, LayerPair
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.outline.blocks import BlockLayer
from zoolens.training.pairs.mapping.gate_tensors import BiasSum
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.mapping.parameter_map import (
    Fold,
    MappedSide,
    Move,
    ParameterMap,
    Unmatched,
    parameter_map,
    turning,
)

BATCH_NORM = ("norm_scale", "norm_shift", "norm_mean", "norm_variance")


def layer(name, tensors, *, source="", op="dense", inputs=("x",), **attributes):
    """A layer with these tensors: by role their shape in the graph; its keys are NAME.ROLE."""
    parameters = tuple(Parameter(role, shape, f"{name}.{role}") for role, shape in tensors)
    return Node(name, op, inputs, (1, 2), attributes, parameters, source)


def graph(*nodes):
    return Graph("g", (Node("x", "input", (), (1, 3)), *nodes), (nodes[-1].name if nodes else "x",))


def side(graph_, unused=(), without=(), more=None):
    """A network whose tensors are named and laid out as those of its graph."""
    tensors = {tensor.key: tensor.shape for node in graph_.nodes for tensor in node.parameters}
    origins = {
        key: Origin(key, shape, tuple(range(len(shape)))) for key, shape in tensors.items() if key not in without
    }
    return MappedSide(origins, {**tensors, **(more or {})}, tuple(unused))


def aligned(a, b, pairs):
    """The comparison of two graphs with these pairs of layers beside each other."""
    both = tuple(
        LayerPair(*(BlockLayer(g.by_name[name]) if name else None for g, name in ((a, first), (b, second))))
        for first, second in pairs
    )
    return replace(diff(graph(), graph()), a=a, b=b, alignment=Alignment((BlockRow(None, None, both),)))


def mapped(a, b, pairs, sides=None, chosen=None):
    sides = sides or (side(a), side(b))
    return parameter_map(aligned(a, b, pairs), *sides, chosen)


DENSE = (("kernel", (2, 3)), ("bias", (2,)))


def test_tensors_of_one_role_in_a_pair_belong_together():
    a, b = graph(layer("a1", DENSE, source="fc")), graph(layer("b1", DENSE))
    found = mapped(a, b, [("a1", "b1")])
    assert [(move.a.tensor, move.b.tensor, move.role, move.layers, move.how) for move in found.moves] == [
        ("a1.kernel", "b1.kernel", "kernel", ("fc", "b1"), "as it is"),
        ("a1.bias", "b1.bias", "bias", ("fc", "b1"), "as it is"),
    ]
    assert (found.only_a, found.only_b, found.folds, found.unused) == ((), (), (), ((), ()))
    assert found.complete
    assert found.lossless


def test_a_tensor_that_the_other_layer_lacks_is_neutral():
    roles = ("kernel", "bias", "scale", "mean", "variance", "norm_variance", "alpha")
    a = graph(layer("a1", (("kernel", (2, 3)),)))
    b = graph(layer("b1", tuple((role, (2, 3)) for role in roles), source="fc"))
    found = mapped(a, b, [("a1", "b1")])
    assert {tensor.role: tensor.neutral for tensor in found.only_b} == {
        "bias": 0.0, "scale": 1.0, "mean": 0.0, "variance": 1.0, "norm_variance": 1.0, "alpha": None,
    }  # fmt: skip
    assert found.only_b[0] == Unmatched("b1.bias", (2, 3), "fc", "bias", "a1 of A has no such tensor", 0.0)
    assert not found.complete
    assert not found.lossless
    back = mapped(b, a, [("b1", "a1")])
    assert back.complete
    assert not back.lossless
    assert back.only_a[0].why == "a1 of B has no such tensor"


def test_a_layer_without_a_partner_has_no_neutral_tensors():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE), layer("b2", DENSE, inputs=("b1",)))
    found = mapped(a, b, [("a1", "b1"), (None, "b2")])
    assert found.only_b == (
        Unmatched("b2.kernel", (2, 3), "b2", "kernel", "A has no such layer"),
        Unmatched("b2.bias", (2,), "b2", "bias", "A has no such layer"),
    )


def test_another_size_and_computed_numbers_are_told():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", (("kernel", (2, 4)), ("bias", (2,)))))
    found = mapped(a, b, [("a1", "b1")], (side(a), side(b, without={"b1.bias"})))
    assert {tensor.tensor: tensor.why for tensor in (*found.only_a, *found.only_b)} == {
        "a1.kernel": "b1 of B has another size",
        "a1.bias": "B has fixed or computed numbers there",
        "b1.kernel": "a1 of A has another size",
        "b1.bias": "it is computed together with others, so that it has no place of its own in the comparison",
    }
    assert {tensor.neutral for tensor in (*found.only_a, *found.only_b)} == {None}
    assert found.candidates() == [(found.only_b[1], (found.only_a[1],))]


def test_unused_tensors_are_neither_moved_nor_missing():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE))
    sides = side(a, unused=("old",), more={"old": (7,)}), side(b, unused=("gone",), more={"gone": (5,)})
    found = mapped(a, b, [("a1", "b1")], sides)
    assert found.unused == (("old",), ("gone",))
    assert (found.only_a, found.only_b, len(found.moves)) == ((), (), 2)


def test_tensors_that_no_graph_has_a_place_for_go_by_name_and_shape():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE))
    more = {"g": (2, 1), "v": (2, 3), "only": (4,)}
    found = mapped(a, b, [("a1", "b1")], (side(a, more=more), side(b, more={"g": (2, 1), "v": (3, 2)})))
    origin = Origin("g", (2, 1), (0, 1))
    assert found.moves[2:] == (Move(origin, origin, "value", ("g", "g"), "as it is"),)
    why = "it is computed together with others, so that it has no place of its own in the comparison"
    assert found.only_a == (Unmatched("v", (2, 3), "", "value", why), Unmatched("only", (4,), "", "value", why))
    assert found.only_b == (Unmatched("v", (3, 2), "", "value", why),)


def test_several_tensors_of_one_role_belong_together_in_their_order():
    roles = tuple(("value", (size,)) for size in (2, 3, 4))
    nodes = [
        Node(name, "opaque", ("x",), (1, 2), {}, tuple(Parameter(r, s, f"{name}{n}") for n, (r, s) in enumerate(roles)))
        for name in ("a", "b")
    ]
    found = mapped(graph(nodes[0]), graph(nodes[1]), [("a", "b")])
    assert [(move.a.tensor, move.b.tensor) for move in found.moves] == [("a0", "b0"), ("a1", "b1"), ("a2", "b2")]


def test_the_map_back_has_all_sides_exchanged():
    only_a, only_b = (Unmatched(name, (2,), name, "value", "") for name in ("p", "q"))
    back = ParameterMap((), (only_a,), (only_b,), (("u",), ("v",))).reversed()
    assert back == ParameterMap((), (only_b,), (only_a,), (("v",), ("u",)))


def test_two_tensors_of_a_cannot_become_one_that_b_shares():
    a = graph(layer("a1", DENSE[:1]), layer("a2", DENSE[:1], inputs=("a1",)))
    shared = Parameter("kernel", (2, 3), "w")
    nodes = [Node(name, "dense", ("x",), (1, 2), {}, (shared,)) for name in ("b1", "b2")]
    found = mapped(a, graph(*nodes), [("a1", "b1"), ("a2", "b2")])
    assert [(move.a.tensor, move.b.tensor) for move in found.moves] == [("a1.kernel", "w")]
    why = "B shares w between layers, and a1.kernel has its place"
    assert found.only_a == (Unmatched("a2.kernel", (2, 3), "a2", "kernel", why),)
    both = mapped(graph(*nodes), graph(*nodes), [("b1", "b1"), ("b2", "b2")])
    assert len(both.moves) == 1  # one tensor that both share is moved once


def parts(first, second):
    """A network whose one tensor of six numbers is the kernels of two layers."""
    made = graph(layer("p1", (("kernel", (1, 3)),)), layer("p2", (("kernel", (1, 3)),), inputs=("p1",)))
    origins = {
        "p1.kernel": Origin("both", (2, 3), None, np.array(first)),
        "p2.kernel": Origin("both", (2, 3), None, np.array(second)),
    }
    return made, MappedSide(origins, {"both": (2, 3)})


def test_a_tensor_that_is_cut_moves_in_parts():
    cut, cut_side = parts([0, 1, 2], [3, 4, 5])
    b = graph(layer("b1", (("kernel", (1, 3)),)), layer("b2", (("kernel", (1, 3)),), inputs=("b1",)))
    found = mapped(cut, b, [("p1", "b1"), ("p2", "b2")], (cut_side, side(b)))
    assert found.lossless
    assert [move.how for move in found.moves] == ["a part of it", "a part of it"]
    values = {"both": np.arange(6.0).reshape(2, 3)}
    moved = found.moved(values, {"b1.kernel": np.zeros((1, 3)), "b2.kernel": np.zeros((1, 3))})
    assert moved["b1.kernel"].tolist() == [[0, 1, 2]]
    assert moved["b2.kernel"].tolist() == [[3, 4, 5]]
    joined = mapped(b, cut, [("b1", "p1"), ("b2", "p2")], (side(b), cut_side))
    assert [move.how for move in joined.moves] == ["into a part of it", "into a part of it"]
    assert joined.lossless
    assert [move.how for move in found.reversed().moves] == ["into a part of it", "into a part of it"]
    both = mapped(cut, cut, [("p1", "p1"), ("p2", "p2")], (cut_side, cut_side))
    assert [move.how for move in both.moves] == ["part into part", "part into part"]


def test_a_tensor_of_which_only_a_part_moves_is_told():
    cut, cut_side = parts([0, 1, 2], [3, 4, 5])
    b = graph(layer("b1", (("kernel", (1, 3)),)))
    found = mapped(cut, b, [("p1", "b1")], (cut_side, side(b)))
    why = "only 3 of its 6 numbers have a partner"
    assert found.only_a == (Unmatched("both", (2, 3), "p1", "kernel", why),)
    back = mapped(b, cut, [("b1", "p1")], (side(b), cut_side))
    assert back.only_b == (Unmatched("both", (2, 3), "p1", "kernel", why),)
    assert not back.complete


# --- what the user says


def test_a_move_that_the_user_names_comes_before_the_alignment():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE))
    sides = side(a, more={"extra": (2,)}), side(b)
    found = mapped(a, b, [("a1", "b1")], sides, {"extra": "b1.bias"})
    assert [(move.a.tensor, move.b.tensor, move.role, move.layers) for move in found.moves] == [
        ("extra", "b1.bias", "value", ("extra", "b1.bias")),
        ("a1.kernel", "b1.kernel", "kernel", ("a1", "b1")),
    ]
    assert [tensor.tensor for tensor in found.only_a] == ["a1.bias"]


@pytest.mark.parametrize(
    ("chosen", "words", "hint"),
    [
        ({"none": "b1.bias"}, "A has no tensor 'none', which --map names.", None),
        ({"a1.bias": "none"}, "B has no tensor 'none', which --map names.", None),
        ({"a1.bias": "b1.kernel"}, r"2 cannot become it by turning its axes \(2×3\)", None),
        (
            {"sq": "sq"}, r"--map sq=sq: 2×2 can turn into it in several ways \(2×2\)",
            "Say how, as sq=sq@0,1 or sq=sq@1,0.",
        ),
        ({"sq": "sq@2,1"}, r"--map sq=sq@2,1: 2×2 cannot become", None),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_is_refused(chosen, words, hint):
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE))
    sides = side(a, more={"sq": (2, 2)}), side(b, more={"sq": (2, 2)})
    with pytest.raises(ModelError, match=words) as refused:
        mapped(a, b, [("a1", "b1")], sides, chosen)
    assert refused.value.hint == hint


def test_the_order_of_axes_can_be_chosen():
    a, b = graph(layer("a1", DENSE)), graph(layer("b1", DENSE))
    sides = side(a, more={"sq": (2, 2)}), side(b, more={"sq": (2, 2)})
    found = mapped(a, b, [("a1", "b1")], sides, {"sq": "sq@1,0"})
    assert found.moves[0] == Move(
        Origin("sq", (2, 2), (1, 0)), Origin("sq", (2, 2), (0, 1)), "value", ("sq", "sq"), "axes (1, 0)"
    )
    turned = mapped(a, b, [], (side(a), side(b, more={"k": (3, 2)})), {"a1.kernel": "k"})
    assert turned.moves[0].how == "axes (1, 0)"


# --- moving numbers


def test_numbers_turn_with_their_axes_and_take_the_type_of_b():
    move = Move(Origin("w", (2, 3), (1, 0)), Origin("v", (3, 2), (0, 1)), "kernel", ("a", "b"), "")
    into = np.zeros((3, 2), np.float16)
    move.apply(np.arange(6.0).reshape(2, 3), into)
    assert into.tolist() == [[0, 3], [1, 4], [2, 5]]
    plain = {"v": np.zeros((3, 2)), "bias": np.full(2, 7.0), "odd": np.full(2, 7.0)}
    only_b = (Unmatched("bias", (2,), "b", "bias", "", 0.0), Unmatched("odd", (2,), "b", "alpha", "", None))
    moved = ParameterMap((move,), (), only_b).moved({"w": np.arange(6.0).reshape(2, 3)}, plain)
    assert moved["v"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert moved["bias"].tolist() == [0, 0]
    assert moved["odd"].tolist() == [7, 7]  # nothing is known to be neutral
    assert plain["v"].tolist() == [[0, 0], [0, 0], [0, 0]]  # B's own are not touched


NORMED = (("kernel", (2, 3)), *((role, (2,)) for role in BATCH_NORM))
BIASED = (("bias", (2,)), *NORMED)


def test_a_bias_before_a_batch_norm_is_folded_into_its_mean():
    a, b = graph(layer("a1", BIASED, norm="batch")), graph(layer("b1", NORMED, norm="batch"))
    found = mapped(a, b, [("a1", "b1")])
    bias, mean = Origin("a1.bias", (2,), (0,)), Origin("b1.norm_mean", (2,), (0,))
    assert found.folds == (Fold(bias, mean, ("a1", "b1")),)
    assert found.lossless
    values = {f"a1.{role}": np.full(shape, 5.0) for role, shape in BIASED} | {"a1.bias": np.array([1.0, 2.0])}
    moved = found.moved(values, {f"b1.{role}": np.zeros(shape) for role, shape in NORMED})
    assert moved["b1.norm_mean"].tolist() == [4.0, 3.0]
    back = found.reversed()
    assert back.only_b == (Unmatched("a1.bias", (2,), "a1", "bias", "it has been folded into a norm", 0.0),)
    assert back.moves[0] == Move(
        Origin("b1.kernel", (2, 3), (0, 1)), Origin("a1.kernel", (2, 3), (0, 1)), "kernel", ("b1", "a1"), "as it is"
    )
    assert (back.complete, back.folds) == (True, ())


@pytest.mark.parametrize(
    ("norm_a", "norm_b", "tensors_b"),
    [("batch", "layer", NORMED), ("layer", "batch", NORMED), (None, None, NORMED), ("batch", "batch", BIASED)],
)
def test_a_bias_is_folded_only_where_both_have_a_batch_norm_and_b_has_no_bias(norm_a, norm_b, tensors_b):
    a, b = graph(layer("a1", BIASED, norm=norm_a)), graph(layer("b1", tensors_b, norm=norm_b))
    found = mapped(a, b, [("a1", "b1")])
    assert found.folds == ()
    assert found.lossless is (tensors_b is BIASED)


def test_pairs_that_fold_nothing_hinder_no_other():
    """Before the pair that folds: a layer alone, one of another norm, one without a bias, one whose mean is fixed."""
    rest = tuple((role, shape) for role, shape in NORMED if role != "norm_mean")
    firsts = [layer("a0", DENSE), layer("a1", BIASED, norm="layer"), layer("a2", NORMED, norm="batch"),
              layer("a3", BIASED, norm="batch"), layer("a4", BIASED, norm="batch")]  # fmt: skip
    seconds = [layer("b1", NORMED, norm="layer"), layer("b2", NORMED, norm="batch"), layer("b3", rest, norm="batch"),
               layer("b4", NORMED, norm="batch")]  # fmt: skip
    pairs = [("a0", None), ("a1", "b1"), ("a2", "b2"), ("a3", "b3"), ("a4", "b4")]
    found = mapped(graph(*firsts), graph(*seconds), pairs)
    assert [fold.bias.tensor for fold in found.folds] == ["a4.bias"]


def test_a_bias_that_two_layers_share_is_not_folded():
    bias = Parameter("bias", (2,), "shared")
    firsts = [
        Node(f"a{n}", "dense", ("x",), (1, 2), {"norm": "batch"},
             (bias, Parameter("kernel", (2, 3), f"k{n}"), Parameter("norm_mean", (2,), f"m{n}"))) for n in (1, 2, 3)
    ]  # fmt: skip
    tensors = (("kernel", (2, 3)), ("norm_mean", (2,)))
    seconds = [layer(f"b{n}", tensors, norm="batch") for n in (1, 2, 3)]
    found = mapped(graph(*firsts), graph(*seconds), [(f"a{n}", f"b{n}") for n in (1, 2, 3)])
    assert found.folds == ()
    assert [tensor.tensor for tensor in found.only_a] == ["shared"]


def test_a_fold_into_a_mean_that_two_biases_share_is_none():
    a = graph(layer("a1", BIASED, norm="batch"), layer("a2", BIASED, norm="batch", inputs=("a1",)))
    mean = Parameter("norm_mean", (2,), "m")
    nodes = [
        Node(f"b{n}", "dense", ("x",), (1, 2), {"norm": "batch"}, (Parameter("kernel", (2, 3), f"k{n}"), mean))
        for n in (1, 2)
    ]
    found = mapped(a, graph(*nodes), [("a1", "b1"), ("a2", "b2")])
    assert found.folds == ()


# --- words


def whole(shape, axes=None, indices=None):
    return Origin("t", shape, tuple(range(len(shape))) if axes is None and indices is None else axes, indices)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (whole((2, 3)), whole((2, 3)), "as it is"),
        (whole((2, 3), (1, 0)), whole((3, 2)), "axes (1, 0)"),
        (whole((2, 3)), whole((6,)), "as 6"),
        (whole((2, 3), (1, 0)), whole((6,)), "axes (1, 0), as 6"),
        (whole(()), whole((1,)), "as 1"),
        (whole((1,)), whole(()), "as one number"),
        (whole((4,), indices=np.array([1, 0, 3, 2])), whole((4,)), "its numbers in another order"),
    ],
)
def test_how_a_tensor_turns(a, b, words):
    assert turning(a, b) == words


def test_the_kernel_behind_a_flattened_map():
    """Two channels of 3 × 5 into four outputs: channels first in A, last in B, whose kernel is transposed, too."""
    first = np.arange(120).reshape(4, 2, 3, 5)
    last = first.transpose(0, 2, 3, 1).reshape(4, 30)
    a = Origin("w", (4, 30), None, last.reshape(-1))
    assert turning(a, whole((4, 30)), (2, 3, 5)) == "its inputs from the order CHW to HWC"
    turned = Origin("w", (4, 30), None, last.T.reshape(-1))
    assert turning(turned, whole((30, 4)), (2, 3, 5)) == "transposed, its inputs from the order CHW to HWC"
    back = np.arange(120).reshape(3, 5, 2, 4).transpose(2, 0, 1, 3).reshape(-1)
    assert turning(Origin("w", (30, 4), None, back), whole((30, 4)), (2, 3, 5)) == (
        "its inputs from the order HWC to CHW"
    )
    assert turning(a, whole((4, 30)), (2, 15)) == "its numbers in another order"
    assert turning(a, whole((4, 30)), (7, 3, 2)) == "its numbers in another order"
    assert turning(a, whole((4, 30))) == "its numbers in another order"


def test_a_dense_layer_knows_the_map_that_it_reads():
    image = Node("image", "input", (), (1, 2, 3, 2))
    flat = Node("flat", "flatten", ("image",), (1, 12))
    same = Node("same", "identity", ("flat",), (1, 12))
    drop = Node("drop", "dropout", ("same",), (1, 12))
    dense = layer("fc", (("kernel", (4, 12)),), inputs=("drop",))
    made = Graph("g", (image, flat, same, drop, dense), ("fc",))
    last = np.arange(48).reshape(4, 2, 3, 2).transpose(0, 2, 3, 1).reshape(-1)
    a = MappedSide({"fc.kernel": Origin("w", (4, 12), None, last)}, {"w": (4, 12)})
    found = mapped(made, made, [("fc", "fc")], (a, side(made)))
    assert found.moves[0].how == "its inputs from the order CHW to HWC"


# --- gates of recurrent layers


def packed(first, second, shape=(2, 3)):
    """A network whose one tensor packs the kernels of an input and a forget gate."""
    made = graph(layer("r", (("input_kernel", (1, 3)), ("forget_kernel", (1, 3)), ("cell_bias", (1,)))))
    origins = {
        "r.input_kernel": Origin("w", shape, None, np.array(first)),
        "r.forget_kernel": Origin("w", shape, None, np.array(second)),
        "r.cell_bias": Origin("b", (1,), (0,)),
    }
    return made, MappedSide(origins, {"w": shape, "b": (1,)})


def test_gates_of_one_tensor_move_as_one():
    a, side_a = packed([0, 1, 2], [3, 4, 5])
    same = mapped(a, a, [("r", "r")], (side_a, side_a))
    assert [(move.a.tensor, move.role, move.layers, move.how) for move in same.moves] == [
        ("w", "kernel", ("r", "r"), "as it is"),
        ("b", "cell_bias", ("r", "r"), "as it is"),
    ]
    b, side_b = packed([3, 4, 5], [0, 1, 2])
    turned = mapped(a, b, [("r", "r")], (side_a, side_b))
    assert turned.moves[0].how == "its gates from the order input, forget to forget, input"
    moved = turned.moved(
        {"w": np.arange(6.0).reshape(2, 3), "b": np.ones(1)}, {"w": np.zeros((2, 3)), "b": np.zeros(1)}
    )
    assert moved["w"].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert turned.lossless


def test_the_bias_of_a_gate_is_neutral_and_its_kernel_is_not():
    a = graph(layer("r", (("input_kernel", (1, 3)),)))
    b = graph(layer("r", (("input_kernel", (1, 3)), ("input_bias", (1,)), ("forget_kernel", (1, 3)))))
    found = mapped(a, b, [("r", "r")])
    assert {tensor.role: tensor.neutral for tensor in found.only_b} == {"input_bias": 0.0, "forget_kernel": None}


def test_a_second_bias_is_added_and_neutral_on_the_way_back():
    move = Move(Origin("b1", (2,), (0,)), Origin("b", (2,), (0,)), "bias", ("r", "s"), "as it is")
    second = BiasSum(Origin("b2", (2,), (0,)), Origin("b", (2,), (0,)), ("r", "s"))
    found = ParameterMap((move,), (), (), sums=(second,))
    values = {"b1": np.array([1.0, 2.0]), "b2": np.array([10.0, 20.0])}
    assert found.moved(values, {"b": np.zeros(2)})["b"].tolist() == [11.0, 22.0]
    back = found.reversed()
    assert back.only_b == (Unmatched("b2", (2,), "r", "bias", "it is added to another bias", 0.0),)
    assert (back.only_a, back.sums, back.moves[0].layers) == ((), (), ("s", "r"))
