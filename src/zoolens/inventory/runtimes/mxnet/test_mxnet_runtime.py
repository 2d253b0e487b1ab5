"""MXNet where it is not installed; its answers are tested in test_environments_network."""

from importlib.util import find_spec

import pytest

from zoolens.base.errors import MissingDependency
from zoolens.inventory.runtimes.mxnet.mxnet_runtime import MxNet
from zoolens.inventory.runtimes.runtime import ModelFiles


@pytest.mark.skipif(find_spec("mxnet") is not None, reason="mxnet is installed here")
def test_without_mxnet_the_way_to_an_environment_is_shown(tmp_path):
    (tmp_path / "x-symbol.json").write_text("{}")
    with pytest.raises(MissingDependency) as caught:
        MxNet().open(ModelFiles("mxnet", {"model": tmp_path / "x-symbol.json"}))
    assert "--env 'mxnet==1.9.1,numpy<1.24'" in caught.value.hint
