"""A store in which some demo models were measured, quickly and on few inputs; made once for all tests of services."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.catalog.sessions import RunOptions

MODELS = ("demo:lenet-wide", "demo:lenet-torch", "demo:mlp-wide", "demo:lenet-deep")
QUICK = LatencySettings(min_samples=10, max_samples=40, max_seconds=0.1, warmup_calls=1, warmup_seconds=0.0)


@pytest.fixture(scope="session")
def quick():
    return QUICK


@pytest.fixture(scope="session")
def store_path(tmp_path_factory):
    return tmp_path_factory.mktemp("services") / "store.sqlite"


@pytest.fixture(scope="session")
def measured_store(store_path):
    plan = EvaluationPlan(
        models=MODELS, data="demo", limit=300, wanted=RunOptions(runtimes=("onnxruntime",)), batches=(1, 4), cold=False,
        latency=QUICK,
    )  # fmt: skip
    with open_store(store_path) as store:
        outcomes = list(carry_out_entries(find_all(MODELS), plan, store, Silent()))
        assert not any(outcome.errors for outcome in outcomes)
        yield store


@pytest.fixture
def copied_store(measured_store, store_path, tmp_path):
    """A copy for a test that evaluates more models: those would be candidates of the ladders of all later tests."""
    with closing(sqlite3.connect(store_path)) as database:
        database.execute("PRAGMA wal_checkpoint(FULL)")
    shutil.copytree(store_path.parent, tmp_path / "copied")
    with open_store(tmp_path / "copied" / store_path.name) as store:
        yield store
