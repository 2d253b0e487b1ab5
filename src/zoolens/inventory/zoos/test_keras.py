from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.keras import KerasZoo, exported_models
from zoolens.inventory.zoos.zoo import Weights

pytestmark = pytest.mark.skipif(find_spec("keras") is None, reason="keras is not installed")

_DEFAULT_BUILT_IN = "built-in"


@pytest.fixture(autouse=True)
def keras_home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    return tmp_path


def sources() -> dict[str, str]:
    """Source of the module that defines each model function."""
    folder = Path(find_spec("keras").submodule_search_locations[0]) / "src" / "applications"
    found = {}
    for path in folder.glob("*.py"):
        text = path.read_text()
        found |= dict.fromkeys(re.findall(r"^def ([A-Z]\w+)\(", text, re.MULTILINE), text)
    return found


def test_every_exported_model_is_in_our_table():
    assert exported_models() <= set(table("keras_applications")["models"])
    assert len(exported_models()) >= 38


def test_preprocessing_modes_are_those_of_the_installed_keras():
    defined = sources()
    for name in exported_models():
        text = defined[name]
        body = text[text.index("\ndef preprocess_input") :]
        mode = re.search(r'mode="(\w+)"', body)
        assert table("keras_applications")["models"][name][1] == (mode.group(1) if mode else _DEFAULT_BUILT_IN), name


def test_weights_files_and_sizes_appear_in_the_source():
    defined = sources()
    for name, facts in table("keras_applications")["models"].items():
        if name in exported_models():
            assert str(facts[0]) in defined[name], name


def test_listing_imports_no_framework():
    code = (
        "import sys; from zoolens.inventory.zoos.keras import KerasZoo; n = len(list(KerasZoo().entries()));"
        "assert n >= 38, n; assert not {'keras', 'tensorflow', 'torch', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bgr_for_caffe_weights_and_no_steps_for_built_in_rescaling():
    entries = {entry.manifest.name: entry.manifest for entry in KerasZoo().entries()}
    assert entries["ResNet50"].inputs[0].color == "BGR"
    assert entries["ResNet50"].inputs[0].preprocess[-1].mean == (103.939, 116.779, 123.68)
    assert entries["ResNet50V2"].inputs[0].color == "RGB"
    assert [step.op for step in entries["EfficientNetB0"].inputs[0].preprocess] == ["resize"]
    assert entries["ResNet50"].claimed("top1") == pytest.approx(0.749)


def test_structure_only_until_keras_has_downloaded_the_weights(keras_home):
    zoo = KerasZoo()
    assert {entry.weights for entry in zoo.entries()} == {Weights.ABSENT}
    before = zoo.state()
    (keras_home / "models").mkdir()
    path = keras_home / "models" / "vgg16_weights_tf_dim_ordering_tf_kernels.h5"
    path.write_bytes(b"x")
    present = [entry for entry in zoo.entries() if entry.weights is Weights.PRESENT]
    assert [entry.manifest.name for entry in present] == ["VGG16"]
    assert present[0].manifest.assets[0].files[0].location == f"file://{path}"
    assert zoo.state() != before
