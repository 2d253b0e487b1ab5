from dataclasses import replace

import numpy as np
import pytest

from zoolens.findings.graph.cost.held_parameters import HeldParameters, held_parameters
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.ir.builder import GraphBuilder


def small(**facts):
    build = GraphBuilder("small")
    value = build.add("input", [], (1, 4))
    scores = build.add("dense", [value], (1, 10), parameters=[build.parameter("kernel", (10, 4), "fc.weight")])
    return build.finish([scores], facts)


def test_auxiliary_heads_and_merged_tensors_are_told_apart():
    found = held_parameters(small(parameters_total=100, unused={"aux": 50}))
    assert found == HeldParameters(100, 40, {"aux": 50})
    assert found.merged == 10
    assert found.reason == "50 lead to no output (aux 50) and 10 are merged with others or cut off"


def test_nothing_is_said_where_all_are_used_or_nothing_is_known():
    assert held_parameters(small(parameters_total=40)) is None
    assert held_parameters(small()) is None
    assert held_parameters(small(parameters_total=48, statistics=8)) is None  # Keras counts statistics in


def test_both_counts_are_in_a_diff():
    found = diff(small(parameters_total=100, unused={"aux": 60}), small())
    assert found.same
    assert found.as_data()["parameters_held"] == [100, None]


def test_parts_of_a_torch_network_that_lead_nowhere_are_named():
    torch = pytest.importorskip("torch")
    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.aux = torch.nn.Conv2d(3, 4, 3), torch.nn.Linear(7, 5)

        def forward(self, x):
            y = self.body(x)
            return (y, self.aux(y.mean())) if self.training else y

    graph = graph_of_module(Net(), [torch.zeros(1, 3, 8, 8)], "net")
    assert held_parameters(graph) == HeldParameters(152, 112, {"aux": 40})
    assert held_parameters(replace(graph, facts={})) is None


def test_tensors_of_an_onnx_file_that_lead_nowhere_are_named(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper, kind = onnx.helper, onnx.numpy_helper, onnx.TensorProto.FLOAT
    weights = {"body.weight": (20, 10), "aux.weight": (20, 50), "aux.bias": (50,), "left_over": (77,)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "body.weight"], ["y"]),
            helper.make_node("MatMul", ["x", "aux.weight"], ["a"]),
            helper.make_node("Add", ["a", "aux.bias"], ["b"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", kind, ["n", 20])],
        [helper.make_tensor_value_info("y", kind, ["n", 10])],
        [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()],
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    found = held_parameters(ONNX.load(Request(str(tmp_path / "net.onnx"))))
    assert found == HeldParameters(1327, 200, {"aux": 1050, "left_over": 77})
