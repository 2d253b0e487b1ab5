"""LiteRT keeps the contract with float and quantised models."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.runtimes.litert import LiteRt
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
