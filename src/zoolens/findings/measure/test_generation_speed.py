"""Speeds of a model that writes: what is timed, at which contexts, and what cannot be had."""

import numpy as np
import pytest

from zoolens.base.store.scopes import context_scope, context_tokens, is_of_part
from zoolens.base.store.store import open_store
from zoolens.findings.measure.generation_speed import DECODE, ENERGY, FIRST, FURTHER, MEMORY, PREFILL
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.testing import language_models
from zoolens.testing.language_model_runs import timed_run


def test_a_scope_says_how_many_tokens_and_sequences():
    assert [context_scope(512), context_scope(512, 8, raw=True)] == ["context=512", "context=512x8,raw"]
    assert [context_tokens(scope) for scope in ("context=512", "context=512x8,raw")] == [512, 512]
    assert not is_of_part("context=512")


def test_a_worker_repeats_a_continuation(tmp_path):
    pytest.importorskip("xllamacpp")
    with open_isolated("llamacpp", language_models.gguf(tmp_path)) as session:
        prompt = np.arange(9, dtype=np.int32)[np.newaxis]
        wanted = session.extend(prompt, 0)
        repeated = session.repeat_extend(prompt[:, -1:], 8, 1, 0.0)
        elapsed, waiting = repeated.sample(5, 60.0)
        assert len(elapsed) == len(waiting.switches) == 5
        # The sequence is what it was.
        np.testing.assert_allclose(session.extend(prompt[:, -1:], 8), wanted, atol=1e-3)


@pytest.fixture
def observed(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    with open_store(tmp_path / "store") as store:
        run = timed_run(tmp_path, store, batches=(1, 2), contexts=(16, 601))
        yield {(each.metric, each.scope): each for each in store.observations(run.id)}


def test_speeds_are_those_of_the_times(observed):
    for scope, tokens, rows in (("context=16", 16, 1), ("context=16x2", 16, 2)):
        for raw in ("", ",raw"):
            first, further = (observed[name, scope + raw].value for name in (FIRST, FURTHER))
            assert observed[PREFILL, scope + raw].value == pytest.approx(tokens * rows / first)
            speed = observed[DECODE, scope + raw]
            assert speed.value == pytest.approx(rows / further)
            assert (speed.unit, speed.low <= speed.value <= speed.high) == ("tokens/s", True)
        assert observed[MEMORY, scope].value > 1e6
        assert (ENERGY, scope) in observed


def test_a_context_that_the_model_does_not_have_is_said(observed):
    for name in (FIRST, PREFILL, FURTHER, DECODE):
        missing = observed[name, "context=601"]
        assert missing.value is None
        assert "context of tiny.gguf has 600" in missing.details["reason"]
