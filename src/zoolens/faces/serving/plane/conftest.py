"""Models of the fake runtime for the tests of the data plane."""

from __future__ import annotations

import json

import pytest

MANIFEST = """\
zoolens: 1
name: {name}
version: {version}
inputs: [{{modality: array, shape: [null, 4], layout: NC}}]
outputs: [{{labels: [ant, bee, cat]}}]
assets: [{{format: fake, files: [{{location: {file}}}]}}]
"""


@pytest.fixture
def fake_model(tmp_path, monkeypatch):
    """A function that writes a model of three classes and four inputs; the path of its manifest."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))

    def write(name="tiny", version="1.0.0", **settings):
        file = f"{name}-{version}.json"
        (tmp_path / file).write_text(json.dumps({"classes": 3, "input": [4], **settings}))
        path = tmp_path / f"{name}-{version}.yaml"
        path.write_text(MANIFEST.format(name=name, version=version, file=file))
        return str(path)

    return write
