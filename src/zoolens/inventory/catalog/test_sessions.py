"""From a name to an open session, and the sentences that say why there is none."""

from __future__ import annotations

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import AssetError, CodeNotAllowed, ConstraintError, UnknownName
from zoolens.inventory import catalog

MANIFEST = """\
zoolens: 1
name: tiny
version: 1.0.0
inputs: [{modality: array, shape: [null, 4], layout: NC}]
outputs: [{}]
assets: [{format: fake, files: [{location: tiny.json}]}]
"""


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    (tmp_path / "tiny.json").write_text('{"classes": 3, "input": [4]}')
    (tmp_path / "tiny.yaml").write_text(MANIFEST)
    return tmp_path / "tiny.yaml"


@pytest.mark.parametrize("spelt", [str, lambda path: path, catalog.find])
def test_a_path_a_name_and_an_entry_open_the_same_model(manifest, spelt):
    with catalog.open_session(spelt(manifest)) as session:
        answers = session.predict({session.inputs[0].name: np.zeros((2, 4), np.float32)})
    assert [values.shape for values in answers.values()] == [(2, 3)]


def test_the_public_name_is_the_same_function():
    assert zoolens.open_session.__wrapped__ is catalog.open_session
    assert zoolens.find_model.__wrapped__ is catalog.find


def test_a_runtime_that_cannot_run_it_is_named(manifest):
    with pytest.raises(ConstraintError, match="onnxruntime does not run fake"):
        catalog.open_session(manifest, runtime="onnxruntime")
    with pytest.raises(UnknownName, match="Did you mean fake"):
        catalog.open_session(manifest, runtime="fakee")


def test_code_in_a_manifest_is_not_run_unasked(manifest):
    manifest.write_text(MANIFEST + "code: {preprocess: 'x = 1'}\n")
    with pytest.raises(CodeNotAllowed, match="carries Python code"):
        catalog.open_session(manifest)


def test_a_file_that_is_not_there_is_named(manifest):
    (manifest.parent / "tiny.json").unlink()
    with pytest.raises(AssetError, match=r"tiny\.json"):
        catalog.open_session(manifest)
