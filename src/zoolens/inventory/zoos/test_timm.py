from __future__ import annotations

from importlib.util import find_spec

import pytest

from zoolens.inventory.manifests.schema_steps import CenterCrop, Resize
from zoolens.inventory.zoos.timm import TimmZoo
from zoolens.inventory.zoos.zoo import Weights

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
        patch.setenv("TORCH_HOME", str(tmp_path_factory.mktemp("torch")))
        yield {entry.manifest.name: entry for entry in TimmZoo().entries()}


def test_tags_and_bare_architectures(entries):
    assert len(entries) > 1500
    assert entries["resnet50.a1_in1k"].weights is Weights.REMOTE
    structure = [entry for entry in entries.values() if "." not in entry.manifest.name]
    assert structure
    assert {entry.weights for entry in structure} == {Weights.ABSENT}


def test_data_configuration(entries):
    steps = entries["resnet50.a1_in1k"].manifest.inputs[0].preprocess
    assert steps[0] == Resize(op="resize", size=235, method="bicubic", library="pil")
    assert steps[1] == CenterCrop(op="center_crop", size=(224, 224))
    assert entries["inception_v3.tf_in1k"].manifest.inputs[0].shape == (None, 3, 299, 299)


def test_the_transform_is_the_one_timm_builds(entries):
    import timm.data

    for name in ("resnet50.a1_in1k", "mobilenetv2_100.ra_in1k", "vit_base_patch16_224.augreg_in21k_ft_in1k"):
        config = timm.data.resolve_data_config(pretrained_cfg=timm.get_pretrained_cfg(name).to_dict())
        transform = timm.data.create_transform(**config)
        resize = entries[name].manifest.inputs[0].preprocess[0]
        assert resize.size == transform.transforms[0].size, name
        assert resize.method == transform.transforms[0].interpolation.value


def test_claims_at_the_models_own_size_come_first(entries):
    claims = entries["resnet50.a1_in1k"].manifest.claims
    assert claims[0].metric == "top1"
    assert claims[0].dataset == "ImageNet-1K at 224×224"
    assert claims[0].value == pytest.approx(0.80382)
    assert claims[2].dataset == "ImageNet-1K at 288×288"


def test_weights_are_safetensors_on_the_hub(entries):
    file = entries["resnet50.a1_in1k"].manifest.assets[0].files[0]
    assert file.location == "hf://timm/resnet50.a1_in1k/model.safetensors"


def test_default_tag_answers_to_the_bare_name(entries):
    assert "resnet50" in entries["resnet50.a1_in1k"].manifest.attributes["aliases"]


def test_weights_in_the_hub_cache_are_present(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--timm--resnet18.a1_in1k" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"x")
    refs = tmp_path / "models--timm--resnet18.a1_in1k" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    found = {entry.manifest.name: entry.weights for entry in TimmZoo().entries("resnet18.")}
    assert found["resnet18.a1_in1k"] is Weights.PRESENT
    assert found["resnet18.a2_in1k"] is Weights.REMOTE
