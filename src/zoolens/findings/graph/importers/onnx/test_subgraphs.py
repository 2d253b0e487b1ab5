"""Functions, branches and loops are read where what they do is constant; otherwise their cost is not known."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.importers.onnx.test_fused import agrees, node, numbers, saved

onnx = pytest.importorskip("onnx")
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
TRUE, W, X = np.array(True), numbers(4, 4), numbers(1, 4)


def plain(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="", **attributes)


def graph_of(nodes, inputs, outputs, constants=None):
    specs = [onnx.helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (*inputs, *outputs)]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    return onnx.helper.make_graph(nodes, "inside", specs[: len(inputs)], specs[len(inputs) :], tensors)


def loop_body(step, *, go_on="on"):
    """h := tanh(h·w), with each h among the outputs; `w` is of the graph around it unless the body has its own."""
    nodes = [plain("Identity", [go_on], ["on2"]), *step, plain("Identity", ["h2"], ["each"])]
    inputs = [("n", INT64, []), ("on", BOOL, []), ("h", FLOAT, [1, 4])]
    outputs = [("on2", BOOL, []), ("h2", FLOAT, [1, 4]), ("each", FLOAT, [1, 4])]
    return graph_of(nodes, inputs, outputs)


STEP = [plain("MatMul", ["h", "w"], ["p"]), plain("Tanh", ["p"], ["h2"])]


def test_a_function_of_the_file_is_read_with_its_attributes_and_those_it_calls(tmp_path):
    make = onnx.helper.make_function
    opset = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
    leaky = plain("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    inner = make("local", "Inner", ["a"], ["b"], [leaky], opset, attributes=["slope"])
    call = node("Inner", ["p"], ["q"], domain="local", slope=0.3)
    outer = make("local", "Outer", ["v", "k"], ["q"], [plain("MatMul", ["v", "k"], ["p"]), call], opset)
    nodes = [node("Outer", ["x", "w"], ["h"], domain="local"), node("Outer", ["h", "w"], ["y"], domain="local")]
    graph = agrees(saved(tmp_path / "m.onnx", nodes, {"x": X}, {"w": W}, functions=[inner, outer]), {"x": X})
    assert [(one.op, one.get("alpha")) for one in graph if one.op == "leaky_relu"] == [
        ("leaky_relu", pytest.approx(0.3))
    ] * 2
    assert graph.parameters == 16  # one matrix, used twice


def test_a_function_that_calls_itself_is_refused_as_unknown(tmp_path):
    opset = [onnx.helper.make_opsetid("local", 1)]
    round_about = onnx.helper.make_function(
        "local", "F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="local")], opset
    )
    nodes = [node("F", ["x"], ["y"], domain="local")]
    path = saved(tmp_path / "m.onnx", nodes, {"x": X}, {}, functions=[round_about])
    assert [one.get("source_op") for one in ONNX.load(Request(str(path))).unknown] == ["local:F in too many others"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_with_a_constant_condition_is_the_one_that_is_taken(tmp_path, taken):
    branches = {
        "then_branch": graph_of([plain("MatMul", ["x", "w"], ["t"])], [], [("t", FLOAT, [1, 4])]),
        "else_branch": graph_of([plain("Relu", ["x"], ["e"])], [], [("e", FLOAT, [1, 4])]),
    }
    path = saved(tmp_path / "m.onnx", [plain("If", ["c"], ["y"], **branches)], {"x": X}, {"w": W, "c": np.array(taken)})
    graph = agrees(path, {"x": X})
    assert cost(graph).macs == (16 if taken else 0)


def test_a_branch_that_depends_on_the_input_leaves_the_cost_open(tmp_path):
    branch = graph_of([plain("MatMul", ["x", "w"], ["t"])], [], [("t", FLOAT, [1, 4])])
    nodes = [plain("MatMul", ["x", "w"], ["v"]), plain("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    path = saved(tmp_path / "m.onnx", [*nodes], {"x": X, "c": TRUE}, {"w": W}, outputs=("y", "v"))
    spent = cost(ONNX.load(Request(str(path))))
    assert (spent.macs, spent.macs_whole, spent.parameters_whole) == (16, False, False)
    assert spent.coverage.gaps[0].what == "operator If whose condition is computed"


def test_a_loop_of_constant_steps_is_unrolled_with_one_set_of_weights(tmp_path):
    nodes = [plain("Loop", ["times", "go", "x"], ["last", "y"], body=loop_body(STEP))]
    constants = {"times": np.array(3), "go": TRUE, "w": W}
    graph = agrees(saved(tmp_path / "m.onnx", nodes, {"x": X}, constants), {"x": X})
    assert (cost(graph).macs, graph.parameters, cost(graph).whole) == (3 * 16, 16, True)


def test_a_loop_inside_a_branch_of_a_loop_sees_the_names_around_it(tmp_path):
    inner = graph_of([plain("Add", ["p", "x"], ["t"])], [], [("t", FLOAT, [1, 4])])
    step = [plain("MatMul", ["h", "w"], ["p"]), plain("If", ["yes"], ["h2"], then_branch=inner, else_branch=inner)]
    nodes = [plain("Loop", ["times", "", "x"], ["last", "y"], body=loop_body(step))]
    graph = agrees(saved(tmp_path / "m.onnx", nodes, {"x": X}, {"times": np.array(2), "yes": TRUE, "w": W}), {"x": X})
    assert cost(graph).macs == 2 * 16


@pytest.mark.parametrize("go_on", ["on", "stop"])
def test_a_loop_whose_steps_depend_on_numbers_leaves_the_cost_open(tmp_path, go_on):
    """By an input that is their number, or by a condition that each step computes."""
    computed = [*STEP, plain("ReduceSum", ["h2"], ["sum"], keepdims=0), plain("Greater", ["sum", "zero"], ["stop"])]
    nodes = [plain("Loop", ["times", "go", "x"], ["last", "y"], body=loop_body(computed[::1], go_on=go_on))]
    if go_on == "stop":  # nodes in the order of computation
        body = loop_body([], go_on="on")
        del body.node[:]
        body.node.extend([*computed, plain("Identity", ["stop"], ["on2"]), plain("Identity", ["h2"], ["each"])])
        nodes = [plain("Loop", ["times", "go", "x"], ["last", "y"], body=body)]
    constants = {"go": TRUE, "w": W, "zero": np.float32(0)}
    inputs = {"x": X}
    if go_on == "on":
        inputs["times"] = np.array(3)
    else:
        constants["times"] = np.array(3)
    spent = cost(ONNX.load(Request(str(saved(tmp_path / "m.onnx", nodes, inputs, constants)))))
    assert (spent.macs_whole, spent.parameters_whole) == (False, False)


def test_a_scan_has_as_many_steps_as_its_sequence(tmp_path):
    nodes = [plain("MatMul", ["h", "w"], ["p"]), plain("Add", ["p", "part"], ["h2"]), plain("Relu", ["h2"], ["each"])]
    shape = [1, 4]
    body = graph_of(
        nodes, [("h", FLOAT, shape), ("part", FLOAT, shape)], [("h2", FLOAT, shape), ("each", FLOAT, shape)]
    )
    scan = plain("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    x = numbers(5, 1, 4)
    path = saved(tmp_path / "m.onnx", [scan], {"x": x}, {"start": np.zeros((1, 4), np.float32), "w": W})
    graph = ONNX.load(Request(str(path), weights=True))
    assert (cost(graph).macs, graph.parameters) == (5 * 16, 16)


def test_a_loop_of_very_many_steps_is_not_unrolled(tmp_path):
    nodes = [plain("Loop", ["times", "go", "x"], ["last", "y"], body=loop_body(STEP))]
    path = saved(tmp_path / "m.onnx", nodes, {"x": X}, {"times": np.array(10**9), "go": TRUE, "w": W})
    (unknown,) = ONNX.load(Request(str(path))).unknown
    assert unknown.get("source_op") == "Loop of too many steps"


def test_nodes_in_another_order_than_that_of_computation_are_put_in_order(tmp_path):
    nodes = [plain("Relu", ["h"], ["y"]), plain("MatMul", ["c", "w"], ["h"]), plain("Identity", ["x"], ["c"])]
    path = saved(tmp_path / "m.onnx", nodes, {"x": X}, {"w": W})
    assert [one.op for one in agrees(path, {"x": X}) if one.op in ("dense", "relu")] == ["dense", "relu"]
