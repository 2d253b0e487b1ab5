"""Files in the blocked layout of ONNX Runtime on x86, made by hand: no other CPU writes them."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.blocked import DOMAIN
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.importers.onnx.test_fused import node, numbers, saved
from zoolens.findings.graph.passes.canonical import canonical

pytest.importorskip("onnx")
X = numbers(1, 3, 8, 8)
STEM, MIDDLE, DEPTH = numbers(10, 3, 3, 3), numbers(10, 10, 3, 3), numbers(10, 1, 3, 3)
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def filled(values, block, *axes):
    """With zeros up to the next whole block along the axes."""
    extra = [(0, -extent % block if axis in axes else 0) for axis, extent in enumerate(values.shape)]
    return np.pad(values, extra)


def blocked(kernel, block, *, inputs=True):
    """(out, in, h, w) in the order of blocks of outputs and, behind the first layer, of inputs."""
    full = filled(kernel, block, 0, *((1,) if inputs else ()))
    out, given, *window = full.shape
    if inputs:
        parts = full.reshape(out // block, block, given // block, block, *window).transpose(0, 2, 4, 5, 3, 1)
    else:
        parts = full.reshape(out // block, block, given, *window).transpose(0, 2, 3, 4, 1)
    return np.ascontiguousarray(parts).reshape(full.shape)


def plain(path):
    nodes = [
        node("Conv", ["x", "w1", "b"], ["c1"], domain="", **WINDOW),
        node("Relu", ["c1"], ["r1"], domain=""),
        node("Conv", ["r1", "w2", "b"], ["c2"], domain="", **WINDOW),
        node("Add", ["c2", "r1"], ["s"], domain=""),
        node("Relu", ["s"], ["r2"], domain=""),
        node("Conv", ["r2", "w3", "b"], ["y"], domain="", group=10, **WINDOW),
    ]
    return saved(path, nodes, {"x": X}, {"w1": STEM, "w2": MIDDLE, "w3": DEPTH, "b": numbers(10)})


def in_blocks(path, block):
    """What ONNX Runtime makes of it: the sum and the activations are inside of the convolutions."""
    nodes = [
        node("Conv", ["x", "w1", "b"], ["r1"], domain=DOMAIN, activation="Relu", **WINDOW),
        node("Conv", ["r1", "w2", "b", "r1"], ["r2"], domain=DOMAIN, activation="Relu", **WINDOW),
        node("Conv", ["r2", "w3", "b"], ["d"], domain=DOMAIN, group=filled(DEPTH, block, 0).shape[0], **WINDOW),
        node("ReorderOutput", ["d"], ["y"], domain=DOMAIN, channels=10),
    ]
    kernels = {"w1": blocked(STEM, block, inputs=False), "w2": blocked(MIDDLE, block)}
    constants = {**kernels, "w3": filled(DEPTH, block, 0), "b": filled(numbers(10), block, 0)}
    return saved(path, nodes, {"x": X}, constants)


@pytest.mark.parametrize("block", [8, 16])
def test_layers_have_their_own_channels_and_not_those_of_the_blocks(tmp_path, block):
    source, copy = (
        canonical(ONNX.load(Request(str(path))))
        for path in (plain(tmp_path / "a.onnx"), in_blocks(tmp_path / "b.onnx", block))
    )
    found = diff(source, copy)
    assert found.same, [found.verdict, *(one.text for one in found.differences)]
    assert cost(copy).macs == cost(source).macs


def test_numbers_in_an_order_that_the_file_does_not_tell_are_refused(tmp_path):
    with pytest.raises(ModelError, match="order of one CPU's kernels"):
        ONNX.load(Request(str(in_blocks(tmp_path / "b.onnx", 16)), weights=True))
