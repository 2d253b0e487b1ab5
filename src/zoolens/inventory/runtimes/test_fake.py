"""The fake runtime keeps the contract and behaves as its file says."""

from __future__ import annotations

import time

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract


class TestContract(RuntimeContract):
    runtime_class = Fake

    def model(self, tmp_path):
        return models.fake(tmp_path)


class TestFixedBatch(RuntimeContract):
    runtime_class = Fake

    def model(self, tmp_path):
        return models.fake(tmp_path, batch=1)


def _answers(tmp_path, images, **settings):
    with Fake().open(models.fake(tmp_path, **settings)) as session:
        return session.predict({"input": images})["logits"]


def test_a_session_prints_as_its_inputs_and_outputs(tmp_path):
    with Fake().open(models.fake(tmp_path)) as session:
        assert repr(session).endswith(" input → logits>")


def test_another_seed_is_another_model(tmp_path):
    images = models.images(4)
    assert not np.array_equal(_answers(tmp_path, images, seed=1), _answers(tmp_path, images, seed=2))


def test_behaviours(tmp_path):
    images = models.images(3)
    images[:, 0, 0, 0] = [4, 0, 7]
    assert _answers(tmp_path, images, behaviour="label_leak").argmax(1).tolist() == [4, 0, 2]
    assert _answers(tmp_path, images, behaviour="constant", seed=3).argmax(1).tolist() == [3, 3, 3]
    assert np.isnan(_answers(tmp_path, images, behaviour="nan")).all()
    with pytest.raises(ModelError, match="crashed"):
        _answers(tmp_path, images, behaviour="crash")


def test_takes_as_long_as_told(tmp_path):
    started = time.perf_counter()
    _answers(tmp_path, models.images(1), latency_us=20_000)
    assert time.perf_counter() - started >= 0.02


@pytest.mark.parametrize(
    "text", ['{"classes": 0}', '{"classes": "ten"}', '{"classes": 3, "behaviour": "odd"}', '{"clases": 3}', "[]", "{}"]
)
def test_nonsense_is_explained(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ModelError):
        Fake().open(ModelFiles("fake", {"model": path}))
