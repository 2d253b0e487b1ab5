"""FLOPs and the like are read when a query first asks for them."""

import pytest

from zoolens.base.store.store import open_store
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.queries.query import query

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with open_store(tmp_path / "store.sqlite") as opened:
        evaluate(["demo:mlp-small", "demo:mlp-wide"], "demo", runtimes=["onnxruntime"], limit=20, batches=(),
                 cold=False, store=opened)  # fmt: skip
        yield opened


def test_the_published_query_works_after_an_evaluation(store):
    found = query("CORR mlp-wide ON flops <= 50%", store=store)
    assert [match.ref for match in found.matches] == ["demo:mlp-small@1.0.0"]
    assert query("CORR mlp-wide ORDER BY macs", store=store).best["macs"] < 10_000
    read = store.runs(runtime="graph:*")
    query("CORR mlp-wide ON flops <= 40%", store=store)
    assert store.runs(runtime="graph:*") == read  # once
