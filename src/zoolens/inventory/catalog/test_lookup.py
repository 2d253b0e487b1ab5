from __future__ import annotations

from pathlib import Path

import pytest

from zoolens.base.errors import AmbiguousName, ManifestError, ModelError, UnknownName
from zoolens.conftest import write_manifest
from zoolens.inventory.catalog.lookup import find, find_all
from zoolens.inventory.zoos import listing as zoo_listing
from zoolens.inventory.zoos.listing import models
from zoolens.inventory.zoos.zoo import Entry, Weights


@pytest.fixture(autouse=True)
def zoo(small_zoo) -> Path:
    return small_zoo


OUTPUT_WITH_LABELS = "task: classification, labels_file: labels.txt"

# --- finding


def test_by_zoo_name_and_version():
    assert find("folder:alpha").manifest.version == "10.0.0"
    assert find("folder:alpha@9.0.0").manifest.version == "9.0.0"
    with pytest.raises(UnknownName, match=r"Its versions: .*9\.0\.0"):
        find("folder:alpha@3.0.0")


def test_by_bare_name():
    assert find("beta").ref == "folder:beta"
    with pytest.raises(UnknownName, match="Did you mean folder:beta"):
        find("bta")


def test_a_bare_name_in_two_zoos_must_be_said_which(zoo):
    demo = models(zoo="demo")
    if not demo:
        pytest.skip("the demo zoo is empty here")
    write_manifest(zoo, demo[0].manifest.name)
    with pytest.raises(AmbiguousName, match=r"could be any of demo:.*Give the full name"):
        find(demo[0].manifest.name)


def test_two_files_with_one_name_and_version_must_be_said_which(zoo):
    for folder, content in (("old", b"1"), ("new", b"2")):
        (zoo / folder).mkdir()
        write_manifest(zoo / folder, "gamma")
        (zoo / folder / "gamma.onnx").write_bytes(content)
    both = rf"{zoo}/new/gamma\.yaml, {zoo}/old/gamma\.yaml\. Give its path\."
    for name in ("folder:gamma", "folder:gamma@1.0.0", "gamma"):
        with pytest.raises(AmbiguousName, match=both):
            find(name)
    with pytest.raises(AmbiguousName, match=both):
        find_all(["folder:g*"])
    assert find(zoo / "old" / "gamma.yaml").folder == zoo / "old"
    assert find("folder:alpha").manifest.version == "10.0.0"
    (zoo / "old" / "gamma.onnx").write_bytes(b"2")
    assert find("gamma").folder == zoo / "new"  # the same content in both places


def test_two_copies_without_weights_are_one_model_and_two_texts_are_not(zoo):
    for folder in ("old", "new"):
        (zoo / folder).mkdir()
        write_manifest(zoo / folder, "gamma")
    assert find("gamma").folder == zoo / "new"
    write_manifest(zoo / "old", "gamma", params=2)
    with pytest.raises(AmbiguousName, match="Give its path"):
        find("gamma")


def test_two_copies_with_other_class_names_must_be_said_which(zoo):
    for folder, names in (("old", "cat\ndog\n"), ("new", "dog\ncat\n")):
        (zoo / folder).mkdir()
        write_manifest(zoo / folder, "gamma")
        manifest = zoo / folder / "gamma.yaml"
        manifest.write_text(manifest.read_text().replace("task: classification", OUTPUT_WITH_LABELS))
        (zoo / folder / "gamma.onnx").write_bytes(b"1")
        (zoo / folder / "labels.txt").write_text(names)
    with pytest.raises(AmbiguousName, match="Give its path"):
        find("folder:gamma")
    (zoo / "old" / "labels.txt").write_text("dog\ncat\n")
    assert find("folder:gamma").folder == zoo / "new"
    (zoo / "old" / "labels.txt").unlink()
    with pytest.raises(AmbiguousName, match="Give its path"):
        find("folder:gamma")


def test_two_copies_of_bare_torch_weights_are_one_model_and_two_contents_are_not(zoo, monkeypatch, tmp_path):
    monkeypatch.setenv("ZOOLENS_ZOO_PATH", f"{zoo}:{tmp_path / 'more'}")
    (tmp_path / "more").mkdir()
    for folder in (zoo, tmp_path / "more"):
        (folder / "weights.pth").write_bytes(b"\x80\x02}.")
    (entry,) = [entry for entry in models(zoo="folder") if "weights" in entry.manifest.name]
    assert find(entry.ref, draft=False).folder == zoo
    (tmp_path / "more" / "weights.pth").write_bytes(b"\x80\x02].")
    with pytest.raises(AmbiguousName, match="Give its path"):
        find(entry.ref, draft=False)


def test_an_alias_of_two_models_must_be_said_which(zoo):
    for name, version in (("delta", "1.0.0"), ("epsilon", "2.0.0")):
        write_manifest(zoo, name, version=version)
        with (zoo / f"{name}.yaml").open("a") as manifest:
            manifest.write("attributes: {aliases: [best]}\n")
    with pytest.raises(AmbiguousName, match=r"'folder:best' could be any of folder:delta, folder:epsilon\. Give"):
        find("folder:best")
    assert find("folder:best@2.0.0").manifest.name == "epsilon"
    write_manifest(zoo, "epsilon", version="2.0.0")
    assert find("folder:best").manifest.name == "delta"


def test_by_path_of_a_manifest(zoo):
    entry = find(str(zoo / "beta.yaml"))
    assert (entry.zoo, entry.folder, entry.weights) == ("file", zoo, Weights.PRESENT)


def test_two_manifests_with_one_name_are_two_models(zoo):
    write_manifest(zoo, "alpha", file="candidate")
    found = find_all([str(zoo / "alpha.yaml"), str(zoo / "candidate.yaml"), str(zoo / "alpha.yaml")])
    assert [(one.full_ref, one.file) for one in found] == [
        ("file:alpha@1.0.0", "alpha.yaml"),
        ("file:alpha@1.0.0", "candidate.yaml"),
    ]


def test_by_path_of_a_model_file(zoo):
    entry = find(str(zoo / "bare.tflite"), draft=False)
    assert not entry.described
    assert entry.manifest.assets[0].format == "tflite"
    with pytest.raises(ModelError, match=r"bare\.tflite"):  # it is opened for its draft, and holds nothing
        find(zoo / "bare.tflite")


def test_a_path_that_does_not_exist():
    with pytest.raises(UnknownName, match=r"no model file named '\./nowhere\.onnx'"):
        find("./nowhere.onnx")


def test_bare_files_of_a_zoo_are_drafted_unless_nothing_may_be_opened():
    assert not find("folder:bare.tflite", draft=False).described
    with pytest.raises(ModelError, match=r"bare\.tflite"):
        find("folder:bare.tflite")


def test_patterns_find_each_model_once():
    found = find_all(["folder:a*", "folder:beta", "bet?", "folder:*@9.*"])
    assert [entry.full_ref for entry in found] == [
        "folder:alpha@1.0.0",
        "folder:alpha@10.0.0",
        "folder:alpha@9.0.0",
        "folder:beta@1.0.0",
    ]
    with pytest.raises(UnknownName):
        find_all(["folder:z*"])


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownName, match="Did you mean folder:alpha"):
        find("folder:alpa")


def test_a_model_whose_manifest_is_broken_is_told_why(zoo):
    (zoo / "broken.yaml").write_text("zoolens: 1\nname: broken\noops: 1\n")
    with pytest.raises(UnknownName, match="line 3: oops"):
        find("folder:broken")


def test_a_bare_name_of_a_framework_zoo_is_suggested_once_its_listing_is_kept(monkeypatch):
    with pytest.raises(UnknownName, match="zoolens models"):
        find("gamma")
    kept = models(zoo="folder", search="beta")[0]
    gamma = Entry("timm", kept.manifest.model_copy(update={"name": "gamma"}), kept.weights)
    monkeypatch.setattr(zoo_listing, "_missing", lambda zoo: None)
    timm = zoo_listing._open_zoo("timm")
    zoo_listing._save(zoo_listing._cache_path(timm), [gamma])
    with pytest.raises(UnknownName, match="Did you mean timm:gamma"):
        find("gamma")


def test_no_name_at_all():
    with pytest.raises(UnknownName, match="There is no model named ''"):
        find("")


@pytest.mark.parametrize("name", ["photos", "photos/", "."])
def test_a_folder_is_told_from_a_model(tmp_path, monkeypatch, name):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ManifestError, ModelError), match=r"is a folder, and no model.*zoolens init"):
        find(name)


def test_the_name_of_the_demo_dataset_is_no_model():
    with pytest.raises(UnknownName, match="demo is a dataset: --data demo"):
        find("demo")
