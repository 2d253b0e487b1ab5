"""Operators of optimised graphs are mapped back to those of the file, and to none where that is unknown."""

from __future__ import annotations

from zoolens.runtimes.base import TensorSpec
from zoolens.runtimes.onnxfile import OnnxGraph, OnnxNode
from zoolens.runtimes.onnxfusion import computed_tensors, fused_nodes


def node(name, op, inputs, outputs):
    return OnnxNode(op, tuple(inputs.split()), tuple(outputs.split()), False, name)


def graph(*nodes):
    inputs = [TensorSpec("x", (1, 3), "float32")]
    return OnnxGraph(nodes=list(nodes), inputs=inputs, constants={"w": None, "v": None})


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
    assert fused_nodes(FILE, optimised) == {"fused conv": ("conv", "bn", "relu"), "scale": ("scale",), "y": ("y",)}


def test_operators_in_another_order_of_axes():
    optimised = graph(
        node("Transpose", "Transpose", "x", "Transpose_out"),
        node("conv_token_3_token_7", "NhwcFusedConv", "Transpose_out w", "conv"),
        node("scale_token_2", "Mul", "conv folded", "scale"),
        node("y_token_9", "Add", "conv scale", "y_other"),
        node("Transpose_token_8", "Transpose", "y_other", "y"),
    )
    optimised.constants["folded"] = None
    assert fused_nodes(FILE, optimised) == {
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
    assert fused_nodes(FILE, optimised) == expected


def test_nothing_is_claimed_of_what_comes_from_an_unknown_tensor():
    optimised = graph(
        node("new", "Strange", "x w", "made_up"),
        node("other", "Stranger", "made_up", "d"),
        node("y", "Add", "made_up d", "y"),
    )
    assert fused_nodes(FILE, optimised) == {"new": (), "other": (), "y": ("y",)}


def test_tensors_that_depend_on_an_input():
    assert [name for _, name in computed_tensors(FILE)] == ["a", "b", "c", "d", "y"]
