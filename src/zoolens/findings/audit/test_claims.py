from __future__ import annotations

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Provenance, RunKind
from zoolens.base.store.store import open_store
from zoolens.findings.audit.claims import RecordedClaims, claims_from, claims_of, record_claims
from zoolens.inventory.manifests.schema import Claim
from zoolens.inventory.zoos.gluon import GluonZoo
from zoolens.inventory.zoos.onnx import OnnxZoo
from zoolens.inventory.zoos.slim import SlimZoo
from zoolens.inventory.zoos.zoo import Entry


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "claims.db") as opened:
        yield opened


@pytest.fixture
def entries():
    return [*SlimZoo().entries("resnet"), *GluonZoo().entries("resnet50")]


def named(entries, ref):
    return next(entry for entry in entries if entry.ref == ref)


def with_claims(entry, *claims):
    return Entry(entry.zoo, entry.manifest.model_copy(update={"claims": claims}), entry.weights)


def test_what_is_read_back_is_what_the_entries_claim(store, entries):
    assert record_claims(store, entries) == RecordedClaims(written=len(entries), kept=0)
    expected = [row for entry in entries for row in claims_of(entry)]
    assert claims_from(store, entries) == expected
    assert {row.ref for row in claims_from(store)} == {entry.ref for entry in entries}


def test_a_second_run_writes_nothing(store, entries):
    record_claims(store, entries)
    before = store.observation_table().num_rows
    assert record_claims(store, entries) == RecordedClaims(written=0, kept=len(entries))
    assert store.observation_table().num_rows == before


def test_only_what_changed_is_written_again_and_the_newest_is_read(store, entries):
    record_claims(store, entries)
    changed = with_claims(entries[0], Claim(metric="top1", value=0.5, unit="fraction", source="a later README"))
    assert record_claims(store, [changed, *entries[1:]]) == RecordedClaims(written=1, kept=len(entries) - 1)
    newest = [row for row in claims_from(store) if row.ref == changed.ref and row.metric == "top1"]
    assert [(row.value, row.source) for row in newest] == [(0.5, "a later README")]
    before = [row.value for row in claims_from(store, entries[:1]) if row.metric == "top1"]
    assert before == [entries[0].manifest.claimed("top1")]  # asked for as it was, it is still there


def test_figures_input_size_and_preprocessing_are_claims_with_a_source(entries):
    rows = {row.metric: row for row in claims_of(named(entries, "slim:resnet_v2_50"))}
    assert rows["top1"].value == pytest.approx(0.756)
    assert rows["top1"].dataset == "ImageNet-1K"
    assert "README" in rows["top1"].source
    assert rows["input_size"].value == 299
    assert rows["preprocessing"].details["crop_fraction"] == 0.875
    assert rows["preprocessing"].details["interpolation"] == "bilinear"
    assert rows["preprocessing"].details["mean"] == [1.0]
    assert all(row.source for row in rows.values())


def test_what_we_assumed_is_marked(entries):
    entry = named(entries, "slim:resnet_v2_50")
    attributes = {**entry.manifest.attributes, "assumed": ["interpolation"]}
    assumed = Entry(entry.zoo, entry.manifest.model_copy(update={"attributes": attributes}), entry.weights)
    (row,) = [row for row in claims_of(assumed) if row.metric == "preprocessing"]
    assert row.details["assumed"] == ["interpolation"]


def test_observations_have_the_provenance_claimed(store, entries):
    record_claims(store, entries)
    found = store.observations_by_run()
    assert {one.provenance for group in found.values() for one in group} == {Provenance.CLAIMED}


def test_two_claims_of_one_thing_are_both_kept(store, entries):
    twice = [Claim(metric="top1", value=value, dataset="ImageNet-1K", source=f"page {value}") for value in (0.7, 0.8)]
    entry = with_claims(entries[0], *twice)
    record_claims(store, [entry])
    rows = [row for row in claims_from(store, [entry]) if row.metric == "top1"]
    assert [(row.value, row.dataset) for row in rows] == [(0.7, "ImageNet-1K"), (0.8, "ImageNet-1K")]


def test_a_model_that_is_no_image_model_claims_what_it_carries():
    (entry,) = OnnxZoo().entries("bertsquad-10")
    assert [row.metric for row in claims_of(entry)] == ["file_size"]


def test_claims_are_no_measurements(store, entries):
    record_claims(store, entries)
    assert store.runs() == []
    assert len(store.runs(kind=RunKind.CLAIM)) == len(entries)
    with pytest.raises(ZoolensError, match="no runs yet"):
        store.run("last")
    claim = store.runs(kind=RunKind.CLAIM)[0].id
    assert store.run(claim).id == claim
    with pytest.raises(ZoolensError, match="claimed figures of"):
        store.measured_run(claim)
