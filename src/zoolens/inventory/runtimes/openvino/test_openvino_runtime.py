"""OpenVINO keeps the contract in every format it reads, and tells the precision it really computes in."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.measure.lock import resolve_stack
from zoolens.inventory.runtimes.openvino.openvino_runtime import OpenVino
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

pytest.importorskip("openvino")


class _Contract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = OpenVino
    tolerance = 2e-2  # bfloat16 where the processor has it


class TestOnnx(_Contract):
    def model(self, tmp_path):
        pytest.importorskip("onnx")
        return models.onnx(tmp_path, batch=1)


class TestIr(_Contract):
    def model(self, tmp_path):
        pytest.importorskip("onnx")
        return models.openvino_ir(tmp_path)


class TestTflite(_Contract):
    layout = "NHWC"

    def model(self, tmp_path):
        pytest.importorskip("tensorflow")
        return models.cached(models.tflite, tmp_path)


class TestSavedModel(_Contract):
    layout = "NHWC"

    def model(self, tmp_path):
        pytest.importorskip("tensorflow")
        return models.cached(models.tf_savedmodel, tmp_path)


class TestFrozen(_Contract):
    layout = "NHWC"

    def model(self, tmp_path):
        pytest.importorskip("tensorflow")
        return models.cached(models.tf_frozen, tmp_path)


def test_reported_precision_explains_the_error(tmp_path):
    """Where it says float32 the answers are float32's; where it says bfloat16 they are off by as much as that."""
    pytest.importorskip("onnx")
    files, images = models.onnx(tmp_path), models.images(8)
    with OpenVino().open(files) as session:
        found, precision = session.predict({"image": images})["logits"], session.effective().precision
    error = np.abs(found - models.reference(images)).max()
    assert error < {"float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-3}[precision]


def test_other_batches_beyond_those_it_keeps(tmp_path):
    pytest.importorskip("onnx")
    with OpenVino().open(models.onnx(tmp_path, batch=1), Options(precision="float32")) as session:
        for batch in (2, 3, 4, 5, 2):
            images = models.images(batch, seed=batch)
            answers = session.predict({"image": images})["logits"]
            np.testing.assert_allclose(answers, models.reference(images), atol=1e-5)


def test_openvinos_slow_way_of_taking_inputs_is_not_timed(tmp_path):
    """`InferRequest.infer(inputs)` throws C++ exceptions, each of which takes longer in a larger process."""
    pytest.importorskip("onnx")
    called = []
    with OpenVino().open(models.onnx(tmp_path, batch=1)) as session:
        feeds = {"image": models.images(1)}
        session.predict(feeds)
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            session.predict(feeds)
        finally:
            sys.setprofile(None)
    assert "predict" in called
    assert not {"_is_single_input", "update_tensor", "get_request_tensor"} & set(called)


def test_inputs_of_changing_shapes_and_without_axes(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    values = [helper.make_tensor_value_info("x", kind, ["n", "m"]), helper.make_tensor_value_info("factor", kind, [])]
    answer = helper.make_tensor_value_info("y", kind, ["n", "m"])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "factor"], ["y"])], "scaled", values, [answer])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"))
    with OpenVino().open(ModelFiles("onnx", {"model": tmp_path / "m.onnx"}), Options(precision="float32")) as session:
        kept = []
        for shape in ((2, 3), (1, 3), (2, 3), (4, 1)):
            x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
            x.flags.writeable = False
            kept.append((x, session.predict({"x": x, "factor": np.array(3.0, np.float32)})["y"]))
        for x, y in kept:  # answers are copies, which the calls after them leave alone
            np.testing.assert_allclose(y, 3 * x, rtol=1e-6)


def test_its_runs_have_keys_of_their_own_since_its_latency_means_the_model():
    assert resolve_stack(OpenVino(), Options(), None).identity["runtime_protocol"] == 2


def test_scales_of_a_quantised_tflite_file_are_told(tmp_path):
    pytest.importorskip("tensorflow")
    litert = pytest.importorskip("zoolens.inventory.runtimes.litert.litert_runtime")
    pytest.importorskip("ai_edge_litert")
    files = models.cached(models.tflite, tmp_path, int8=True)
    with OpenVino().open(files) as ours, litert.LiteRt().open(files) as theirs:
        for mine, wanted in zip(ours.inputs + ours.outputs, theirs.inputs + theirs.outputs, strict=True):
            assert (mine.dtype, mine.zero_point) == (wanted.dtype, wanted.zero_point)
            assert mine.scale == pytest.approx(wanted.scale)
        feeds = RuntimeContract.feeds(ours)
        mine, wanted = ours.predict(feeds), theirs.predict(feeds)
        np.testing.assert_allclose(mine[ours.outputs[0].name].astype(int), wanted[theirs.outputs[0].name], atol=2)


def test_weights_shorter_than_the_graph_says(tmp_path):
    pytest.importorskip("onnx")
    files = models.openvino_ir(tmp_path)
    files.path("weights").write_bytes(files.path("weights").read_bytes()[:-4])
    with pytest.raises(ModelError, match="reads up to byte"):
        OpenVino().open(files)


def test_what_cannot_be_converted_is_named(tmp_path):
    onnx = pytest.importorskip("onnx")
    files = models.onnx(tmp_path)
    model = onnx.load(str(files.path()))
    model.graph.node[1].op_type = "Reloo"
    onnx.save(model, str(files.path()))
    with pytest.raises(ModelError, match="Reloo"):
        OpenVino().open(files)


def test_without_a_gpu_that_it_can_use_that_is_said(tmp_path):
    """In a process of its own: beside the driver of an NVIDIA GPU, OpenVINO's search for GPUs was seen to crash."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom zoolens.inventory.runtimes.runtime import ModelFiles, Options\n"
        "from zoolens.inventory.runtimes.openvino.openvino_runtime import OpenVino\n"
        "OpenVino().open(ModelFiles('onnx', {'model': Path(sys.argv[1])}), Options(device='gpu:1'))"
    )
    opened = subprocess.run(
        [sys.executable, "-c", code, models.onnx(tmp_path).path()], capture_output=True, text=True, check=False
    )
    if opened.returncode < 0:
        pytest.skip("OpenVINO crashes here when it looks for GPUs")
    if opened.returncode == 0 or "GPU" in opened.stderr.rpartition("here: it sees")[2]:
        pytest.skip("OpenVINO sees a GPU here")
    assert "openvino cannot run on gpu:1 here: it sees CPU" in opened.stderr


@pytest.mark.parametrize("precision", ["default", "float32"])
def test_a_convolution_is_told_with_the_normalisation_that_went_into_its_weights(tmp_path, precision):
    """OpenVINO tells of the normalisation only. In the default precision it may add changes of type, or not."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)

    def constant(name, *shape):
        return numpy_helper.from_array(np.abs(random.normal(1, 0.1, shape)).astype(np.float32), name)

    norm = ["scale", "scale", "scale", "scale"]
    nodes = [
        helper.make_node("Conv", ["x", "wide"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", *norm], ["b"], name="norm"),
        helper.make_node("Relu", ["b"], ["c"], name="relu"),
        helper.make_node("Conv", ["c", "wide"], ["d"], name="main", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "narrow"], ["s"], name="shortcut"),
        helper.make_node("Add", ["d", "s"], ["e"], name="add"),
        helper.make_node("Conv", ["e", "groups"], ["g"], name="groups", group=2),
        helper.make_node("Relu", ["g"], ["y"], name="end"),
    ]
    weights = [constant("wide", 16, 16, 3, 3), constant("narrow", 16, 16, 1, 1), constant("groups", 16, 8, 1, 1)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "block",
        [value("x", TensorProto.FLOAT, [1, 16, 8, 8])],
        [value("y", TensorProto.FLOAT, [1, 16, 8, 8])],
        [*weights, constant("scale", 16)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "block.onnx")
    files = ModelFiles("onnx", {"model": tmp_path / "block.onnx"})
    with OpenVino().open(files, Options(precision=precision)) as session:
        (profile,) = session.profile({"x": np.ones((1, 16, 8, 8), np.float32)})
    layers = {node: [found for found in profile.operators if node in found.nodes] for node in ("first", "norm", "main")}
    assert layers["first"] == layers["norm"]
    assert [found.kind for found in layers["first"]] == ["Convolution"]
    assert not any({"main", "shortcut"} <= set(found.nodes) for found in profile.operators)
    convolutions = [found for found in profile.operators if "Convolution" in found.kind]
    assert all(found.nodes for found in convolutions)
    unknown = {found.kind for found in profile.operators if not found.nodes}
    assert unknown <= {"Reorder", "Convert", "Reshape", "Transpose"}
