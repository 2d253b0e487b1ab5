"""OpenVINO's counters are averages since the model was compiled; single calls and the file's nodes are told apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.litert.tflite_file import read_graph
from zoolens.inventory.runtimes.openvino.openvino_layers import Counters, calls_per_compilation
from zoolens.inventory.runtimes.openvino.openvino_runtime import OpenVino
from zoolens.inventory.runtimes.openvino.openvino_tflite import found_layers
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract

STATUS = SimpleNamespace(EXECUTED="executed", NOT_RUN="not run")


class Request:
    """Keeps counters as OpenVINO 2026.4 does: whole microseconds of each call, averaged and cut to whole ones."""

    def __init__(self):
        self.calls = []

    def get_profiling_info(self):
        averages = np.array(self.calls).sum(axis=0) // len(self.calls)
        infos = [
            SimpleNamespace(
                Status=STATUS,
                status=STATUS.EXECUTED if value else STATUS.NOT_RUN,
                real_time=timedelta(microseconds=int(value)),
            )
            for value in averages
        ]
        return [*infos, SimpleNamespace(Status=STATUS, status=STATUS.NOT_RUN, real_time=timedelta(0))]


def test_single_calls_are_recovered_from_averages():
    random = np.random.default_rng(0)
    request = Request()
    counters = Counters(request)
    errors = []
    for call in range(20):
        truth = [10_000, 500] if call == 0 else random.integers(200, 400, 2).tolist()  # the first call is cold
        request.calls.append(truth)
        durations = [duration / 1000 for _, duration in counters.durations()][:2]
        assert counters.ran == {0, 1}
        errors += [found - wanted for found, wanted in zip(durations, truth, strict=True)]
        assert all(abs(error) <= call + 1 for error in errors[-2:])
    assert abs(np.mean(errors)) < 1


def test_a_layer_that_ran_once_stays_when_its_average_falls_below_a_microsecond():
    request = Request()
    counters = Counters(request)
    request.calls.append([100, 1])
    assert [duration for _, duration in counters.durations()] == [100_000, 1_000, 0]
    request.calls.append([100, 0])
    assert [duration for _, duration in counters.durations()][1] == 0
    assert counters.ran == {0, 1}


def test_a_layer_that_one_compilation_saw_is_in_the_profiles_of_all(session, monkeypatch):
    """A small model is compiled again every two calls; a layer of a microsecond may show in one of these only."""
    seen = []

    class Forgetful(Counters):
        def durations(self):
            durations = super().durations()
            if seen.count(self) == 0:
                seen.append(self)
            if len(seen) == 1:  # the first compilation sees no more than one layer
                self.ran = {min(self.ran)}
            return durations

    monkeypatch.setattr("zoolens.inventory.runtimes.openvino.openvino_runtime.Counters", Forgetful)
    monkeypatch.setattr(
        "zoolens.inventory.runtimes.openvino.openvino_runtime.calls_per_compilation", lambda nanoseconds, layers: 2
    )
    profiles = session.profile(RuntimeContract.feeds(session, batch=2), 4)
    assert len(seen) > 1
    names = [[operator.name for operator in profile.operators] for profile in profiles]
    assert len(names[0]) > 1
    assert names == [names[0]] * 4


def test_small_models_are_compiled_more_often():
    assert calls_per_compilation(300_000, 10) == 2
    assert calls_per_compilation(50_000_000, 80) == 50
    assert 2 < calls_per_compilation(5_000_000, 30) < 50


@pytest.fixture
def session(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    with OpenVino().open(models.onnx(tmp_path), Options(precision="float32")) as opened:
        yield opened


def test_layers_name_the_nodes_of_the_file_and_their_kernels(session):
    (profile,) = session.profile(RuntimeContract.feeds(session, batch=2))
    by_node = {node: operator for operator in profile.operators for node in operator.nodes}
    assert by_node["features"] is by_node["rectified"]
    assert by_node["features"].kind == "Convolution"
    assert by_node["features"].precision == "float32"
    assert by_node["features"].kernel
    assert by_node["features"].start is None
    assert by_node["logits"] is not by_node["features"]


def test_captured_values_are_those_of_the_network(session):
    images = models.images(2)
    points = {point.name: point for point in session.capture_points()}
    captured = session.capture({"image": images}, ["features", "rectified"])
    assert list(points) == ["features", "rectified", "means", "flat", "logits"]
    assert not points["features"].kept, "it is fused with what comes after it"
    assert points["rectified"].kept
    np.testing.assert_array_equal(captured.tensors["rectified"], np.maximum(captured.tensors["features"], 0))
    np.testing.assert_allclose(captured.outputs["logits"], models.reference(images), atol=1e-5)


def test_names_are_the_same_in_every_session(tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    names = []
    for _ in range(2):
        # By default OpenVINO computes in bfloat16 where a processor has AMX, with other roundings for a tapped network.
        with OpenVino().open(models.onnx(tmp_path, batch=1), Options(precision="float32")) as session:
            feeds = RuntimeContract.feeds(session, batch=3)  # another batch than the file declares
            names.append([operator.name for operator in session.profile(feeds)[0].operators])
            RuntimeContract().close_to(session.capture(feeds, ["flat"]).outputs, session.predict(feeds))
    assert names[0] == names[1]


def test_layers_of_a_tflite_file_are_found_by_their_weights():
    """OpenVINO forgets the names of its inner tensors."""
    pytest.importorskip("openvino")
    pytest.importorskip("ai_edge_litert")
    from zoolens.inventory.runtimes.litert.litert_runtime import LiteRt

    path = ASSETS / "imagenet/tflite/tflitesupport_mobilenet_v1_0.25_224_float.tflite"
    if not path.exists():
        pytest.skip(f"ZOOLENS_ASSETS has no {path.name}")
    files = ModelFiles("tflite", {"model": path})
    with OpenVino().open(files, Options(precision="float32")) as ours, LiteRt().open(files) as theirs:
        feeds = RuntimeContract.feeds(ours)
        points = {point.name: point for point in ours.capture_points()}
        (profile,) = ours.profile(feeds)
        mine, wanted = (session.capture(feeds, list(points)).tensors for session in (ours, theirs))
        layers = [operator for operator in profile.operators if operator.kind in ("Convolution", "GroupConvolution")]
    assert len(points) >= 28
    for name, point in points.items():
        array = mine[name].transpose(0, 2, 3, 1) if point.axes == "NCHW" else mine[name]
        np.testing.assert_allclose(array.reshape(wanted[name].shape), wanted[name], atol=1e-3)
    assert len(layers) == 28
    assert all(len(operator.nodes) == 1 for operator in layers)
    assert not any("Convolution_" in operator.name for operator in profile.operators), "numbers change with the process"
    assert len({operator.nodes for operator in layers}) == 28


def test_layers_with_the_same_weights_are_not_told_apart():
    pytest.importorskip("openvino")
    path = MODELS_FOLDER / "lenet-narrow.tflite"
    file = read_graph(path)
    first, second = (place for place, operator in enumerate(file.operators) if operator.code == 3)
    shared = list(file.operators)
    weights = shared[first].inputs[1]
    shared[second] = replace(shared[second], inputs=(shared[second].inputs[0], weights, shared[second].inputs[2]))
    with OpenVino().open(ModelFiles("tflite", {"model": path})) as session:
        assert len(found_layers(session._graph, file)) == 4
        assert len(found_layers(session._graph, replace(file, operators=tuple(shared)))) == 2
