"""Networks of torchvision, timm, transformers and keras.applications, which nobody here wrote, in real processes.

The table of docs/port.md is what these tests prove: for every pair the differences that the two libraries' code has,
no other, and weights that move both ways wherever the networks answer alike.
"""

from importlib.util import find_spec

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.training.port.port_check import check
from zoolens.training.port.weights import move_weights

for package in ("keras", "timm", "torch", "torchvision", "transformers"):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

NETS = """
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

def _torchvision(name, **options):
    return import_torchvision().models.get_model(name, weights=None, **options)

def _timm(name, **options):
    import_torchvision()
    import timm
    return timm.create_model(name, pretrained=False, **options)

def _transformers(name, **options):
    import_torchvision()
    import transformers
    config = getattr(transformers, f"{name}Config")(num_labels=1000, **options)
    return getattr(transformers, f"{name}ForImageClassification")(config)

def _keras(name, size=64, **options):
    import keras
    made = getattr(keras.applications, name)
    return made(weights=None, input_shape=(size, size, 3), classifier_activation=None, **options)

def torchvision_resnet50(): return _torchvision("resnet50")
def torchvision_mobilenet_v2(): return _torchvision("mobilenet_v2")
def torchvision_mobilenet_v3(): return _torchvision("mobilenet_v3_large")
def torchvision_mobilenet_v3_small(): return _torchvision("mobilenet_v3_small")
def torchvision_efficientnet(): return _torchvision("efficientnet_b0")
def torchvision_densenet(): return _torchvision("densenet121")
def torchvision_convnext(): return _torchvision("convnext_tiny")
def torchvision_vit(): return _torchvision("vit_b_16", image_size=64)
def torchvision_swin(): return _torchvision("swin_t")
def timm_resnet50(): return _timm("resnet50")
def timm_mobilenet_v1(): return _timm("mobilenetv1_100")
def timm_mobilenet_v2(): return _timm("mobilenetv2_100")
def timm_mobilenet_v3(): return _timm("mobilenetv3_large_100")
def timm_tf_mobilenet_v3(): return _timm("tf_mobilenetv3_small_100")
def timm_efficientnet(): return _timm("efficientnet_b0")
def timm_tf_efficientnet(): return _timm("tf_efficientnet_b0")
def timm_densenet(): return _timm("densenet121")
def timm_convnext(): return _timm("convnext_tiny")
def timm_vit(): return _timm("vit_base_patch16_224", img_size=64)
def timm_xception(): return _timm("legacy_xception")
def timm_swin(): return _timm("swin_tiny_patch4_window7_224")
def transformers_resnet50(): return _transformers("ResNet")
def transformers_convnext(): return _transformers("ConvNext")
def transformers_vit(): return _transformers("ViT", image_size=64)
def transformers_swin(): return _transformers("Swin")
def keras_resnet50(): return _keras("ResNet50")
def keras_mobilenet_v1(): return _keras("MobileNet")
def keras_mobilenet_v2(): return _keras("MobileNetV2")
def keras_mobilenet_v3(): return _keras("MobileNetV3Small", include_preprocessing=False)
def keras_efficientnet(): return _keras("EfficientNetB0")
def keras_densenet(): return _keras("DenseNet121")
def keras_convnext(): return _keras("ConvNeXtTiny", include_preprocessing=False)
def keras_convnext_as_it_is(): return _keras("ConvNeXtTiny")
def keras_xception(): return _keras("Xception", size=96)
"""
# Two networks that answer alike, and in what their definitions differ all the same.
ALIKE = [
    ("torchvision_resnet50", "timm_resnet50", set()),
    ("timm_resnet50", "transformers_resnet50", set()),
    ("torchvision_mobilenet_v2", "timm_mobilenet_v2", set()),
    ("timm_tf_mobilenet_v3", "keras_mobilenet_v3", set()),
    ("torchvision_efficientnet", "timm_efficientnet", set()),
    ("torchvision_densenet", "timm_densenet", set()),
    ("torchvision_densenet", "keras_densenet", {diff_causes.EPSILON}),  # 1e-5 and 1.001e-5
    ("torchvision_convnext", "timm_convnext", set()),
    ("torchvision_convnext", "keras_convnext", set()),
    ("timm_convnext", "transformers_convnext", {diff_causes.EPSILON}),  # 1e-6 and 1e-12, of one norm
    ("torchvision_vit", "timm_vit", set()),
    ("torchvision_swin", "timm_swin", set()),
    ("timm_swin", "transformers_swin", {diff_causes.WIRING}),  # a reshape that moves no number
]
# Networks that answer otherwise, and why.
UNLIKE = [
    ("torchvision_resnet50", "keras_resnet50", {diff_causes.EPSILON, diff_causes.BIAS, diff_causes.STRIDE_PLACEMENT}),
    ("torchvision_mobilenet_v2", "keras_mobilenet_v2", {diff_causes.EPSILON, diff_causes.PADDING}),
    ("torchvision_mobilenet_v3", "timm_mobilenet_v3", {diff_causes.EPSILON}),
    ("torchvision_mobilenet_v3_small", "keras_mobilenet_v3", {diff_causes.PADDING}),
    ("timm_mobilenet_v1", "keras_mobilenet_v1", {diff_causes.EPSILON, diff_causes.PADDING}),
    ("timm_xception", "keras_xception", {diff_causes.EPSILON, diff_causes.PADDING}),
    (
        "torchvision_efficientnet",
        "keras_efficientnet",
        {diff_causes.PREPROCESSING, diff_causes.EPSILON, diff_causes.PADDING},
    ),
    ("torchvision_convnext", "keras_convnext_as_it_is", {diff_causes.PREPROCESSING}),
    ("timm_tf_efficientnet", "keras_efficientnet", {diff_causes.PREPROCESSING}),
    ("timm_vit", "transformers_vit", {diff_causes.EPSILON}),
]
pytestmark = pytest.mark.slow


@pytest.fixture
def nets(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # on which a Keras model is a torch.nn.Module as well
    (tmp_path / "nets.py").write_text(NETS)
    return lambda name: f"{tmp_path / 'nets.py'}:{name}"


def size(name):
    return {"swin": "3x224x224", "xception": "3x96x96"}.get(name.rpartition("_")[2], "3x64x64")


def told(diff):
    return {difference.cause for difference in diff.differences}


@pytest.mark.parametrize(("a", "b", "expected"), ALIKE)
def test_weights_move_both_ways_between_networks_that_answer_alike(nets, tmp_path, a, b, expected):
    there = move_weights(nets(a), nets(b), [size(a)], tmp_path / "b.safetensors", timeout=1200)
    assert told(there.diff) == expected
    assert there.map.lossless
    assert there.written is not None
    back = move_weights(nets(b), nets(a), [size(a)], tmp_path / "a.safetensors", checkpoint=there.written, timeout=1200)
    assert told(back.diff) == expected
    assert back.written is not None


@pytest.mark.parametrize(("a", "b", "expected"), UNLIKE)
def test_every_known_difference_is_found_and_no_other(nets, tmp_path, a, b, expected):
    found = check(nets(a), nets(b), [size(a)], timeout=1200)
    assert told(found.diff) == expected
    assert found.agreement.agree is False
    back = move_weights(nets(b), nets(a), [size(a)], tmp_path / "a.safetensors", timeout=1200)
    assert back.written is None
    assert told(back.diff) == expected
