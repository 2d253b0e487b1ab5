"""Rows are what the store observed: every figure from where it belongs, with where it comes from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import (
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    RunKind,
    StackRecord,
    fingerprint,
)
from zoolens.findings.comparisons.conftest import INPUT
from zoolens.findings.index.conftest import add_run, aside, observed
from zoolens.findings.index.sources.resources import with_resources
from zoolens.findings.index.sources.row_builder import rows_from
from zoolens.findings.index.tables.row_table import table_of
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.latency import LatencySamples, latency_observations
from zoolens.inventory.manifests.locations import fingerprint_of_dump
from zoolens.inventory.runtimes.timing.interference import Waiting


def only(rows, **attributes):
    (found,) = [row for row in rows if all(row.attributes.get(key) == value for key, value in attributes.items())]
    return found


def test_a_row_has_the_figures_of_every_run_of_its_model_and_stack(store):
    probe = add_run(store, "net", dataset="digits")
    other = add_run(store, "net", dataset="letters", latency=0.25)
    row = only(rows_from(store, [probe.id]))
    assert (row.key, row.model, row.ref, row.signature) == (probe.id, probe.key.model, "zoo:net@1.0.0", True)
    assert row.figures["latency_p50@batch=1"] == Figure(0.25, "s", source=other.id)
    assert row.figures["top1"].source == probe.id
    assert row.figures["top1@letters"].source == other.id
    assert row.attributes["dataset"] == "digits"


def test_accuracy_on_other_data_is_never_the_rows_accuracy(store):
    add_run(store, "net", dataset="letters")
    row = only(rows_from(store, []))
    assert not row.signature
    assert "top1" not in row.figures
    assert "top1@letters" in row.figures


def test_every_stack_is_a_row_and_a_newer_attempt_replaces_figures(store):
    one = add_run(store, "net", runtime="fake", latency=0.5)
    two = add_run(store, "net", runtime="other", latency=0.7)
    again = store.begin_run(one.model, one.dataset, one.stack, attempt=1)
    store.finish_stage(again.id, "latency:batch=1", [Observation("latency_p50", 0.4, scope="batch=1", unit="s")])
    rows = rows_from(store, [one.id, two.id])
    assert len(rows) == 2
    assert only(rows, runtime="other").figures["latency_p50@batch=1"].value == 0.7
    # The probe's own figure comes first; what it lacks comes from the newest.
    assert only(rows, runtime="fake").figures["latency_p50@batch=1"].value == 0.5
    assert only(rows_from(store, [two.id]), runtime="fake").figures["latency_p50@batch=1"].value == 0.4


def test_recalls_of_classes_and_disturbed_latencies_are_left_out(store):
    run = add_run(store, "net")
    store.finish_stage(run.id, "metric:per_class", [Observation("recall", 0.5, scope="class=3")])
    store.finish_stage(run.id, "latency:batch=8", [Observation("latency_p50", 0.5, scope="batch=8,raw")])
    store.finish_stage(run.id, "energy", [Observation("energy", 2.5, scope="batch=1", unit="J")])
    assert set(only(rows_from(store, [run.id])).figures) == {"top1", "top1@digits", "energy@batch=1"}


def test_a_missing_p95_is_made_from_the_samples(store):
    run = add_run(store, "net")
    times = np.arange(1, 201, dtype=np.int64) * 1_000_000
    nothing = np.zeros(200, np.int64)
    samples = LatencySamples(times, Waiting(nothing, nothing), np.ones(200, bool), watched=True)
    store.add_part(run.id, "latency-batch4", 0, samples.table(4))
    expected = {one.metric: one for one in latency_observations(samples, 4) if one.scope == "batch=4"}
    store.finish_stage(run.id, "latency:batch=4", [one for name, one in expected.items() if name == "latency_p50"])
    found = only(rows_from(store, [run.id])).figures["latency_p95@batch=4"]
    assert found.value == expected["latency_p95"].value == pytest.approx(0.19, abs=0.002)
    assert (found.low, found.unit, found.source) == (expected["latency_p95"].low, "s", run.id)


def test_a_p95_whose_samples_are_lost_stays_unknown(store):
    run = add_run(store, "net", latency=0.5)
    assert "latency_p95@batch=1" not in only(rows_from(store, [run.id])).figures
    store.add_part(run.id, "latency-batch1", 0, pa.table({"x": [1]}))
    Path(store.parts(run.id, "latency-batch1")[0].address).unlink()
    assert "latency_p95@batch=1" not in only(rows_from(store, [run.id])).figures


def test_attributes_come_from_manifest_and_stack(store):
    run = add_run(
        store,
        "net",
        license="MIT",
        framework={"name": "torch"},
        element_type="int8",
        attributes={"twin_of": "zoo:big", "depth": 3, "aliases": ["x"], "zoo": "liar"},
    )
    row = only(rows_from(store, [run.id]))
    expected = {
        "zoo": "zoo", "name": "net", "version": "1.0.0", "format": "fake", "runtime": "fake", "runtime_version": "1",
        "license": "MIT", "framework": "torch", "element_type": "int8", "task": "classification", "device": "cpu",
        "twin_of": "zoo:big", "depth": 3,
    }  # fmt: skip
    assert {key: row.attributes.get(key) for key in expected} == expected
    assert "aliases" not in row.attributes
    assert row.twin_of == "zoo:big"


def structure(store, content, ref, size, **figures):
    dataset = DatasetRecord(fingerprint(["structure", size]), f"structure at {size}", 0, {"size": size})
    model = ModelRecord(fingerprint(content), ref, "onnx", content)
    return aside(
        store, model, RunKind.STRUCTURE, "graph:onnx", dataset, "structure", observed(**figures, export_time=9)
    )


def test_a_structure_is_found_by_architecture_or_by_file_and_only_at_the_models_size(store):
    net = {"library": "torchvision", "architecture": "alexnet", "arguments": {}}
    library = structure(store, net, "torchvision:alexnet", [8, 8], flops=100, parameters=7)
    structure(store, net, "torchvision:alexnet", [16, 16], flops=400)
    file = {"format": "fake", "files": {"model": "ab12" * 16}}
    structure(store, file, "zoo:file@1.0.0", [8, 8], flops=55)
    by_library = add_run(store, "net", attributes=net)
    asset = {"format": "fake", "files": [{"location": "x", "sha256": "ab12ab12"}]}
    by_file = add_run(store, "file", assets=[asset])
    other = {"format": "fake", "files": [{"location": "x", "sha256": "ffffffff"}]}
    changed = add_run(store, "file", dataset="letters", assets=[other], seed=1)
    rows = rows_from(store, [by_library.id, by_file.id, changed.id])
    found = only(rows, name="net").figures
    assert (found["flops"].value, found["parameters"].source) == (100, library.id)
    assert "export_time" not in found
    assert {
        row.figures["flops"].value if "flops" in row.figures else None for row in rows if row.ref == by_file.ref
    } == {
        55,
        None,
    }


@pytest.mark.parametrize(("uncounted", "kept"), [({"uncounted_operators": 0}, {"macs"}), ({}, set())])
def test_a_lower_bound_of_a_cost_is_no_figure(store, uncounted, kept):
    """Older structures do not tell whether the operators that nobody knows multiply anything."""
    file = {"format": "onnx", "files": {}}
    structure(store, file, "zoo:odd", [8, 8], macs=5, flops=10, parameters=7, unknown_operators=2, **uncounted)
    (row,) = rows_from(store, [])
    assert {name for name in ("macs", "flops") if name in row.figures} == kept
    assert row.figures["parameters"].value == 7


def test_parameters_beside_a_graph_inside_an_operator_are_no_figure(store):
    """Those of the branches of an If are not counted."""
    file = {"format": "onnx", "files": {}}
    structure(store, file, "zoo:odd", [8, 8], parameters=7, unknown_operators=1, graph_operators=1)
    (row,) = rows_from(store, [])
    assert "parameters" not in row.figures
    assert "graph_operators" not in row.figures


def claims(store, ref, **claimed):
    manifest = {
        "name": ref.partition(":")[2].partition("@")[0],
        "inputs": [{"shape": [None, 8, 8], "layout": "NHW", "color": "gray"}],
        "attributes": {"library": "torchvision", "architecture": "alexnet"},
        "claims": [{"metric": name, "source": "a paper", **claim} for name, claim in claimed.items()],
    }
    model = ModelRecord(fingerprint(manifest), ref, "manifest", manifest)
    dataset = DatasetRecord("c", "published claims", 0)
    return aside(store, model, RunKind.CLAIM, "claim:published", dataset, "claims", [])


def test_models_known_by_claims_or_structure_alone_are_rows(store):
    net = {"library": "torchvision", "architecture": "alexnet", "arguments": {}}
    structure(store, net, "torchvision:alexnet", [8, 8], parameters=7)
    structure(store, {"format": "onnx", "files": {}}, "zoo:unclaimed", [8, 8], parameters=5)
    top1 = {"value": 0.7, "unit": "fraction", "dataset": "ImageNet-1K"}
    claims(store, "tv:net@1.0.0", top1=top1, flops={"value": 50, "unit": "multiply-adds"}, params={"value": 9})
    rows = rows_from(store, [])
    assert [(row.ref, row.signature, row.runtime) for row in rows] == [
        ("tv:net@1.0.0", False, None),
        ("zoo:unclaimed", False, None),
    ]
    figures = rows[0].figures
    assert figures["parameters"] == Figure(7, source=figures["parameters"].source)  # read, not claimed
    assert (figures["macs"].value, figures["flops"].value) == (50, 100)
    assert figures["top1"].provenance is figures["flops"].provenance is Provenance.CLAIMED
    assert figures["top1"].source == "a paper, on ImageNet-1K"
    assert figures["top1"] == figures["top1@ImageNet-1K"]
    assert "task" not in rows[0].attributes


def test_claims_of_a_measured_model_fill_gaps_and_never_pass_for_accuracy(store):
    claimed = [
        {"metric": "top1", "value": 0.99, "unit": "fraction", "dataset": "ImageNet", "source": "s"},
        {"metric": "file_size", "value": 5, "unit": "B", "source": "s"},
    ]
    run = add_run(store, "net", claims=claimed)
    claims(store, "zoo:net@1.0.0", params={"value": 3})  # the same model in its zoo's listing
    row = only(rows_from(store, [run.id]))
    assert row.figures["top1"].provenance is Provenance.MEASURED
    assert row.figures["top1@ImageNet"].provenance is Provenance.CLAIMED
    assert row.figures["file_size"].provenance is Provenance.CLAIMED
    assert "top1" not in only(rows_from(store, [])).figures


def test_estimates_stand_between_what_was_measured_and_what_is_claimed(store):
    claimed = [{"metric": name, "value": 1, "source": "s"} for name in ("energy", "flops")]
    run = add_run(store, "net", latency=0.5, claims=claimed)
    guess = Figure(8.0, provenance=Provenance.ESTIMATED, error=0.3)
    figures = {"latency_p50@batch=1": guess, "energy": guess}
    row = only(rows_from(store, [run.id], estimators=[lambda rows: {rows[0].key: figures, "gone": figures}]))
    assert row.figures["latency_p50@batch=1"].value == 0.5
    assert row.figures["energy"] == guess
    assert row.figures["flops"].provenance is Provenance.CLAIMED


ROW = Row("k", "m", "zoo:net@1.0.0", {}, {"flops": Figure(10)})


def test_a_plug_in_adds_a_metric_of_its_own():
    functions = {
        "price": lambda row: row.figures["flops"].value * 2,
        "watts": lambda row: Figure(3.0, "W"),
        "nothing": lambda row: None,
        "flops": lambda row: 99,
    }
    claimed = replace(ROW, figures={"flops": Figure(10, provenance=Provenance.CLAIMED)})
    (row,) = with_resources(table_of([claimed]), functions)
    assert {name: figure.value for name, figure in row.figures.items()} == {"flops": 10, "price": 20, "watts": 3}
    assert row.figures["price"] == Figure(20, provenance=Provenance.ESTIMATED, source="price")  # nobody measured it


def test_a_failing_plug_in_is_one_clear_error():
    with pytest.raises(ZoolensError, match=r"'price' failed for zoo:net.*: KeyError"):
        with_resources(table_of([ROW]), {"price": lambda row: row.figures["absent"].value})


def test_the_structure_of_a_replaced_file_is_not_given_to_the_new_one(store):
    asset = {"format": "fake", "files": [{"location": "x"}]}
    manifest = {"name": "net", "inputs": [INPUT], "outputs": [{}], "assets": [asset]}
    for digest, flops in (("aa" * 32, 1), ("bb" * 32, 2)):
        structure(store, {"format": "fake", "files": {"model": digest}}, "zoo:net@1.0.0", [8, 8], flops=flops)
    for digest, runtime in (("aa" * 32, "one"), ("bb" * 32, "two"), ("cc" * 32, "three")):
        content = fingerprint_of_dump(manifest, asset, {"model": digest})
        run = store.begin_run(
            ModelRecord(content, "zoo:net@1.0.0", "fake", manifest),
            DatasetRecord("data", "digits", 3),
            StackRecord(runtime, runtime, {}, {}),
        )
        store.finish_stage(run.id, "size", observed(file_size=1))
    flops = {row.runtime: row.figures["flops"].value for row in rows_from(store) if "flops" in row.figures}
    assert flops == {"one": 1, "two": 2}
