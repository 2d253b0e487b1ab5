from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from zoolens.base import plugins
from zoolens.base.errors import UnknownName
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.zoos.listing import listing, models, params_of


@pytest.fixture(autouse=True)
def zoo(small_zoo) -> Path:
    return small_zoo


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
    with pytest.raises(UnknownName, match="Did you mean present"):
        models(zoo="folder", weights="presnt")


def test_params_come_from_claims_or_attributes():
    entry = find("folder:beta")
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
    monkeypatch.setattr("zoolens.base.plugins.names", lambda _: ["torchvision", "folder"])
    real = plugins.installed_version
    monkeypatch.setattr(plugins, "installed_version", lambda name: None if name == "torchvision" else real(name))
    found = listing()
    assert {entry.zoo for entry in found.entries} == {"folder"}
    note = next(note for note in found.notes if note.startswith("torchvision"))
    assert "pip install 'zoolens[torchvision]'" in note
    assert "\n" not in note


def test_an_unknown_zoo_gets_a_suggestion():
    with pytest.raises(UnknownName, match="Did you mean torchvision"):
        models(zoo="torchvison")


# --- the cache of framework listings


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.slow
def test_a_second_listing_imports_no_framework(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    code = (
        "import sys; from zoolens.inventory.catalog import find; from zoolens.inventory.zoos.listing import models;"
        "n = len(models(zoo='torchvision'));"
        "print(n, find('torchvision:resnet50').manifest.name, 'torch' in sys.modules)"
    )
    assert run(code) == "134 resnet50/IMAGENET1K_V2 True"
    assert run(code) == "134 resnet50/IMAGENET1K_V2 False"
    # weights that arrive later are seen through the cached listing
    location = find("torchvision:resnet18/IMAGENET1K_V1").manifest.assets[0].files[0].location
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
