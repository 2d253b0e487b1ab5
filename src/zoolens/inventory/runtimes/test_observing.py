"""What a worker tells about the inside of a model arrives whole, and is believed only where it can be true."""

from __future__ import annotations

import json

import numpy as np
import pytest

from zoolens.base import plugins
from zoolens.base.engine.sandbox import TRUSTED
from zoolens.base.errors import ModelError, UnsupportedAbility, WorkerError
from zoolens.inventory.runtimes import observing
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.observing import (
    Captured,
    CapturePoint,
    OperatorTime,
    Profile,
    check_captured_size,
    point_message,
    profile_message,
    read_points,
    read_profiles,
)
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract

CALLED = OperatorTime("conv", "Conv", 7, 3, nodes=("a", "b"), kernel="gemm", shapes=((1, 2), ()), thread=4)
PROFILE = Profile(1, 9, (CALLED, OperatorTime("gemm", "matmul", 5, level="library", parent=0, precision="int8")), 2)
POINT = CapturePoint("x", "node", "tensor", kept=True, shape=(None, 3), dtype="float32", axes="NC")


def through_json(message):
    return json.loads(json.dumps(message))


def test_plain_data_and_back():
    assert read_profiles([through_json(profile_message(PROFILE))], 1) == [PROFILE]
    assert read_points([through_json(point_message(POINT))]) == (POINT,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("kind", None),
        ("name", "x" * 30_000),
        ("duration", -1),
        ("duration", 0.5),
        ("duration", None),
        ("start", "now"),
        ("start", 1 << 70),
        ("level", "basement"),
        ("parent", 0),
        ("parent", -1),
        ("nodes", [1]),
        ("shapes", [[-1]]),
        ("shapes", [[1] * 100]),
        ("shapes", ["abc"]),
        ("unforeseen", 1),
    ],
)
def test_an_operator_that_cannot_be_is_refused(field, value):
    message = through_json(profile_message(PROFILE))
    message["operators"][0][field] = value
    with pytest.raises((ValueError, TypeError)):
        read_profiles([message], 1)


def test_other_profiles_and_points_than_asked_for_are_refused(monkeypatch):
    message = through_json(profile_message(PROFILE))
    with pytest.raises(ValueError, match="calls that were not"):
        read_profiles([message], 2)
    monkeypatch.setattr(observing, "_MOST_OPERATORS", 1)
    with pytest.raises(ValueError, match="calls that were not"):
        read_profiles([message], 1)
    point = through_json(point_message(POINT))
    with pytest.raises(ValueError, match="one name"):
        read_points([point, point])
    with pytest.raises(ValueError, match="integer"):
        read_points([{**point, "shape": [-1]}])


def test_more_than_can_be_sent_at_once_is_explained(monkeypatch):
    monkeypatch.setattr(observing, "MOST_CAPTURED_BYTES", 100)
    check_captured_size(Captured({"x": np.zeros(20, np.float32)}, {"y": np.zeros(5, np.float32)}))
    with pytest.raises(ModelError, match="have 104 bytes; at most 100"):
        check_captured_size(Captured({"x": np.zeros(20, np.float32)}, {"y": np.zeros(6, np.float32)}))


def test_through_a_worker(tmp_path):
    contract, runtime = RuntimeContract(), Fake()
    with open_isolated(runtime, models.fake(tmp_path)) as session:
        contract.test_profile(runtime, session)
        contract.test_capture(runtime, session)
        contract.test_captures_together_and_again(runtime, session)
        contract.test_a_tensor_that_cannot_be_captured_is_explained(runtime, session)
        contract.test_bad_feeds_are_explained_when_observed_too(runtime, session)
        with pytest.raises(UnsupportedAbility, match="kernels"):
            session.profile(contract.feeds(session), kernels=True)
        session.predict(contract.feeds(session))


@pytest.mark.parametrize("name", ["litert", "opencv", "openvino"])
def test_frameworks_are_observed_within_the_sandbox(tmp_path, name):
    runtime = plugins.load(plugins.RUNTIMES, name)()
    if runtime.version() is None:
        pytest.skip(f"{name} is not installed")
    path = MODELS_FOLDER / ("lenet-narrow.tflite" if name == "litert" else "lenet-narrow.onnx")
    contract = RuntimeContract()
    with open_isolated(runtime, ModelFiles(path.suffix[1:], {"model": path})) as session:
        assert session.sandbox != TRUSTED
        contract.test_profile(runtime, session)
        contract.test_captures_together_and_again(runtime, session)


def test_a_worker_that_answers_with_other_tensors_is_ended(tmp_path, monkeypatch):
    with open_isolated(Fake(), models.fake(tmp_path)) as session:
        feeds = RuntimeContract.feeds(session)
        monkeypatch.setattr(session, "outputs", ())
        with pytest.raises(WorkerError, match="returned an invalid answer: tensors that were not"):
            session.capture(feeds, ["scores"])
