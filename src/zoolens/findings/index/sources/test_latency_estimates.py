import shutil

import pytest

import zoolens
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Provenance
from zoolens.findings.graph.cost.fused_operators import operators
from zoolens.findings.graph.cost.test_cost import small
from zoolens.findings.index.opener import build_index
from zoolens.findings.index.sources.latency_estimates import (
    calibrate,
    estimate_operators,
    latency_estimates,
    raw_estimate,
)
from zoolens.findings.index.tables.row_table import table_of
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.operators import LatencyTable
from zoolens.inventory.zoos.demo import MODELS_FOLDER

pytestmark = pytest.mark.usefixtures("trusted_models")


def table(seconds=1e-3, *, without=0):
    keys = [one.key for one in operators(small())]
    return LatencyTable(
        "onnxruntime", 1e-5, dict.fromkeys(keys[without:], seconds), dict.fromkeys(keys[:without], "no")
    )


def test_the_sum_and_the_slowest_chain():
    found = raw_estimate(small(), table())
    assert found.seconds == pytest.approx(5e-3 + 1e-5)
    assert found.critical_path == pytest.approx(5e-3 + 1e-5)  # both branches of the sum pass the first layer
    assert found.covered == 1.0
    assert raw_estimate(small(), table(without=1)).covered == 0.8


def test_measured_networks_correct_the_others_and_tell_the_error():
    found = calibrate([(1.0, 2.0), (1.0, 2.2), (2.0, 3.6), (1.0, 2.0)])
    assert found.factor == pytest.approx(2.0, rel=0.01)
    assert 0.05 < found.error < 0.2
    assert calibrate([(1.0, 2.0)]).error is None


def row(key, *, raw=1e-3, latency=None, runtime="onnxruntime", provenance=Provenance.MEASURED, **attributes):
    figures = {"operator_time@onnxruntime 1.0": Figure(raw, "s", Provenance.ESTIMATED)}
    if latency is not None:
        figures["latency_p50@batch=1"] = Figure(latency, "s", provenance)
    return Row(key, key, f"zoo:{key}@1.0.0", attributes | ({"runtime": runtime} if runtime else {}), figures)


def test_an_estimate_is_marked_as_one_and_measured_networks_get_none():
    rows = [row("a", latency=2e-3), row("b", latency=2.2e-3), row("c", latency=2e-3), row("d", runtime=None)]
    found = latency_estimates(table_of(rows))
    assert list(found) == ["d"]
    figure = found["d"]["latency_p50@batch=1"]
    assert figure.provenance is Provenance.ESTIMATED
    assert figure.value == pytest.approx(2e-3)
    assert 0 < figure.error < 0.2
    assert figure.low < figure.value < figure.high


def test_networks_of_another_size_correct_nothing_and_tell_no_error():
    rows = [
        *(row(key, latency=2e-3) for key in "abc"),
        row("near", raw=3e-3, runtime=None),
        row("far", raw=1.0, runtime=None),
    ]
    found = {key: figures["latency_p50@batch=1"] for key, figures in latency_estimates(table_of(rows)).items()}
    assert found["near"].value == pytest.approx(6e-3)
    assert found["near"].error is not None
    assert (found["far"].value, found["far"].error, found["far"].high) == (1.0, None, None)


def test_latencies_of_another_runtime_correct_nothing():
    rows = [row("a", latency=9.0, runtime="litert"), row("d", runtime=None)]
    figure = latency_estimates(table_of(rows))["d"]["latency_p50@batch=1"]
    assert (figure.value, figure.error) == (1e-3, None)


@pytest.mark.parametrize(
    "other",
    [
        {"runtime_version": "2.0"},
        {"element_type": "int8"},
        {"precision": "bfloat16"},
        {"provenance": Provenance.CLAIMED},
    ],
)
def test_only_measured_networks_in_the_tables_version_and_type_correct_it(other):
    figure = latency_estimates(table_of([row("a", latency=9.0, **other), row("d", runtime=None)]))["d"][
        "latency_p50@batch=1"
    ]
    assert figure.value == 1e-3
    rows = [row("a", latency=9.0, runtime_version="1.0", element_type="float32"), row("d", runtime=None)]
    assert latency_estimates(table_of(rows))["d"]["latency_p50@batch=1"].value == pytest.approx(9.0)


def test_a_row_of_another_runtime_or_type_gets_no_estimate_from_this_table():
    rows = [row("a", runtime="litert"), row("b", element_type="int8"), row("c", precision="bfloat16"), row("d")]
    assert list(latency_estimates(table_of(rows))) == ["d"]


def test_a_structure_gets_an_estimate_that_a_query_finds(tmp_path):
    pytest.importorskip("onnxruntime")
    with zoolens.open_store(tmp_path / "store.sqlite") as store:
        zoolens.graph_of("demo:mlp-small", store=store)
        (found,) = estimate_operators(store, ["demo:mlp-small"])
        assert found.raw.covered == 1.0
        estimate_operators(store, ["demo:*"])  # nothing is stored twice
        (only,) = build_index(store).rows
        assert only.figures["latency_p50@batch=1"].provenance is Provenance.ESTIMATED
        with pytest.raises(ZoolensError, match="no structure named"):
            estimate_operators(store, ["nobody:*"])


def test_a_structure_that_was_read_under_another_name_or_not_yet_gets_an_estimate_under_the_asked_one(tmp_path):
    pytest.importorskip("onnxruntime")
    copied = shutil.copyfile(MODELS_FOLDER / "mlp-small.onnx", tmp_path / "mine.onnx")
    with zoolens.open_store(tmp_path / "store.sqlite") as store:
        zoolens.graph_of(copied, store=store)
        found = estimate_operators(store, ["demo:mlp-small"])  # the bare file has no size, the manifest has one
        assert {one.ref for one in found} == {"demo:mlp-small@1.0.0"}
        estimates = [row.figures["latency_p50@batch=1"].provenance for row in build_index(store).rows]
        assert set(estimates) == {Provenance.ESTIMATED}
        (unread,) = estimate_operators(store, ["demo:lenet-torch"])
        assert unread.ref.startswith("demo:lenet-torch")


@pytest.mark.parametrize("name", ["lenet-int8.onnx", "lenet-int8.tflite"])
def test_a_quantised_network_that_was_never_run_gets_no_estimate_in_float32(tmp_path, name):
    pytest.importorskip("onnxruntime")
    with zoolens.open_store(tmp_path / "store.sqlite") as store:
        zoolens.graph_of(MODELS_FOLDER / name, store=store)
        (found,) = estimate_operators(store)
        assert found.raw.covered == 0
        assert not any("latency" in figure for row in build_index(store).rows for figure in row.figures)
