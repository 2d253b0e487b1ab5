"""What is kept of a model that was opened to look at it, and when it is opened again."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.progress import Silent
from zoolens.faces.serving.plane.conftest import fake_model  # noqa: F401 - a fixture
from zoolens.faces.serving.services.looked_at import LookedAt
from zoolens.findings.measure.jobs import plan_jobs
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import RunOptions

FEEDS = {"input": np.zeros((1, 4), np.float32)}


def looked_at(path):
    (job,), _ = plan_jobs([find(path)], RunOptions(runtimes=("fake",)), Silent())
    return LookedAt(job)


@pytest.fixture
def model(fake_model):  # noqa: F811
    return fake_model()


def test_a_model_that_was_looked_at_is_not_opened_again(model):
    with looked_at(model) as first:
        answers = first.predict(FEEDS)
        assert first.opened
    with looked_at(model) as second:
        assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
        np.testing.assert_array_equal(second.predict(FEEDS)["logits"], answers["logits"])
        assert not second.opened
        second.predict({"input": np.ones((1, 4), np.float32)})
        assert second.opened  # nobody has seen what it answers to these


def test_another_model_under_the_same_name_is_opened(model, fake_model):  # noqa: F811
    with looked_at(model) as first:
        first.predict(FEEDS)
    with looked_at(fake_model(seed=7)) as changed:
        assert changed.opened


def test_a_file_that_cannot_be_read_is_made_again(model):
    with looked_at(model) as first:
        first.predict(FEEDS)
    first._path.write_bytes(first._path.read_bytes()[:100])
    with looked_at(model) as again:
        assert again.opened
    with looked_at(model) as kept:
        assert not kept.opened
