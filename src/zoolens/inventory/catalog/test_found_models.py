from __future__ import annotations

from zoolens.inventory.catalog.found_models import find_models
from zoolens.inventory.manifests.files import dump_manifest
from zoolens.inventory.zoos.undescribed import undescribed


def test_described_and_bare_models_are_told_apart_and_data_is_passed_over(tmp_path):
    for name in ("a.onnx", "b.onnx", "photos/strange.onnx"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    described = undescribed("a", "onnx", {"model": "a.onnx"}).model_copy(update={"attributes": {}})
    (tmp_path / "a.yaml").write_text(dump_manifest(described))
    found = find_models(tmp_path, tmp_path / "photos")
    assert found.manifests == (tmp_path / "a.yaml",)
    assert found.files == (tmp_path / "b.onnx",)
    assert found.left_out == ()


def test_weights_alone_are_left_out_with_the_reason(tmp_path):
    (tmp_path / "net.safetensors").write_bytes(b"")
    found = find_models(tmp_path)
    assert found.files == ()
    assert "weights only" in found.left_out[0]
