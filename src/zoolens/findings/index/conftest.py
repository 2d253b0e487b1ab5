"""A store with hand-made runs, and a home of its own for the index files."""

import numpy as np
import pytest

from zoolens.base.store.records import Observation, Provenance, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, write_run

PROBES = 60


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def answers(seed, share=0.2, probes=PROBES):
    """Class 0 to 9 in turn, another one for about this share of the inputs."""
    random = np.random.default_rng(seed)
    base = np.arange(probes) % 10
    return np.where(random.random(probes) < share, random.integers(0, 10, probes), base)


LABELS = np.arange(PROBES) % 10


def add_run(store, name, *, seed=0, dataset="digits", runtime="fake", latency=None, **manifest):
    """A model that answered; its top1, and its latency where it is given."""
    given = answers(seed)
    run = write_run(store, name, one_hot(given), LABELS, dataset=dataset, runtime=runtime, **manifest)
    store.finish_stage(run.id, "metric:topk", [Observation("top1", float(np.mean(given == LABELS)), unit="fraction")])
    if latency is not None:
        store.finish_stage(run.id, "latency:batch=1", [Observation("latency_p50", latency, scope="batch=1", unit="s")])
    return store.run(run.id)


def aside(store, run, kind, runtime, dataset, stage, observations):
    """Facts that nobody ran: of a structure, of claims."""
    stack = StackRecord(fingerprint(runtime), runtime, {}, {})
    begun = store.begin_run(run, dataset, stack, kind=kind)
    store.finish_stage(begun.id, stage, observations)
    return store.run(begun.id)


def observed(**values):
    return [Observation(name, float(value), provenance=Provenance.MEASURED) for name, value in values.items()]
