"""Each advice is true for its case: it is taken here from files of which it holds."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.importers.onnx.test_fused import node, numbers, saved
from zoolens.findings.graph.passes.canonical import canonical

pytest.importorskip("onnx")
X = numbers(1, 4, 6, 6)


def gaps(tmp_path, nodes, constants=None, inputs=None):
    path = saved(tmp_path / "m.onnx", nodes, inputs or {"x": X}, constants or {})
    return {gap.what: gap.remedy for gap in cost(canonical(ONNX.load(Request(str(path))))).coverage.gaps}


def plain(op, inputs, outputs=("y",), **attributes):
    return node(op, inputs, outputs, domain="", **attributes)


def test_an_operator_of_a_vendor_and_what_stands_behind_it(tmp_path):
    nodes = [node("Reshape3D", "x", ["s"], domain="vendor"), plain("Conv", ["s", "w"])]
    found = gaps(tmp_path, nodes, {"w": numbers(8, 4, 3, 3)})
    assert found["operator vendor:Reshape3D"] == (
        "Export the network without vendor:Reshape3D, or with it written out in standard operators."
    )
    assert found["operator Conv of a value of unknown shape"].startswith(
        "The output shape of an operator before Conv is unknown"
    )


def test_a_shape_that_depends_on_values(tmp_path):
    inputs = {"x": numbers(1, 4), "k": np.array([3, 4])}
    (remedy,) = gaps(tmp_path, [plain("Expand", "xk")], {}, inputs).values()
    assert remedy.startswith("What Expand makes has a shape that depends on values")


def test_a_standard_operator_without_a_reading(tmp_path):
    nodes = [plain("MaxPool", "x", ["y", "i"], kernel_shape=[2, 2])]
    (remedy,) = gaps(tmp_path, nodes).values()
    assert remedy.startswith("zoolens has no reading of MaxPool with indices: export the network without it")


def test_bytes_that_an_unknown_operator_holds_are_parameters_that_are_not_understood(tmp_path):
    kernel = np.random.default_rng(0).integers(-99, 99, (8, 4, 3, 3), np.int8)
    nodes = [node("QuantisedSwirl", "xw", ["s"], domain="vendor"), plain("Relu", "s")]
    path = saved(tmp_path / "m.onnx", nodes, {"x": X}, {"w": kernel})
    tallies = {tally.unit: tally for tally in cost(ONNX.load(Request(str(path)))).coverage.tallies}
    assert (tallies["parameters"].understood, tallies["parameters"].total) == (0, kernel.size)


@pytest.mark.parametrize("domain", ["", "vendor"])
def test_parameters_of_graphs_inside_are_not_counted_as_none(tmp_path, domain):
    from onnx import TensorProto, helper

    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "eo")
    body = helper.make_graph([plain("Conv", ["e", "w"], ["o"])], "body", [given], [made])
    nodes = [
        plain("SequenceConstruct", "xx", ["s"]),
        node("SequenceMap", "s", ["t"], domain=domain, body=body),
        plain("ConcatFromSequence", "t", axis=0),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": X}, {"w": numbers(8, 4, 3, 3)})
    total = cost(ONNX.load(Request(str(path))))
    assert not total.parameters_whole
    assert not total.macs_whole


def test_a_sparse_initialiser_is_refused_by_its_name(tmp_path):
    import onnx
    from onnx import helper, numpy_helper

    values = numpy_helper.from_array(np.ones(2, np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 5]), "i"), [8, 4, 3, 3])
    path = saved(tmp_path / "m.onnx", [plain("Conv", "xw")], {"x": X}, {})
    model = onnx.load(str(path))
    model.graph.sparse_initializer.append(sparse)
    onnx.save(model, str(path))
    with pytest.raises(ModelError, match="keeps 'w' as a sparse initialiser, which is not read here"):
        ONNX.load(Request(str(path)))
