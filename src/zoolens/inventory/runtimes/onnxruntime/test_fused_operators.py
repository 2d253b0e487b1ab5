"""Operators of optimised graphs are mapped back to those of the file, and to none where that is unknown."""

from __future__ import annotations

import pytest

from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode
from zoolens.inventory.runtimes.onnxruntime.fused_operators import computed_tensors, fused_nodes, with_lost_producers
from zoolens.inventory.runtimes.runtime import TensorSpec


def node(name, op, inputs, outputs):
    return OnnxNode(op, tuple(inputs.split()), tuple(outputs.split()), False, name)


def graph(*nodes, outputs="y"):
    inputs = [TensorSpec("x", (1, 3), "float32")]
    ends = [TensorSpec(name, (), "float32") for name in outputs.split()]
    return OnnxGraph(nodes=list(nodes), inputs=inputs, outputs=ends, constants={"w": None, "v": None})


def fused(file, optimised):
    return {part.node.name: part.labels for part in fused_nodes(file, optimised)}


FILE = graph(
    node("conv", "Conv", "x w", "a"),
    node("bn", "BatchNormalization", "a w v", "b"),
    node("relu", "Relu", "b", "c"),
    node("fold", "Mul", "w v", "wv"),
    node("scale", "Mul", "c wv", "d"),
    node("", "Add", "c d", "y"),
)


def test_what_lies_between_the_tensors_that_are_left():
    optimised = graph(
        node("fused conv", "FusedConv", "x w", "c"),
        node("scale", "Mul", "c folded", "d"),
        node("y", "Add", "c d", "y"),
    )
    optimised.constants["folded"] = None
    assert fused(FILE, optimised) == {"fused conv": ("conv", "bn", "relu"), "scale": ("scale",), "y": ("y",)}


def test_operators_in_another_order_of_axes():
    optimised = graph(
        node("Transpose", "Transpose", "x", "Transpose_out"),
        node("conv_token_3_token_7", "NhwcFusedConv", "Transpose_out w", "conv"),
        node("scale_token_2", "Mul", "conv folded", "scale"),
        node("y_token_9", "Add", "conv scale", "y_other"),
        node("Transpose_token_8", "Transpose", "y_other", "y"),
    )
    optimised.constants["folded"] = None
    assert fused(FILE, optimised) == {
        "Transpose": (),
        "conv_token_3_token_7": ("conv", "bn", "relu"),
        "scale_token_2": ("scale",),
        "y_token_9": ("y",),
        "Transpose_token_8": (),
    }


def test_blocked_channels():
    optimised = graph(
        node("reorder", "ReorderInput", "x", "reordered"),
        node("a_nchwc", "Conv", "reordered w", "reorder_1"),
        node("back", "ReorderOutput", "reorder_1", "c"),
        node("rest", "Rest", "c", "y"),
    )
    expected = {"reorder": (), "a_nchwc": ("conv", "bn", "relu"), "back": (), "rest": ("scale", "y")}
    assert fused(FILE, optimised) == expected


BLOCK = graph(  # a residual block with a 1×1 convolution in its shortcut
    node("first", "Conv", "x w v", "a"),
    node("relu", "Relu", "a", "b"),
    node("main", "Conv", "b w v", "m"),
    node("shortcut", "Conv", "x w v", "s"),
    node("add", "Add", "m s", "sum"),
    node("end", "Relu", "sum", "y"),
)


@pytest.mark.parametrize(("adding", "added"), [("main", "shortcut"), ("shortcut", "main")])
def test_a_sum_belongs_to_the_convolution_that_takes_the_other_one_as_an_input(adding, added):
    """As on x86 with AVX: ONNX Runtime gives the operand that it computes first to the other convolution."""
    tensors = {"main": ("m", "b_blocks"), "shortcut": ("s", "x_blocks")}
    optimised = graph(
        node("ReorderInput", "ReorderInput", "x", "x_blocks"),
        node("b_nchwc", "Conv", "x_blocks w v", "b_blocks"),
        node(f"{tensors[added][0]}_nchwc", "Conv", f"{tensors[added][1]} w v", "one"),
        node(f"{tensors[adding][0]}_nchwc", "Conv", f"{tensors[adding][1]} w v one", "both"),
        node("ReorderOutput", "ReorderOutput", "both", "y"),
    )
    assert fused(BLOCK, optimised) == {
        "ReorderInput": (),
        "b_nchwc": ("first", "relu"),
        f"{tensors[added][0]}_nchwc": (added,),
        f"{tensors[adding][0]}_nchwc": (adding, "add", "end"),
        "ReorderOutput": (),
    }
    moved = {part.node.name: part.moved for part in fused_nodes(BLOCK, optimised) if part.moved}
    assert moved == {"ReorderInput": "x", "ReorderOutput": "y"}


def test_a_sum_that_stays_an_operator_belongs_to_no_convolution():
    optimised = graph(
        node("b_nchwc", "Conv", "x w v", "b_blocks"),
        node("m_nchwc", "Conv", "b_blocks w v", "m_blocks"),
        node("s_nchwc", "Conv", "x w v", "s_blocks"),
        node("add", "Add", "m_blocks s_blocks", "sum_blocks"),
        node("end", "Relu", "sum_blocks", "y_blocks"),
        node("ReorderOutput", "ReorderOutput", "y_blocks", "y"),
    )
    assert fused(BLOCK, optimised) == {
        "b_nchwc": ("first", "relu"),
        "m_nchwc": ("main",),
        "s_nchwc": ("shortcut",),
        "add": ("add",),
        "end": ("end",),
        "ReorderOutput": (),
    }


def test_an_operator_that_is_replaced_by_several_is_computed_by_all_of_them():
    file = graph(node("conv", "Conv", "x w", "a"), node("swish", "HardSwish", "a", "y"))
    optimised = graph(
        node("conv", "Conv", "x w", "a"), node("", "HardSigmoid", "a", "inlined"), node("", "Mul", "a inlined", "y")
    )
    assert [part.labels for part in fused_nodes(file, optimised)] == [("conv",), ("swish",), ("swish",)]


def test_a_product_whose_sum_was_fused_and_reshaped():
    file = graph(
        node("/block/MatMul", "MatMul", "x w", "a"), node("/block/Add", "Add", "v a", "b"), node("r", "Relu", "b", "y")
    )
    optimised = graph(
        node("gemm_input_reshape", "Reshape", "x w", "rows"),
        node("/block/MatMul/MatMulAddFusion", "Gemm", "rows w v", "products"),
        node("gemm_output_reshape_token_3", "Reshape", "products w", "b"),
        node("r", "Relu", "b", "y"),
    )
    assert fused(file, optimised) == {
        "gemm_input_reshape": (),
        "/block/MatMul/MatMulAddFusion": ("/block/MatMul", "/block/Add"),
        "gemm_output_reshape_token_3": (),
        "r": ("r",),
    }


def test_nothing_is_claimed_of_what_comes_from_an_unknown_tensor():
    optimised = graph(
        node("new", "Strange", "x w", "made_up"),
        node("other", "Stranger", "made_up", "d"),
        node("y", "Add", "made_up d", "y"),
    )
    assert fused(FILE, optimised) == {"new": (), "other": (), "y": ("y",)}


def test_tensors_that_depend_on_an_input():
    assert [name for _, name in computed_tensors(FILE)] == ["a", "b", "c", "d", "y"]


def test_nodes_that_a_runtime_does_not_tell_of_belong_to_the_layer_that_alone_uses_them():
    told = [("Convolution", ("bn", "relu")), ("Eltwise", ("scale",)), ("Add", ("y",))]
    assert with_lost_producers(FILE, told) == [("conv", "bn", "relu"), ("scale",), ("y",)]
    assert with_lost_producers(FILE, [("Eltwise", ("bn", "relu"))]) == [("bn", "relu")], "no convolution"
    both = [("Convolution", ("relu",)), ("Convolution", ("add", "end"))]
    assert with_lost_producers(BLOCK, both) == [("first", "relu"), ("main", "shortcut", "add", "end")]
    assert with_lost_producers(BLOCK, [*both, ("Convolution", ("shortcut",))])[1] == ("main", "add", "end")


def test_an_operator_that_is_left_is_called_by_its_own_name():
    """An exporter computes the first state of an LSTM from the shape of the input, which is folded into it."""
    file = graph(
        node("shape", "Shape", "x", "s"),
        node("zeros", "Expand", "w s", "h"),
        node("lstm", "LSTM", "x w v h", "y"),
    )
    (part,) = fused_nodes(file, graph(node("lstm", "LSTM", "x w v folded", "y")))
    assert set(part.labels) >= {"lstm"}
    assert part.main == "lstm"
