from __future__ import annotations

import json
import shutil
from importlib import util
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoolens.base.verdicts import NotKnown
from zoolens.conftest import ASSETS
from zoolens.faces.cli.identify import NameContradicted, command
from zoolens.testing import language_models

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def identify(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    return lambda *arguments: CliRunner().invoke(command, [*map(str, arguments)])


@pytest.fixture
def light_squeezenet():
    spec = util.find_spec("onnx")
    if spec is None or spec.origin is None:
        pytest.skip("the onnx package, which ships this graph, is not installed")
    return Path(spec.origin).parent / "backend/test/data/light/light_squeezenet.onnx"


def asset(path):
    if not (ASSETS / path).is_file():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {ASSETS / path}; set ZOOLENS_ASSETS to test against them")
    return ASSETS / path


def test_a_squeezenet_1_0_that_is_a_1_1_is_caught(identify, light_squeezenet, tmp_path):
    wrong = tmp_path / "squeezenet1.0.onnx"
    shutil.copy(light_squeezenet, wrong)
    result = identify(wrong)
    assert isinstance(result.exception, NameContradicted)
    assert result.exception.exit_code == 1
    assert str(result.exception).startswith("squeezenet1.0.onnx is a SqueezeNet 1.1: it")
    right = tmp_path / "squeezenet1.1.onnx"
    wrong.rename(right)
    assert identify(right).exit_code == 0


def test_everything_is_there_as_json(identify, light_squeezenet, tmp_path):
    copy = tmp_path / "network.onnx"
    shutil.copy(light_squeezenet, copy)
    found = json.loads(identify(copy, "--json", "-n", "2").stdout)
    assert (found["architecture"], found["name"], found["exact"]) == ("squeezenet1_1", "SqueezeNet 1.1", True)
    assert found["claimed"] is None
    assert found["contradiction"] is None
    assert {match["zoo"] for match in found["matches"] if match["exact"]} >= {"paper", "torchvision", "onnx"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("imagenet/tflite/coral_mobilenet_v1_0.25_128_quant.tflite", "a MobileNet v1, width 0.25"),
        ("imagenet/tflite/stm_mobilenet_v2_0.35_224_int8.tflite", "a MobileNet v2, width 0.35"),
        ("imagenet/tflite/tflm_mobilenet_v2_torch_int8_nchw.tflite", "a MobileNet v2"),
        ("imagenet/tflite/efficientnet_lite0_int8.tflite", "efficientnet_lite0"),
        ("imagenet/onnx/shufflenet-v2-12-int8.onnx", "a ShuffleNet v2 1.0"),
        ("imagenet/caffe/squeezenet_v1.1.deploy.prototxt", "a SqueezeNet 1.1"),
        ("cifar10/mlperf_tiny/pretrainedResnet_quant.tflite", "ResNet-8"),
    ],
)
def test_quantised_files_with_folded_norms_are_named(identify, path, name):
    result = identify(asset(path))
    assert result.exit_code == 0, result.output
    assert name in result.output.splitlines()[0]
    assert "equals" in result.output or "the same layers" in result.output


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2_1.0_224", "SqueezeNet1.0", "vgg16", "efficientnet_lite0"])
def test_a_known_name_on_something_else_fails_the_guard(identify, tmp_path, name):
    impostor = tmp_path / f"{name}.onnx"
    shutil.copy(asset("cifar10/samplenet/samplenet.onnx"), impostor)
    for _ in range(2):  # having been looked at once does not make it known
        result = identify(impostor)
        assert isinstance(result.exception, NameContradicted)
        assert "file:" not in result.output


def test_a_detector_called_after_its_backbone_is_not_judged(identify):
    result = identify(asset("tasks/detection/models/ssd_mobilenet_v1_coco_300_uint8.tflite"))
    assert isinstance(result.exception, NotKnown)
    assert result.exception.exit_code == 4
    assert "It has the layers of a MobileNet v1 in it." in result.output


def test_a_network_of_its_own_is_near_nothing(identify):
    result = identify(asset("cifar10/samplenet/samplenet.onnx"))
    assert result.exit_code == 0
    assert "nothing near; the nearest is" in result.output


def test_of_a_language_model_like_nothing_known_is_said_where_to_read_on(identify, tmp_path):
    (model,) = language_models.gguf(tmp_path).files.values()
    result = identify(model)
    assert "Likeness this low says nothing of a language model." in result.output
    assert "`zoolens diff --weights`" in result.output


# --- folders


@pytest.fixture
def folder(light_squeezenet, tmp_path):
    """A SqueezeNet 1.1 under names that are right, wrong, and of a network that nobody knows here."""
    place = tmp_path / "models"
    (place / "more").mkdir(parents=True)
    for name in ("squeezenet1.1.onnx", "squeezenet1.0.onnx", "more/squeezenet_vd.onnx", "more/network.onnx"):
        shutil.copy(light_squeezenet, place / name)
    (place / "notes.txt").write_text("no model")
    (place / "resnet50.onnx").write_bytes(b"damaged")
    (place / "more" / "again").symlink_to(place)
    return place


def test_every_model_file_of_a_folder_gets_a_line_and_a_wrong_name_counts_most(identify, folder):
    result = identify(folder)
    assert result.exit_code == 1, result.output
    begins = [line.split(": ")[0].strip() for line in result.output.splitlines()]
    assert [begin for begin in begins if begin.endswith(".onnx")] == [
        "no claim  more/network.onnx",
        "not known  more/squeezenet_vd.onnx",
        "not known  resnet50.onnx",
        "different  squeezenet1.0.onnx",
        "same  squeezenet1.1.onnx",
    ]
    assert "5 model files: 1 no claim, 2 not known, 1 different, 1 same." in result.output


def test_a_folder_without_a_wrong_name_ends_with_4_or_0(identify, folder):
    (folder / "squeezenet1.0.onnx").unlink()
    data = json.loads(identify(folder, "--json").stdout)
    assert (data["outcome"], len(data["models"])) == ("not known", 4)
    assert identify(folder).exit_code == 4
    (folder / "resnet50.onnx").unlink()
    (folder / "more/squeezenet_vd.onnx").unlink()
    assert identify(folder).exit_code == 0
    assert json.loads(identify(folder, "--json").stdout)["outcome"] == "same"


def test_a_folder_without_models_is_an_error(identify, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "There is no model file in" in str(identify(tmp_path / "empty").exception)


@pytest.mark.parametrize("content", [None, b"\xff not a model"])
def test_a_file_that_cannot_be_read_accuses_no_name(identify, tmp_path, content):
    if content is not None:
        (tmp_path / "resnet18.onnx").write_bytes(content)
    result = identify(tmp_path / "resnet18.onnx")
    assert result.exception.exit_code == 2
