"""Slices with negative steps, against ONNX Runtime."""

import numpy as np
import pytest

from zoolens.findings.graph.importers.onnx.test_fused import agrees, node, numbers, saved

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([-1], [-(2**63)], [1], [-1]),
        ([5], [1], [1], [-2]),
        ([-1, 0], [-100, 3], [2, 1], [-1, 2]),
        ([100], [-100], [1], [-3]),
    ],
)
def test_a_slice_backwards(tmp_path, starts, ends, axes, steps):
    settings = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    constants = {name: np.array(values, np.int64) for name, values in settings.items()}
    nodes = [node("Slice", ["x", *settings], ["s"], domain=""), node("Relu", ["s"], domain="")]
    x = {"x": numbers(2, 7, 4)}
    agrees(saved(tmp_path / "m.onnx", nodes, x, constants), x)
