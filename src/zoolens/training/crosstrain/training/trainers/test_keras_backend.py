import sys

import pytest

from zoolens.base.errors import MissingDependency
from zoolens.findings.graph.importers.importer import Request
from zoolens.training.crosstrain.training.live.live_keras import JAX, TENSORFLOW


@pytest.mark.parametrize(("importer", "extra"), [(TENSORFLOW, "zoolens[keras]"), (JAX, "zoolens[keras,jax]")])
def test_whoever_lacks_a_backend_is_told_what_to_install_for_it(importer, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)  # as where it is not installed
    monkeypatch.setenv("KERAS_BACKEND", "")
    with pytest.raises(MissingDependency) as raised:
        importer.load(Request(subject="mlp"))
    assert extra in raised.value.hint
