"""A file of one matrix product, to see how fast a runtime of ONNX multiplies on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zoolens.inventory.runtimes.runtime import ModelFiles


def write_product(folder: Path, size: int, *, integers: bool = False) -> ModelFiles:
    """Write a model that multiplies its input with a constant, both square. `integers`: in 8 bits."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    operator, taken, given = ("MatMul", TensorProto.FLOAT, TensorProto.FLOAT)
    constant = random.standard_normal((size, size)).astype(np.float32)
    if integers:
        operator, taken, given = ("MatMulInteger", TensorProto.UINT8, TensorProto.INT32)
        constant = random.integers(-100, 100, (size, size)).astype(np.int8)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="product")],
        "product",
        [helper.make_tensor_value_info("x", taken, [size, size])],
        [helper.make_tensor_value_info("y", given, [size, size])],
        [numpy_helper.from_array(constant, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = folder / f"product-{operator}-{size}.onnx"
    onnx.save(model, path)
    return ModelFiles("onnx", {"model": path})
