"""The ONNX reader agrees with the onnx package and refuses damaged bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.onnx.onnx_file import check_external, read_graph
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec
from zoolens.testing import models

onnx = pytest.importorskip("onnx")


def _saved(tmp_path, nodes, initializers, inputs, outputs):
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, initializers)
    path = tmp_path / "made.onnx"
    onnx.save(onnx.helper.make_model(graph), str(path))
    return path


def _tensor(name, kind, shape):
    size = 1
    for extent in shape:
        size *= extent
    return onnx.helper.make_tensor(name, kind, shape, [1] * size)


def test_reads_shapes_parameters_and_precision(tmp_path):
    graph = read_graph(models.onnx(tmp_path).path())
    graph.check()
    assert graph.inputs == list(models.declared())
    assert graph.outputs == [TensorSpec("logits", (None, 5), "float32")]
    assert graph.parameters() == models.PARAMETERS
    assert graph.precision() == "float32"


def test_looking_vectors_up_by_number_is_no_integer_arithmetic(tmp_path):
    value, proto = onnx.helper.make_tensor_value_info, onnx.TensorProto
    path = _saved(
        tmp_path,
        [onnx.helper.make_node("Gather", ["table", "ids"], ["vectors"])],
        [_tensor("table", proto.FLOAT, [7, 2])],
        [value("ids", proto.INT64, ["N", "L"])],
        [value("vectors", proto.FLOAT, ["N", "L", 2])],
    )
    assert read_graph(path).precision() == "float32"


def test_scales_zero_points_and_statistics_are_no_parameters(tmp_path):
    value, node, proto = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto
    path = _saved(
        tmp_path,
        [
            node("DequantizeLinear", ["w", "scale", "zero"], ["weight"]),
            node("DequantizeLinear", ["q", "scale", "zero"], ["x"]),
            node("Conv", ["x", "weight"], ["y"]),
            node("BatchNormalization", ["y", "gamma", "beta", "mean", "var"], ["z"]),
        ],
        [
            _tensor("w", proto.INT8, [2, 3, 1, 1]),
            _tensor("scale", proto.FLOAT, [1]),
            _tensor("zero", proto.INT8, [1]),
            *(_tensor(name, proto.FLOAT, [2]) for name in ("gamma", "beta", "mean", "var")),
        ],
        [value("q", proto.INT8, [1, 3, 4, 4])],
        [value("z", proto.FLOAT, [1, 2, 4, 4])],
    )
    graph = read_graph(path)
    assert graph.parameters() == 2 * 3 + 2 + 2
    assert graph.precision() == "int8"


def test_constant_nodes_count_like_initialisers(tmp_path):
    value, node, proto = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Constant", [], ["w"], value=_tensor("w", proto.FLOAT16, [4, 5])),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    path = _saved(tmp_path, nodes, [], [value("x", proto.FLOAT16, [None, 4])], [value("y", proto.FLOAT16, [None, 5])])
    assert read_graph(path).parameters() == 20
    assert read_graph(path).precision() == "float16"


def test_a_tensor_nobody_makes_is_found(tmp_path):
    path = models.onnx(tmp_path).path()
    path.write_bytes(path.read_bytes().replace(b"\x12\x05means", b"\x12\x05m!ans", 1))
    with pytest.raises(ModelError, match="nothing makes the tensor 'means'"):
        read_graph(path).check()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    path = models.onnx(tmp_path).path()
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(ModelError):
        graph = read_graph(path)
        graph.check()
        graph.parameters()
        graph.precision()


# --- values in other files, wherever a tensor can stand


def _outside(location="hidden.bin"):
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def _model(*nodes, functions=(), **graph):
    shape = [2]
    info = onnx.helper.make_tensor_value_info
    inputs = [info("x", onnx.TensorProto.FLOAT, shape), info("c", onnx.TensorProto.BOOL, [])]
    made = onnx.helper.make_graph(
        nodes or [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "g",
        inputs,
        [info("y", onnx.TensorProto.FLOAT, shape)],
        **graph,
    )
    return onnx.helper.make_model(made, functions=list(functions))


def _branch(name="branch"):
    output = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [2])
    return onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["w"], ["b"])], name, [], [output], initializer=[_outside()]
    )


def _in_if():
    return _model(onnx.helper.make_node("If", ["c"], ["y"], then_branch=_branch(), else_branch=_branch()))


def _in_if_of_if():
    outer = onnx.helper.make_graph(
        [onnx.helper.make_node("If", ["c"], ["b"], then_branch=_branch(), else_branch=_branch())],
        "outer",
        [],
        [onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [2])],
    )
    return _model(onnx.helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=outer))


def _in_loop():
    return _model(onnx.helper.make_node("Loop", ["", "c", "x"], ["y"], body=_branch()))


def _in_scan():
    return _model(onnx.helper.make_node("Scan", ["x"], ["y"], body=_branch(), num_scan_inputs=1))


def _in_function():
    inner = onnx.helper.make_node("Constant", [], ["b"], value=_outside())
    opset = onnx.helper.make_opsetid("", 18)
    function = onnx.helper.make_function("local", "F", ["x"], ["b"], [inner], [opset])
    return _model(onnx.helper.make_node("F", ["x"], ["y"], domain="local"), functions=[function])


def _in_function_default():
    function = onnx.helper.make_function("local", "F", ["x"], ["x"], [], [onnx.helper.make_opsetid("", 18)])
    function.attribute_proto.add(name="value", type=onnx.AttributeProto.TENSOR, t=_outside())
    return _model(functions=[function])


def _in_sparse():
    sparse = onnx.SparseTensorProto(values=_outside(), dims=[4])
    return _model(sparse_initializer=[sparse])


def _in_list_of_tensors():
    node = onnx.helper.make_node("Odd", ["x"], ["y"], domain="odd")
    node.attribute.add(name="values", type=onnx.AttributeProto.TENSORS, tensors=[_outside()])
    return _model(node)


def _in_training():
    model = _model()
    model.training_info.add().initialization.initializer.append(_outside())
    return model


class _Merged:
    """Protobuf merges a message that occurs twice: here one names the file, the other says that it counts."""

    def SerializeToString(self):  # noqa: N802 - as messages do
        named, meant = (onnx.TensorProto() for _ in "12")
        named.external_data.add(key="location", value="hidden.bin")
        meant.data_location = onnx.TensorProto.EXTERNAL
        attribute = b"".join(_field(5, one.SerializeToString()) for one in (named, meant))
        node = _field(2, b"y") + _field(4, b"Constant") + _field(5, _field(1, b"value") + attribute)
        return _field(7, _field(1, node))


def _field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize("make", [
    _in_if, _in_if_of_if, _in_loop, _in_scan, _in_function, _in_function_default, _in_sparse, _in_list_of_tensors,
    _in_training, _Merged,
])  # fmt: skip
def test_values_in_other_files_are_found_wherever_they_hide(tmp_path, make):
    path = tmp_path / "m.onnx"
    path.write_bytes(make().SerializeToString())
    assert read_graph(path).external_files() == ["hidden.bin"]
    with pytest.raises(ModelError, match="which the manifest does not list"):
        check_external(ModelFiles("onnx", {"model": path}))
    check_external(ModelFiles("onnx", {"model": path, "weights": tmp_path / "hidden.bin"}))


def test_two_graphs_are_refused(tmp_path):
    content = _model().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(content + content)
    with pytest.raises(ModelError, match="two graphs"):
        read_graph(tmp_path / "m.onnx")


def test_a_text_that_is_named_like_a_model_is_told_from_one(tmp_path):
    (tmp_path / "text.onnx").write_bytes(b"hi\n")
    with pytest.raises(ModelError, match=r"text\.onnx is not a complete ONNX file: it ends too early"):
        read_graph(tmp_path / "text.onnx")
