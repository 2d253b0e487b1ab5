"""A server of two models of the fake runtime, for the tests of the transports."""

from __future__ import annotations

import json

import pytest

from zoolens.base.protocol.limits import Limits
from zoolens.faces.serving.plane.conftest import MANIFEST


def write_fake(folder, name, **settings):
    """A model of three classes and four inputs; the path of its manifest."""
    (folder / f"{name}.json").write_text(json.dumps({"classes": 3, "input": [4], **settings}))
    path = folder / f"{name}.yaml"
    path.write_text(MANIFEST.format(name=name, version="1.0.0", file=f"{name}.json"))
    return str(path)


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def server(served_folder):
    """Bodies of at most 100,000 bytes. `slow` takes a fifth of a second for a call."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("grpc")
    from zoolens.faces.serving.serve import serve

    folder = served_folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(folder / "home"))
        models = [write_fake(folder, "tiny"), write_fake(folder, "slow", latency_us=200_000)]
        with serve(models, http=0, grpc=0, limits=Limits(body_bytes=100_000)) as running:
            yield running
