"""Writes a trained detector as ONNX, operator by operator: no exporter adds nodes, names or versions of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .network import CELLS, STRIDE, USUAL, Detector, convolutions
from .pictures import CLASSES, SIDE


def write_onnx(model: Detector, path: Path) -> None:
    constants: dict[str, Any] = {
        "half": np.float32(127.5),
        "one": np.float32(1),
        "rows": np.array([0, 4 + len(CLASSES), CELLS * CELLS]),
        "sizes": np.array([2, 2, len(CLASSES)]),
        "stride": np.float32(STRIDE),
        "cells": np.stack([model.x.numpy(), model.y.numpy()], -1),
        "usual": np.float32(USUAL),
        "least": np.float32(-2),
        "most": np.float32(2),
    }
    nodes = [
        helper.make_node("Div", ["image", "half"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "one"], ["x0"]),
    ]
    last = "x0"
    for number, (layer, kernel, bias) in enumerate(convolutions(model), 1):
        constants[f"w{number}"], constants[f"b{number}"] = kernel, bias
        made = f"x{number}"
        given = [last, f"w{number}", f"b{number}"]
        settings = {"pads": [int(layer.padding[0])] * 4, "strides": list(layer.stride)}
        nodes.append(helper.make_node("Conv", given, [made], **settings))
        last = made
        if layer is not model.head:
            nodes.append(helper.make_node("Relu", [made], [f"{made}r"]))
            last = f"{made}r"
    nodes += [
        helper.make_node("Reshape", [last, "rows"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["answers"], perm=[0, 2, 1]),
        helper.make_node("Split", ["answers", "sizes"], ["moved", "grown", "logits"], axis=2),
        helper.make_node("Mul", ["moved", "stride"], ["shift"]),
        helper.make_node("Add", ["shift", "cells"], ["centres"]),
        helper.make_node("Clip", ["grown", "least", "most"], ["clipped"]),
        helper.make_node("Exp", ["clipped"], ["factors"]),
        helper.make_node("Mul", ["factors", "usual"], ["sides"]),
        helper.make_node("Concat", ["centres", "sides"], ["boxes"], axis=2),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "detector",
        [value("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [
            value("boxes", TensorProto.FLOAT, ["n", CELLS * CELLS, 4]),
            value("scores", TensorProto.FLOAT, ["n", CELLS * CELLS, len(CLASSES)]),
        ],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made.producer_name = "zoolens"
    onnx.checker.check_model(made)
    onnx.save(made, str(path))
