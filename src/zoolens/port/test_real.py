"""Networks of torchvision and timm beside those of keras.applications, which nobody here wrote, in real processes."""

from importlib.util import find_spec

import pytest

from zoolens.graph.diff import causes
from zoolens.port.check import check
from zoolens.port.weights import move_weights

for package in ("keras", "torch", "torchvision"):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)

NETS = """
def _torchvision(name):
    from zoolens.torchvision_shim import import_torchvision
    return import_torchvision().models.get_model(name, weights=None)

def _keras(name, **options):
    import keras
    made = getattr(keras.applications, name)
    return made(weights=None, input_shape=(64, 64, 3), classifier_activation=None, **options)

def torchvision_densenet121(): return _torchvision("densenet121")
def torchvision_mobilenet_v2(): return _torchvision("mobilenet_v2")
def torchvision_resnet50(): return _torchvision("resnet50")
def keras_DenseNet121(): return _keras("DenseNet121")
def keras_MobileNetV2(): return _keras("MobileNetV2")
def keras_ResNet50(): return _keras("ResNet50")
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def nets(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # on which a Keras model is a torch.nn.Module as well
    (tmp_path / "nets.py").write_text(NETS)
    return lambda name: f"{tmp_path / 'nets.py'}:{name}"


@pytest.mark.parametrize(
    ("a", "b", "expected", "agree"),
    [
        ("torchvision_densenet121", "keras_DenseNet121", {causes.EPSILON}, True),
        ("torchvision_mobilenet_v2", "keras_MobileNetV2", {causes.EPSILON, causes.PADDING}, False),
        (
            "torchvision_resnet50",
            "keras_ResNet50",
            {causes.EPSILON, causes.BIAS, causes.STRIDE_PLACEMENT},
            False,
        ),
    ],
)
def test_every_known_difference_is_found_and_no_other(nets, a, b, expected, agree):
    found = check(nets(a), nets(b), ["3x64x64"])
    assert {difference.cause for difference in found.diff.differences} == expected
    assert found.agreement.agree is agree
    assert found.map.lossless  # what Keras has in addition, biases, is neutral at 0


def test_weights_of_a_real_network_move_both_ways(nets, tmp_path):
    a, b = nets("torchvision_densenet121"), nets("keras_DenseNet121")
    there = move_weights(a, b, ["3x64x64"], tmp_path / "b.safetensors")
    assert there.written is not None
    back = move_weights(b, a, ["3x64x64"], tmp_path / "a.pt", checkpoint=there.written)
    assert back.written is not None
    assert len(back.map.moves) == len(there.map.moves) == 606
