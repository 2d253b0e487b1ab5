from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from zoolens.errors import ManifestError, UnknownName
from zoolens.zoos import catalog
from zoolens.zoos.base import Entry, Weights
from zoolens.zoos.catalog import find_model, find_models, listing, models, params_of

MANIFEST = """\
zoolens: 1
name: {name}
version: {version}
inputs: [{{shape: [1, 3, 8, 8]}}]
outputs: [{{task: {task}}}]
assets: [{{format: onnx, files: [{{location: {name}.onnx}}]}}]
claims: [{{metric: params, value: {params}, source: me}}]
"""


@pytest.fixture(autouse=True)
def zoo(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", str(tmp_path / "zoo"))
    folder = tmp_path / "zoo"
    folder.mkdir()
    write(folder, "alpha", params=1000)
    write(folder, "beta", params=5_000_000, task="regression")
    write(folder, "alpha", version="10.0.0", file="alpha10")
    write(folder, "alpha", version="9.0.0", file="alpha9")
    (folder / "beta.onnx").write_bytes(b"x")
    (folder / "bare.tflite").write_bytes(b"x")
    return folder


def write(
    folder: Path, name: str, *, version="1.0.0", params=1, task="classification", file: str | None = None
) -> None:
    text = MANIFEST.format(name=name, version=version, params=params, task=task)
    (folder / f"{file or name}.yaml").write_text(text)


def as_drafted(entry: Entry) -> Entry:
    return Entry(entry.zoo, entry.manifest.model_copy(update={"attributes": {}}), entry.weights, entry.folder)


# --- listing


def test_filters():
    names = [entry.manifest.name for entry in models(zoo="folder")]
    assert sorted(set(names)) == ["alpha", "bare.tflite", "beta"]
    assert [e.manifest.name for e in models(zoo="folder", task="regression")] == ["beta"]
    assert [e.full_ref for e in models(zoo="folder", max_params=2000, search="ALPHA", weights="structure only")] == [
        "folder:alpha@1.0.0",
        "folder:alpha@10.0.0",
        "folder:alpha@9.0.0",
    ]
    assert [e.manifest.name for e in models(zoo="folder", weights="present")] == ["beta", "bare.tflite"]


def test_params_come_from_claims_or_attributes():
    entry = find_model("folder:beta")
    assert params_of(entry.manifest) == 5_000_000
    attributed = entry.manifest.model_copy(update={"claims": (), "attributes": {"parameters": 12}})
    assert params_of(attributed) == 12
    assert params_of(entry.manifest.model_copy(update={"claims": ()})) is None


def test_a_broken_manifest_is_a_note(zoo):
    (zoo / "bad.yaml").write_text("zoolens: 1\nnam: x\n")
    found = listing(zoo="folder")
    assert len(found.entries) == 5
    assert any("bad.yaml" in note and "line 2" in note for note in found.notes)


def test_a_missing_framework_is_one_line_and_the_others_are_listed(monkeypatch):
    monkeypatch.setattr("zoolens.plugins.names", lambda _: ["torchvision", "folder"])
    real = catalog._version
    monkeypatch.setattr(catalog, "_version", lambda name: None if name == "torchvision" else real(name))
    found = listing()
    assert {entry.zoo for entry in found.entries} == {"folder"}
    note = next(note for note in found.notes if note.startswith("torchvision"))
    assert "pip install 'zoolens[torchvision]'" in note
    assert "\n" not in note


def test_an_unknown_zoo_gets_a_suggestion():
    with pytest.raises(UnknownName, match="Did you mean torchvision"):
        models(zoo="torchvison")


# --- finding


def test_by_zoo_name_and_version():
    assert find_model("folder:alpha").manifest.version == "10.0.0"
    assert find_model("folder:alpha@9.0.0").manifest.version == "9.0.0"
    with pytest.raises(UnknownName, match=r"Its versions: .*9\.0\.0"):
        find_model("folder:alpha@3.0.0")


def test_by_bare_name():
    assert find_model("beta").ref == "folder:beta"
    with pytest.raises(UnknownName, match="Did you mean folder:beta"):
        find_model("bta")


def test_a_bare_name_in_two_zoos_must_be_said_which(zoo):
    demo = models(zoo="demo")
    if not demo:
        pytest.skip("the demo zoo is empty here")
    write(zoo, demo[0].manifest.name)
    with pytest.raises(UnknownName, match="Say which"):
        find_model(demo[0].manifest.name)


def test_by_path_of_a_manifest(zoo):
    entry = find_model(str(zoo / "beta.yaml"))
    assert (entry.zoo, entry.folder, entry.weights) == ("file", zoo, Weights.PRESENT)


def test_two_manifests_with_one_name_are_two_models(zoo):
    write(zoo, "alpha", file="candidate")
    found = find_models([str(zoo / "alpha.yaml"), str(zoo / "candidate.yaml"), str(zoo / "alpha.yaml")])
    assert [(one.full_ref, one.file) for one in found] == [
        ("file:alpha@1.0.0", "alpha.yaml"),
        ("file:alpha@1.0.0", "candidate.yaml"),
    ]


def test_by_path_of_a_model_file(zoo):
    with pytest.raises(ManifestError, match="zoolens manifest init"):
        find_model(str(zoo / "bare.tflite"))
    entry = find_model(str(zoo / "bare.tflite"), draft=as_drafted)
    assert entry.described
    assert entry.manifest.assets[0].format == "tflite"


def test_a_path_that_does_not_exist():
    with pytest.raises(UnknownName, match=r"no model file named '\./nowhere\.onnx'"):
        find_model("./nowhere.onnx")


def test_bare_files_are_drafted_when_asked_for():
    assert not find_model("folder:bare.tflite").described
    assert find_model("folder:bare.tflite", draft=as_drafted).described


def test_patterns_find_each_model_once():
    found = find_models(["folder:a*", "folder:beta", "bet?", "folder:*@9.*"])
    assert [entry.full_ref for entry in found] == [
        "folder:alpha@1.0.0",
        "folder:alpha@10.0.0",
        "folder:alpha@9.0.0",
        "folder:beta@1.0.0",
    ]
    with pytest.raises(UnknownName):
        find_models(["folder:z*"])


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownName, match="Did you mean folder:alpha"):
        find_model("folder:alpa")


def test_a_model_whose_manifest_is_broken_is_told_why(zoo):
    (zoo / "broken.yaml").write_text("zoolens: 1\nname: broken\noops: 1\n")
    with pytest.raises(UnknownName, match="line 3: oops"):
        find_model("folder:broken")


# --- the cache of framework listings


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
def test_a_second_listing_imports_no_framework(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    code = (
        "import sys; from zoolens.zoos.catalog import models, find_model; n = len(models(zoo='torchvision'));"
        "print(n, find_model('torchvision:resnet50').manifest.name, 'torch' in sys.modules)"
    )
    assert run(code) == "134 resnet50/IMAGENET1K_V2 True"
    assert run(code) == "134 resnet50/IMAGENET1K_V2 False"
    # weights that arrive later are seen through the cached listing
    location = find_model("torchvision:resnet18/IMAGENET1K_V1").manifest.assets[0].files[0].location
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / location.rpartition("/")[2]).write_bytes(b"x")
    assert [entry.ref for entry in models(zoo="torchvision", weights="present")] == [
        "torchvision:resnet18/IMAGENET1K_V1"
    ]


@pytest.mark.skipif(find_spec("keras") is None, reason="keras is not installed")
def test_a_damaged_cache_is_listed_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    first = models(zoo="keras")
    (path,) = (tmp_path / "home" / "cache" / "catalog").glob("keras-*.json")
    for text in ("", "{", "[1]", json.dumps([{"manifest": {"name": "x"}, "folder": "", "weights": "present"}])):
        path.write_text(text)
        assert models(zoo="keras") == first


@pytest.mark.skipif(find_spec("keras") is None, reason="keras is not installed")
def test_downloaded_keras_weights_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    assert models(zoo="keras", weights="present") == []
    (tmp_path / "keras" / "models").mkdir(parents=True)
    (tmp_path / "keras" / "models" / "nasnet_mobile.h5").write_bytes(b"x")
    assert [entry.ref for entry in models(zoo="keras", weights="present")] == ["keras:NASNetMobile"]


def test_a_bare_name_of_a_framework_zoo_is_suggested_once_its_listing_is_kept(monkeypatch):
    with pytest.raises(UnknownName, match="zoolens models"):
        find_model("gamma")
    kept = models(zoo="folder", search="beta")[0]
    gamma = Entry("timm", kept.manifest.model_copy(update={"name": "gamma"}), kept.weights)
    monkeypatch.setattr(catalog, "_missing", lambda zoo: None)
    timm = catalog._open_zoo("timm")
    catalog._save(catalog._cache_path(timm), [gamma])
    with pytest.raises(UnknownName, match="Did you mean timm:gamma"):
        find_model("gamma")


def test_no_name_at_all():
    with pytest.raises(UnknownName, match="There is no model named ''"):
        find_model("")
