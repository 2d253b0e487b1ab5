from __future__ import annotations

import numpy as np
import pytest

from zoolens.equivalence.twins.pieces import Piece
from zoolens.equivalence.twins.provenance import twin_manifest, write_twin
from zoolens.errors import ModelError
from zoolens.graph.building import GraphBuilder
from zoolens.graph.segments import Common, Segment
from zoolens.manifests.files import read_manifest
from zoolens.manifests.schema import Asset, AssetFile, Claim, Code, Input, Manifest, Output
from zoolens.zoos.base import Entry, Weights

ASSET = Asset(format="onnx", files=(AssetFile(location="twin.onnx"),))


def network(axes="NHWC"):
    builder = GraphBuilder("net", keep_weights=True)
    x = builder.add("input", (), (1, 3, 4, 5), name="x")
    kernel = builder.parameter("kernel", (2, 3), "k", np.ones((2, 3)))
    pooled = builder.add("global_avg_pool", (x,), (1, 3), name="pool")
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


def made(tmp_path, **changes):
    reference = entry(tmp_path, **changes)
    donor = entry(tmp_path, name="other", license="BSD-3-Clause")
    return twin_manifest(network(), reference, donor, [piece()], name="twin", asset=ASSET)


def test_a_twin_takes_what_the_canonical_form_takes(tmp_path):
    (given,) = made(tmp_path).inputs
    assert (given.shape, given.layout, given.dtype, given.name) == ((None, 3, 4, 5), "NCHW", "float32", None)


def test_an_input_that_was_not_moved_stays_as_it_was(tmp_path):
    own = Input(shape=(None, 28, 28), layout="NHW", color="gray")
    assert made(tmp_path, inputs=(own,)).inputs == (own,)


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


def test_the_name_holds_the_digest_of_the_content(tmp_path):
    reference, folder = entry(tmp_path), tmp_path / "twins"
    first = write_twin(network(), reference, reference, [piece()], folder)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert write_twin(network(), reference, reference, [piece()], folder) == first
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times
    assert sorted(path.suffix for path in times) == [".onnx", ".yaml"]
    digest = read_manifest(first.manifest).assets[0].files[0].sha256
    assert first.name.endswith(digest[:12])
