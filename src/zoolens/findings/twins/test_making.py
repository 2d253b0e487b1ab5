"""Twins made of the demo models, and of a copy whose one layer was changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.progress import Silent
from zoolens.findings.graph.onnx_writer import write_onnx
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.findings.twins.making import as_data, make_twins
from zoolens.inventory.manifests.files import read_manifest
from zoolens.testing import models

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def store(home):
    with zoolens.open_store(home / "store.sqlite") as opened:
        yield opened


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """The first 200 images of the demo data, as a file of their own."""
    from zoolens.inventory.datasets.opening import open_dataset

    demo = open_dataset("demo", limit=200)
    samples = [demo.read(index) for index in range(len(demo))]
    path = tmp_path_factory.mktemp("data") / "images.npz"
    np.savez(path, x=np.stack([one.value for one in samples]), y=demo.labels())
    return str(path)


def changed_copy(folder, change):
    """lenet-torch with other weights, as a model of its own: what a later training of it would be."""
    graph = weighted_graph("demo:lenet-torch")
    kernel = graph.by_name["gemm_0"].parameter("kernel").key
    weights = {**graph.weights, kernel: change(graph.weights[kernel])}
    write_onnx(type(graph)("copy", graph.nodes, graph.outputs, weights), folder / "copy.onnx")
    return folder / "copy.onnx"


def test_a_quantised_copy_stands_in_for_all_of_a_network(store, images, tmp_path):
    (twin,) = make_twins(
        "demo:lenet-wide", "demo:lenet-wide-int8", data=images, epsilon=0.02, store=store, folder=tmp_path
    )
    assert twin.within
    assert twin.replaced == 1
    assert twin.agreement >= 0.98
    assert twin.on.bounds.agreement < twin.agreement
    manifest = read_manifest(twin.manifest)
    assert manifest.attributes["twin_of"] == "demo:lenet-wide@1.0.0"
    assert manifest.attributes["donor"] == "demo:lenet-wide-int8@1.0.0"
    assert [one["kind"] for one in manifest.attributes["segments"]] == ["near weights"] * 4
    assert not manifest.claims
    assert store.run(twin.on.b.id).model.manifest["attributes"]["twin_of"] == "demo:lenet-wide@1.0.0"


def test_the_changed_layer_is_dropped_and_no_other(store, images, tmp_path):
    random = np.random.default_rng(0)
    donor = changed_copy(tmp_path, lambda kernel: random.permutation(kernel))
    first, last = make_twins("demo:lenet-torch", donor, data=images, store=store, folder=tmp_path / "twins")
    assert not first.within
    assert last.within
    assert last.dropped == 1
    assert "gemm_0" not in {name for piece in last.pieces for name in piece.common.a.nodes}
    assert last.agreement == 1
    assert last.on.worst.identical == 1  # the rest is bit for bit the reference


def test_a_second_time_nothing_is_run(store, images, tmp_path):
    made = [
        make_twins("demo:lenet-torch", "demo:lenet-jax", data=images, epsilon=0.05, store=store, folder=tmp_path)
        for _ in range(2)
    ]
    before, after = ([(twin.manifest, twin.on.b.id, twin.agreement) for twin in twins] for twins in made)
    assert before == after
    assert len(before) == 5
    assert not any(twin.within for twin in made[0])
    assert len(list(tmp_path.glob("*.onnx"))) == 5
    assert len(store.runs()) == 6


def test_what_was_broken_off_is_completed(store, images, tmp_path):
    class Impatient(Silent):
        def end(self):
            if store.runs(model="*-with-*"):
                raise KeyboardInterrupt

    chosen = {"data": images, "epsilon": 0.02, "store": store, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        make_twins("demo:lenet-wide", "demo:lenet-wide-int8", progress=Impatient(), **chosen)
    (broken,) = store.runs(model="*-with-*")
    store.finish_stage(broken.id, "predictions", [])  # and not one step further
    (twin,) = make_twins("demo:lenet-wide", "demo:lenet-wide-int8", **chosen)
    assert twin.on.b.id == broken.id
    assert {one.metric for one in store.observations(broken.id)} >= {"top1", "file_size"}


def test_the_order_of_the_two_matters(store, images, tmp_path):
    one, other = (
        make_twins(a, b, data=images, epsilon=0.5, store=store, folder=tmp_path)[-1]
        for a, b in (("demo:resnet-tiny", "demo:mobile-tiny"), ("demo:mobile-tiny", "demo:resnet-tiny"))
    )
    assert one.reference == other.donor
    assert one.manifest != other.manifest
    assert one.agreement == pytest.approx(other.agreement)  # each is all of the other: agreement has no direction
    assert as_data(one)["accuracy_difference"] == pytest.approx(-as_data(other)["accuracy_difference"])


def test_theory_stands_beside_the_measurement(store, images, tmp_path):
    (twin,) = make_twins(
        "demo:lenet-wide", "demo:lenet-wide-int8", data=images, epsilon=0.05, theory=True, store=store, folder=tmp_path
    )
    bound, noise = twin.theory.bound, twin.theory.noise
    assert (bound.each >= bound.each_measured).all()
    assert bound.value > bound.measured > 0
    assert len(noise) == len(twin.pieces)
    assert all(0 < one.magnitude < 0.1 for one in noise)
    said = json.loads(json.dumps(as_data(twin), allow_nan=False))["theory"]
    assert "for these inputs alone" in said["analytic_bound"]["meaning"]
    assert "not a bound" in said["noise_estimate"][0]["meaning"]


def test_theory_of_a_twin_that_changes_nothing(store, images, tmp_path):
    donor = changed_copy(tmp_path, lambda kernel: kernel)
    (twin,) = make_twins("demo:lenet-torch", donor, data=images, theory=True, store=store, folder=tmp_path / "twins")
    assert twin.theory.bound.value == 0
    assert twin.theory.noise_agreement == 1


def test_networks_without_a_common_part_are_refused(store, images, tmp_path):
    tiny = models.onnx(tmp_path).path()
    with pytest.raises(ModelError, match="no segment in common"):
        make_twins("demo:mlp-small", tiny, data=images, store=store)


def test_a_runtime_that_cannot_run_twins_is_refused_before_anything_is_done(store, images, tmp_path):
    with pytest.raises(ZoolensError, match="written as ONNX, which it does not read"):
        make_twins(
            "demo:lenet-wide",
            "demo:lenet-wide-int8",
            data=images,
            runtime="litert",
            store=store,
            folder=tmp_path / "twins",
        )
    assert not store.runs()
    assert not (tmp_path / "twins").exists()


def test_weights_and_answers_of_the_reference_are_of_one_file(store, images, tmp_path, monkeypatch):
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(zoo))
    copy = changed_copy(zoo, lambda kernel: kernel)
    chosen = {"data": images, "store": store, "folder": tmp_path / "twins"}
    (before,) = make_twins("folder:copy.onnx", "demo:lenet-torch", **chosen)
    changed_copy(zoo, lambda kernel: -kernel)  # trained again, under the same name
    with pytest.raises(ModelError, match=f"have changed since run {before.on.a.id[:8]}"):
        make_twins("folder:copy.onnx", "demo:lenet-torch", **chosen)
    (after,) = make_twins(copy, copy, **chosen)  # a path means the file as it is
    assert after.on.a.id != before.on.a.id
    assert after.agreement == 1


def test_an_epsilon_must_be_a_share(store, images):
    with pytest.raises(ZoolensError, match="epsilon of 1 makes no sense"):
        make_twins("demo:lenet-torch", "demo:lenet-jax", data=images, epsilon=1, store=store)


def test_a_twin_that_cannot_be_judged_leaves_nothing_behind(store, tmp_path):
    with pytest.raises(ZoolensError):
        make_twins("demo:mlp-small", "demo:mlp-small", data="nothing.npz", store=store, folder=tmp_path / "twins")
    assert not (tmp_path / "twins").exists()
