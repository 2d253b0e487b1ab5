from __future__ import annotations

import resource

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.segments.segment import Common, Segment
from zoolens.findings.twins.pieces import Piece
from zoolens.findings.twins.provenance import twin_manifest, write_twin
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.schema import Asset, AssetFile, Claim, Code, Input, Manifest, Output
from zoolens.inventory.zoos.zoo import Entry, Weights

ASSET = Asset(format="onnx", files=(AssetFile(location="twin.onnx"),))


def network(axes="NHWC", shape=(1, 3, 4, 5)):
    builder = GraphBuilder("net", keep_weights=True)
    x = builder.add("input", (), shape, name="x")
    kernel = builder.parameter("kernel", (2, shape[1]), "k", np.ones((2, shape[1])))
    pooled = builder.add("global_avg_pool", (x,), shape[:2], name="pool")
    answer = builder.add("dense", (pooled,), (1, 2), name="scores", parameters=[kernel])
    return builder.finish([answer, pooled], {"input_axes": {"x": axes}, "file_outputs": ("Identity", "Features")})


def entry(folder, **changes):
    known = {
        "name": "zoo/net",
        "license": "MIT",
        "inputs": (Input(shape=(1, 4, 5, 3), layout="NHWC", dtype="uint8", name="x:0"),),
        "outputs": (Output(name="Identity", labels_file="labels.txt"),),
        "assets": (Asset(format="tflite", files=(AssetFile(location="net.tflite"),)),),
        "claims": (Claim(metric="top1", value=0.9, source="its maker"),),
        "requires": "litert>=2",
    }
    (folder / "labels.txt").write_text("cat\ndog\n")
    return Entry("folder", Manifest(**{**known, **changes}), Weights.PRESENT, folder)


def piece():
    ours, theirs = Segment("x", "pool", ("pool",)), Segment("image", "mean", ("mean",))
    return Piece(Common(ours, theirs, "near weights", 0.25), 10, 6, 9, 5)


def made(tmp_path, graph=None, **changes):
    reference = entry(tmp_path, **changes)
    donor = entry(tmp_path, name="other", license="BSD-3-Clause")
    return twin_manifest(graph or network(), reference, donor, [piece()], name="twin", asset=ASSET)


def test_a_twin_takes_what_the_canonical_form_takes(tmp_path):
    (given,) = made(tmp_path).inputs
    assert (given.shape, given.layout, given.dtype, given.name) == ((None, 3, 4, 5), "NCHW", "float32", None)


def test_an_input_that_was_not_moved_stays_as_it_was(tmp_path):
    own = Input(shape=(None, 28, 28), layout="NHW", color="gray")
    assert made(tmp_path, network("", (1, 28, 28)), inputs=(own,)).inputs == (own,)


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([Input(shape=(None, 6, 4, 5))], r"declares an input of \?×6×4×5 \(NCHW\), and its network takes 1×3×4×5"),
        ([Input(shape=(1, 4, 5, 3), layout="NHWC")] * 2, "more inputs than its network has"),
    ],
    ids=["another shape", "too many"],
)
def test_inputs_that_the_network_does_not_have_are_refused(tmp_path, inputs, why):
    with pytest.raises(ModelError, match=why):
        made(tmp_path, inputs=tuple(inputs))


def test_answers_keep_their_meaning(tmp_path):
    (output,) = made(tmp_path).outputs
    assert output.labels == ("cat", "dog")
    assert output.labels_file is None
    assert output.name == "scores"  # of the two outputs the one that the file called Identity


def test_nobody_claimed_anything_about_the_twin(tmp_path):
    manifest = made(tmp_path)
    assert (manifest.claims, manifest.requires, manifest.framework) == ((), "", None)
    assert manifest.license == "MIT and BSD-3-Clause"
    assert manifest.attributes["twin_of"] == "folder:zoo/net@0.0.0"
    assert manifest.attributes["donor"] == "folder:other@0.0.0"
    assert manifest.attributes["made_by"] == "zoolens"
    (segment,) = manifest.attributes["segments"]
    assert (segment["entry"], segment["exit"], segment["nodes"], segment["kind"], segment["distance"]) == (
        "x", "pool", 1, "near weights", 0.25,
    )  # fmt: skip


def test_preprocessing_by_code_is_refused(tmp_path):
    with pytest.raises(ModelError, match="Python code"):
        made(tmp_path, code=Code(preprocess="def preprocess(image): return image"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "zoo/..", "a/../../b", "..", "x/" + "y" * 300])
def test_a_hostile_name_leads_nowhere(tmp_path, name):
    reference = entry(tmp_path)
    hostile = Entry("folder", reference.manifest.model_copy(update={"name": name}), Weights.PRESENT, tmp_path)
    written = write_twin(network(), hostile, hostile, [piece()], tmp_path / "twins")
    assert {written.model.parent, written.manifest.parent} == {tmp_path / "twins"}
    assert len(list((tmp_path / "twins").iterdir())) == 2


def test_a_twin_that_cannot_be_written_leaves_nothing(tmp_path):
    reference, most = entry(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, most[1]))
    try:
        with pytest.raises(ModelError, match="cannot be written: File too large"):
            write_twin(network(), reference, reference, [piece()], tmp_path / "twins")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert list((tmp_path / "twins").iterdir()) == []


def test_half_a_file_is_written_anew(tmp_path):
    reference, folder = entry(tmp_path), tmp_path / "twins"
    whole = write_twin(network(), reference, reference, [piece()], folder)
    content = whole.model.read_bytes()
    whole.model.write_bytes(content[:20])
    write_twin(network(), reference, reference, [piece()], folder)
    assert whole.model.read_bytes() == content


def test_the_name_holds_the_digest_of_the_content(tmp_path):
    reference, folder = entry(tmp_path), tmp_path / "twins"
    first = write_twin(network(), reference, reference, [piece()], folder)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = write_twin(network(), reference, reference, [piece()], folder)
    assert (again.manifest, again.model, again.name, again.new) == (first.manifest, first.model, first.name, ())
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    assert sorted(path.suffix for path in times) == [".onnx", ".yaml"]
    digest = read_manifest(first.manifest).assets[0].files[0].sha256
    assert first.name.endswith(digest[:12])
