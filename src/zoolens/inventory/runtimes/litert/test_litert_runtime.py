"""LiteRT keeps the contract with float and quantised models."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import UnsupportedAbility
from zoolens.conftest import ASSETS
from zoolens.inventory.runtimes.litert.litert_profiler import OperatorEvent, check_version
from zoolens.inventory.runtimes.litert.litert_runtime import LiteRt
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

pytest.importorskip("ai_edge_litert")
pytest.importorskip("tensorflow")


class TestFloat(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = LiteRt
    layout = "NHWC"

    def model(self, tmp_path):
        return models.cached(models.tflite, tmp_path)


class TestInt8(RuntimeContract):
    runtime_class = LiteRt
    quantised = True

    def model(self, tmp_path):
        return models.cached(models.tflite, tmp_path, int8=True)


def test_quantised_answers_are_the_network_s_up_to_the_scale(tmp_path):
    with LiteRt().open(models.cached(models.tflite, tmp_path, int8=True)) as session:
        (given,), (answered,) = session.inputs, session.outputs
        images = models.images(4, layout="NHWC", seed=5)
        stored = np.clip(np.round(images / given.scale) + given.zero_point, -128, 127).astype(np.int8)
        answers = session.predict({given.name: stored})[answered.name].astype(float)
        assert session.effective().precision == "int8"
        assert session.count_parameters() == models.PARAMETERS
    found = (answers - answered.zero_point) * answered.scale
    np.testing.assert_allclose(found, models.reference(models.images(4, seed=5)), atol=4 * answered.scale)


def test_batches_of_changing_size(tmp_path):
    with LiteRt().open(models.cached(models.tflite, tmp_path)) as session:
        for batch in (1, 4, 1, 2):
            images = models.images(batch, seed=batch)
            feeds = {session.inputs[0].name: np.ascontiguousarray(images.transpose(0, 2, 3, 1))}
            (answer,) = session.predict(feeds).values()
            np.testing.assert_allclose(answer, models.reference(images), atol=1e-5)


# --- observing


def asset(name):
    path = ASSETS / name
    if not path.exists():
        pytest.skip(f"ZOOLENS_ASSETS has no {path.name}")
    return ModelFiles("tflite", {"model": path})


def test_operators_name_those_of_the_file_and_their_kernels(tmp_path):
    with LiteRt().open(models.cached(models.tflite, tmp_path), Options(threads=1)) as session:
        points = session.capture_points()
        (profile,) = session.profile(RuntimeContract.feeds(session, batch=3))  # the file declares another batch
    assert [operator.nodes for operator in profile.operators if operator.nodes] == [(point.node,) for point in points]
    convolution = profile.operators[0]
    assert convolution.kind == "Convolution"
    assert convolution.precision == "float32"
    assert convolution.kernel.startswith("XNNPACK Convolution (NHWC, F32)")


def test_what_a_loop_runs_stands_below_it(tmp_path):
    body = [OperatorEvent("LESS", 1000, False, None, inner=True), OperatorEvent("Add (ND)", 2000, True, 0, inner=True)]
    events = [OperatorEvent("WHILE", 9000, False, 0), *body, *body, OperatorEvent("SOFTMAX", 3000, False, 1)]
    with LiteRt().open(models.cached(models.tflite, tmp_path)) as session:
        operators = session._operators(events)
    assert [operator.parent for operator in operators] == [None, 0, 0, 0, 0, None]
    assert sum(operator.duration for operator in operators if operator.parent is None) == 12_000


def test_captured_values_are_those_of_the_network(tmp_path):
    with LiteRt().open(models.cached(models.tflite, tmp_path)) as session:
        rectified, mean, answer = (point.name for point in session.capture_points())
        images = models.images(2)
        captured = session.capture(
            {session.inputs[0].name: np.ascontiguousarray(images.transpose(0, 2, 3, 1))}, [rectified, mean, answer]
        )
    assert captured.tensors[rectified].min() == 0
    np.testing.assert_allclose(captured.tensors[mean], captured.tensors[rectified].mean((1, 2)), rtol=1e-5)
    np.testing.assert_allclose(captured.tensors[answer], models.reference(images), atol=1e-5)


def test_a_real_classifier_is_mapped_operator_by_operator():
    with LiteRt().open(asset("imagenet/tflite/tflitesupport_mobilenet_v1_0.25_224_float.tflite")) as session:
        feeds = RuntimeContract.feeds(session)
        (profile,) = session.profile(feeds)
        points = session.capture_points()
        captured = session.capture(feeds, [point.name for point in points])
        RuntimeContract.same(captured.outputs, session.predict(feeds))
    RuntimeContract.check_profile(profile, 1)
    assert [operator.nodes for operator in profile.operators] == [(point.node,) for point in points]
    assert {operator.kernel for operator in profile.operators if operator.kind == "SQUEEZE"} == {"built-in kernel"}


def test_a_model_on_which_the_profiler_would_crash_is_refused():
    with LiteRt().open(asset("tasks/detection/models/ssd_mobilenet_v1_coco_300_uint8.tflite")) as session:
        with pytest.raises(UnsupportedAbility, match="TFLite_Detection_PostProcess"):
            session.profile(RuntimeContract.feeds(session))
        assert len(session.capture_points()) > 60


def test_only_versions_that_were_tried_are_profiled():
    check_version("2.3.7")
    for other in ("2.4.0", "12.3.0", None):
        with pytest.raises(UnsupportedAbility, match=r"versions 2\.3\.x only"):
            check_version(other)
