"""Measured speeds of writing against the bandwidth of this machine's memory."""

import pytest

from zoolens.base.store.records import ModelRecord, Observation, RunKind, StackRecord
from zoolens.base.store.store import open_store
from zoolens.findings.graph.cost.generation import Generation
from zoolens.findings.measure.generation_speed import DECODE
from zoolens.findings.tracing.roofline import peaks
from zoolens.findings.tracing.roofline.writing_share import writing_shares
from zoolens.inventory.catalog.lookup import find_all
from zoolens.testing import language_models
from zoolens.testing.language_model_runs import timed_run

COST = Generation(token_macs=1, attention_macs=1, cached_numbers=50, weight_bytes=4000, context_length=600)


def test_a_speed_is_a_share_of_the_bandwidth(tmp_path):
    pytest.importorskip("xllamacpp")
    pytest.importorskip("tokenizers")
    with open_store(tmp_path / "store") as store:
        run = timed_run(tmp_path, store, contexts=(16,))
        (entry,) = find_all([str(tmp_path / "tiny.gguf")])
        (speed,) = store.observations(run.id, metric=DECODE)[:1]
        (found,) = writing_shares(store, entry, COST)
        # Keys and values in float16: two bytes each of 50 numbers a token.
        assert found.bytes_per_second == pytest.approx((4000 + 16 * 50 * 2) * found.speed)
        assert (found.tokens, found.threads, found.share) == (16, 1, None)
        assert speed.scope == "context=16"
        state_bandwidth(store, 1e9)
        (found,) = writing_shares(store, entry, COST)
        assert found.share == pytest.approx(found.bytes_per_second / 1e9)
        # Another file of the same name was not timed.
        language_models.gguf(tmp_path, seed=8)
        (other,) = find_all([str(tmp_path / "tiny.gguf")])
        assert not list(writing_shares(store, other, COST))


def state_bandwidth(store, bytes_per_second):
    """What `zoolens machine peaks --threads 1` keeps."""
    subject = peaks._processor(1)
    model = ModelRecord("0" * 64, f"machine:{subject.name}", "machine", {})
    stack = StackRecord(peaks._fingerprint(subject), "machine:peaks", subject.identity, subject.identity)
    run = store.begin_run(model, peaks._DATASET, stack, kind=RunKind.MACHINE)
    found = Observation(peaks.BANDWIDTH, bytes_per_second, scope="bytes=1048576", unit="B/s")
    store.finish_stage(run.id, peaks.STAGE, [found])
