"""ONNX Runtime keeps the contract and computes the tiny network."""

from __future__ import annotations

import json

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_profile import read_profiles
from zoolens.inventory.runtimes.onnxruntime.onnxruntime_runtime import OnnxRuntime
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, Yielding
from zoolens.inventory.runtimes.timing.calls import ObservedCall
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


class TestContract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = OnnxRuntime

    def model(self, tmp_path):
        return models.onnx(tmp_path)


class TestFixedBatch(RuntimeContract):
    runtime_class = OnnxRuntime

    def model(self, tmp_path):
        return models.onnx(tmp_path, batch=1)


def test_classes_as_words_are_no_output_of_numbers(tmp_path):
    """As scikit-learn's files have them: the class as a word, then the scores, and all numbers in an attribute."""
    from onnx import TensorProto, helper, save

    attributes = {"coefficients": [1.0, -1.0], "intercepts": [0.0, 0.0], "classlabels_strings": ["no", "yes"]}
    value = helper.make_tensor_value_info
    for name, made in (("both", ["label", "scores"]), ("words", ["label"])):
        outputs = {
            "label": value("label", TensorProto.STRING, ["N"]),
            "scores": value("scores", TensorProto.FLOAT, ["N", 2]),
        }
        node = helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", **attributes)
        shown = [outputs[output] for output in made]
        graph = helper.make_graph([node], "linear", [value("x", TensorProto.FLOAT, ["N", 1])], shown)
        sets = [helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("", 17)]
        save(helper.make_model(graph, opset_imports=sets, ir_version=9), tmp_path / f"{name}.onnx")
    with OnnxRuntime().open(ModelFiles("onnx", {"model": tmp_path / "both.onnx"})) as session:
        assert [output.name for output in session.outputs] == ["scores"]
        assert session.predict({"x": np.array([[2.0]], np.float32)})["scores"].tolist() == [[2.0, -2.0]]
        with pytest.raises(ModelError, match="parameters of LinearClassifier are attributes of the operator"):
            session.count_parameters()
    with pytest.raises(ModelError, match=r"no output of numbers: label is tensor\(string\)"):
        OnnxRuntime().open(ModelFiles("onnx", {"model": tmp_path / "words.onnx"}))


def test_the_precision_of_a_float16_file_is_the_one_that_its_answers_have(tmp_path):
    """ONNX Runtime has kernels for float16 on some processors, and casts to float32 on others."""
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(0)
    weights, inputs = random.random((4096, 8)).astype(np.float16), random.random((4, 4096)).astype(np.float16)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [value("x", TensorProto.FLOAT16, ["N", 4096])],
        [value("y", TensorProto.FLOAT16, ["N", 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "half.onnx")
    exact = inputs.astype(np.float64) @ weights.astype(np.float64)
    with OnnxRuntime().open(ModelFiles("onnx", {"model": tmp_path / "half.onnx"})) as session:
        found = session.predict({"x": inputs})["y"].astype(np.float64)
        rounded_once = np.abs(found - exact).max() <= np.abs(exact.astype(np.float16).astype(np.float64) - exact).max()
        assert session.effective().precision == ("float32" if rounded_once else "float16")
        assert session.effective().details["weights"] == "float16"


def test_weights_in_another_file_must_be_listed(tmp_path):
    """Else changed weights would be taken for the same model."""
    onnx = pytest.importorskip("onnx")
    from zoolens.inventory.catalog.lookup import find

    inside = models.onnx(tmp_path)
    graph = onnx.load(str(inside.path()))
    outside = tmp_path / "outside.onnx"
    onnx.save(graph, str(outside), save_as_external_data=True, location="outside.data", size_threshold=0)
    with pytest.raises(ModelError, match="does not list"):
        OnnxRuntime().open(ModelFiles("onnx", {"model": outside}))
    both = ModelFiles("onnx", {"model": outside, "weights": tmp_path / "outside.data"})
    with OnnxRuntime().open(both) as session, OnnxRuntime().open(inside) as whole:
        name = session.inputs[0].name
        shape = tuple(extent or 1 for extent in session.inputs[0].shape)
        feeds = {name: np.ones(shape, np.float32)}
        assert all((session.predict(feeds)[key] == whole.predict(feeds)[key]).all() for key in whole.predict(feeds))
    drafted = find(str(outside)).manifest.assets[0]
    assert {file.role for file in drafted.files} == {"model", "weights"}


def test_a_file_in_the_runtimes_own_format_is_not_taken_for_onnx(tmp_path):
    """One file can be both, and what our checks read as ONNX must be what runs."""
    import onnxruntime

    files = models.onnx(tmp_path)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.optimized_model_filepath = str(tmp_path / "m.ort")
    settings.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(files.path()), settings, providers=["CPUExecutionProvider"])
    other = (tmp_path / "m.ort").read_bytes()
    assert onnxruntime.InferenceSession(other, providers=["CPUExecutionProvider"]).get_inputs()
    with pytest.raises(Exception, match="protobuf"):
        OnnxRuntime().compile(other, files, Options())


# --- observing


@pytest.mark.parametrize("yielding", Yielding)
def test_threads_of_a_server_do_not_spin_after_a_call(tmp_path, yielding):
    runtime = OnnxRuntime()
    runtime.yielding = yielding
    with runtime.open(models.onnx(tmp_path)) as session:
        entries = session._session.get_session_options()
        if yielding:
            assert entries.get_session_config_entry("session.force_spinning_stop") == "1"
        else:
            with pytest.raises(RuntimeError, match="does not have"):
                entries.get_session_config_entry("session.force_spinning_stop")


def test_threads_that_sleep_do_not_spin_within_a_call_either(tmp_path):
    runtime = OnnxRuntime()
    runtime.yielding = Yielding.ALWAYS
    with runtime.open(models.onnx(tmp_path)) as session:
        entries = session._session.get_session_options()
        assert entries.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_fused_operators_name_the_nodes_of_the_file(tmp_path):
    """The nodes of this file have no names of their own: their outputs stand for them. Which of them are fused, in
    which layout they are computed and what that adds depends on the processor."""
    with OnnxRuntime().open(models.onnx(tmp_path)) as session:
        (profile,) = session.profile(RuntimeContract.feeds(session, batch=2))
    computing = [operator for operator in profile.operators if operator.nodes]
    nodes = [node for operator in computing for node in operator.nodes]
    assert nodes == ["features", "rectified", "means", "flat", "logits"]
    assert all(operator.name in operator.nodes for operator in computing)
    convolution = computing[0]
    assert convolution.name == "features"
    assert "Conv" in convolution.kind
    assert convolution.precision == "float32"
    ((batch, *_, height, width),) = convolution.shapes
    assert (batch, height, width) == (2, 6, 6)
    added = [operator for operator in profile.operators if not operator.nodes]
    assert all(operator.kind in ("ReorderInput", "ReorderOutput", "Transpose") for operator in added)
    assert all(operator.name.startswith(f"{operator.kind} of ") for operator in added)


def test_the_run_of_the_session_lies_in_the_call(tmp_path):
    with OnnxRuntime().open(models.onnx(tmp_path)) as session:
        profiles = session.profile(RuntimeContract.feeds(session), repeats=3)
    for profile in profiles:
        assert sum(operator.duration for operator in profile.operators) <= profile.run + 1000 * len(profile.operators)
        assert profile.run <= profile.duration


def test_captured_values_are_those_of_the_network(tmp_path):
    images = models.images(2)
    with OnnxRuntime().open(models.onnx(tmp_path)) as session:
        points = {point.name: point for point in session.capture_points()}
        captured = session.capture({"image": images}, ["rectified", "features", "flat"])
    assert list(points) == ["features", "rectified", "means", "flat", "logits"]
    assert not points["features"].kept  # the activation is fused into the convolution on every processor
    assert points["logits"].kept
    np.testing.assert_array_equal(captured.tensors["rectified"], np.maximum(captured.tensors["features"], 0))
    np.testing.assert_allclose(captured.tensors["flat"], captured.tensors["rectified"].mean((2, 3)), rtol=1e-5)
    np.testing.assert_allclose(captured.outputs["logits"], models.reference(images), atol=1e-5)


def test_a_model_with_weights_in_another_file_is_observed_too(tmp_path):
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(str(models.onnx(tmp_path).path()))
    path = tmp_path / "outside.onnx"
    onnx.save(graph, str(path), save_as_external_data=True, location="outside.data", size_threshold=0)
    files = ModelFiles("onnx", {"model": path, "weights": tmp_path / "outside.data"})
    with open_isolated(OnnxRuntime(), files) as session:
        feeds = RuntimeContract.feeds(session)
        assert ("features", "rectified") in [operator.nodes for operator in session.profile(feeds)[0].operators]
        RuntimeContract.same(session.capture(feeds, ["flat"]).outputs, session.predict(feeds))


def test_an_int8_graph_is_mapped_through_quantising_and_other_axes():
    with OnnxRuntime().open(ModelFiles("onnx", {"model": MODELS_FOLDER / "lenet-int8.onnx"})) as session:
        (profile,) = session.profile(RuntimeContract.feeds(session))
    of_node = {node: operator for operator in profile.operators for node in operator.nodes}
    assert of_node["conv_1"].kind == "QLinearConv"
    assert of_node["conv_1"].precision == "int8"
    assert of_node["conv_1"] is of_node["relu_1_QuantizeLinear"]
    assert of_node["conv_1"].name == "conv_1"
    assert of_node["maxpool_0"] is not of_node["conv_1"]


def test_operators_of_a_branch_lie_below_it(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    inner = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Neg", ["e"], ["inner"], name="twice")],
        "branch",
        [],
        [helper.make_tensor_value_info("inner", number, [None])],
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["twice"], keepdims=0),
        helper.make_node("Cast", ["twice"], ["any"], to=onnx.TensorProto.BOOL, name="twice"),
        helper.make_node("If", ["any"], ["y"], then_branch=inner, else_branch=inner),
    ]
    graph = helper.make_graph(
        nodes,
        "branching",
        [helper.make_tensor_value_info("x", number, [None])],
        [helper.make_tensor_value_info("y", number, [None])],
    )
    path = tmp_path / "branching.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    with OnnxRuntime().open(ModelFiles("onnx", {"model": path})) as session:
        feeds = {"x": np.ones(5, np.float32)}
        (profile,) = session.profile(feeds)
        RuntimeContract.check_profile(profile, 1)
        RuntimeContract.same(session.capture(feeds, ["any"]).outputs, session.predict(feeds))
    kinds = [operator.kind for operator in profile.operators]
    assert kinds == ["ReduceSum", "Cast", "If", "Exp", "Neg"]
    assert [operator.parent for operator in profile.operators] == [None, None, None, 2, 2]
    assert [operator.nodes for operator in profile.operators] == [("twice",), ("twice",), ("y",), (), ()]


def test_a_profile_that_is_cut_off_is_explained(tmp_path):
    calls = [ObservedCall(start, 5000, None, 0, 0, 0, 0, 0) for start in (10_000, 20_000)]
    event = {"cat": "Node", "name": "a_kernel_time", "ts": 3, "dur": 1, "args": {"op_name": "Conv"}}
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([event, {**event, "ts": 13}]))
    assert [len(profile.operators) for profile in read_profiles(path, 8000, calls, [])] == [1, 1]
    path.write_text(json.dumps([event]))
    with pytest.raises(ModelError, match="all the predictions"):
        read_profiles(path, 8000, calls, [])
    path.write_text(json.dumps([event])[:-5])
    with pytest.raises(ModelError, match="not complete"):
        read_profiles(path, 8000, calls, [])


def test_a_real_classifier_is_observed_without_changing_it():
    path = ASSETS / "imagenet/onnx/shufflenet-v2-12-int8.onnx"
    if not path.exists():
        pytest.skip(f"ZOOLENS_ASSETS has no {path.name}")
    with OnnxRuntime().open(ModelFiles("onnx", {"model": path}), Options(threads=1)) as session:
        feeds = RuntimeContract.feeds(session)
        kept = [point.name for point in session.capture_points() if point.kept]
        assert len(kept) > 50
        RuntimeContract.same(session.capture(feeds, kept).outputs, session.predict(feeds))
        (profile,) = session.profile(feeds)
    RuntimeContract.check_profile(profile, 1)
    nodes = [node for operator in profile.operators for node in operator.nodes]
    assert len(nodes) == len(set(nodes)) == 189
    unmapped = {operator.kind for operator in profile.operators if not operator.nodes}
    moves = {"Transpose", "ReorderInput", "ReorderOutput"}
    assert unmapped <= moves, "what the optimiser adds computes nothing of the file"


def test_without_a_provider_for_the_gpu_that_is_said(tmp_path):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this build has a provider for CUDA")
    with pytest.raises(ModelError, match="onnxruntime cannot run on cuda here"):
        OnnxRuntime().open(models.onnx(tmp_path), Options(device="cuda"))
