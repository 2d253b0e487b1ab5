"""Drafts of networks that nobody here wrote, by the command, in real processes."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.main import cli

for package in ("keras", "torch", "torchvision"):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow

NETS = """
def _torchvision(name):
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
    return import_torchvision().models.get_model(name, weights=None)

def _keras(name):
    import keras
    return getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3), classifier_activation=None)

def resnet18(): return _torchvision("resnet18")
def mobilenet_v2(): return _torchvision("mobilenet_v2")
def densenet121(): return _torchvision("densenet121")
def vit_b_16(): return _torchvision("vit_b_16")
def efficientnet_b0(): return _torchvision("efficientnet_b0")
def ResNet50(): return _keras("ResNet50")
def MobileNetV2(): return _keras("MobileNetV2")
def EfficientNetB0(): return _keras("EfficientNetB0")
"""


def scaffolded(tmp_path, name, to, size, *options):
    (tmp_path / "nets.py").write_text(NETS)
    side, out = f"{tmp_path / 'nets.py'}:{name}", tmp_path / "draft.py"
    arguments = ["port", "scaffold", side, "--to", to, "--input", size, "--out", str(out), "--json", *options]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), out.read_text()


@pytest.mark.parametrize(
    ("name", "to", "size", "functions", "lines"),
    [
        ("resnet18", "keras", "3x64x64", {"basic_block", "basic_block_with_downsample"}, 60),
        ("mobilenet_v2", "keras", "3x64x64", {"inverted_residual", "inverted_residual_without_add"}, 90),
        ("densenet121", "keras", "3x64x64", {"dense_layer", "transition"}, 60),
        ("vit_b_16", "keras", "3x224x224", {"encoder_block", "mlp_block", "multihead_attention"}, 100),
        ("efficientnet_b0", "keras", "3x64x64", {"mb_conv", "squeeze_excitation"}, 300),
        ("ResNet50", "torch", "3x64x64", {"ResidualBlock", "ProjectionBlock"}, 170),
        ("MobileNetV2", "torch", "3x64x64", {"ResidualBlock"}, 300),
        ("EfficientNetB0", "torch", "3x64x64", {"FixedNorm", "DropBranch"}, 400),
    ],
)
def test_real_networks(tmp_path, name, to, size, functions, lines):
    data, code = scaffolded(tmp_path, name, to, size)
    assert data["check"]["same"]
    assert data["check"]["agreement"]["agree"] is True
    assert not data["todos"]
    assert data["lines"] <= lines
    missing = {function for function in functions if f" {function}(" not in code}
    assert not missing


def test_weights_of_a_draft(tmp_path):
    data, _ = scaffolded(tmp_path, "resnet18", "keras", "3x64x64", "--weights", str(tmp_path / "w.weights.h5"))
    assert data["weights"]["written"] == str(tmp_path / "w.weights.h5")
    assert (tmp_path / "w.weights.h5").stat().st_size > 4 * 11_000_000
