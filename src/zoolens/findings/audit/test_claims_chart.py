import json

import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.store import open_store
from zoolens.findings.audit.claims_chart import claims_beside, claims_chart
from zoolens.inventory.manifests.schema import Claim, Manifest
from zoolens.inventory.zoos.zoo import Entry, Weights

INPUT = {"name": "x", "shape": [None, 8, 8], "layout": "NHW", "color": "gray"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def entry(*claims):
    manifest = Manifest(name="net", inputs=[INPUT], outputs=[{"name": "y"}], claims=claims)
    return Entry("zoo", manifest, Weights.PRESENT)


def measure(store, data, size, **figures):
    model = ModelRecord("m", "zoo:net@1.0.0", "onnx", {})
    run = store.begin_run(model, DatasetRecord(data, data, size), StackRecord("s", "fake", {"version": "1"}, {}))
    store.finish_stage(run.id, "size", [
        Observation(metric, value, unit="fraction" if low else "", low=low, high=high, n=size)
        for metric, (value, low, high) in figures.items()
    ])  # fmt: skip
    return run


def test_a_claim_stands_beside_the_runs_of_the_same_model(store):
    measure(store, "ImageNet validation", 50_000, top1=(0.70, 0.69, 0.71), parameters=(25_557_032.0, None, None))
    measure(store, "some photos", 100, top1=(0.9, 0.85, 0.95))
    about = entry(
        Claim(metric="top1", value=70.4, unit="%", dataset="ImageNet-1K", source="README"),
        Claim(metric="params", value=25.6e6, source="README"),
    )
    accuracy, size = claims_beside(store, about)
    assert accuracy.value == pytest.approx(0.704)
    judged = {run.dataset: run.judgement for run in accuracy.measured}
    assert judged == {"ImageNet validation": "consistent", "some photos": "not comparable"}
    assert [(run.value, run.judgement) for run in size.measured] == [(25_557_032.0, "")]
    chart = claims_chart([accuracy, size])
    rows = chart.spec["data"]["values"]
    assert [row["of"] for row in rows] == ["claimed", *(judged[run.dataset] for run in accuracy.measured)]
    json.dumps(for_file(chart), allow_nan=False)


def test_without_runs_there_is_no_picture(store):
    claims = claims_beside(store, entry(Claim(metric="top1", value=0.7, dataset="ImageNet-1K", source="README")))
    assert [claim.measured for claim in claims] == [()]
    assert claims_chart(claims) is None
