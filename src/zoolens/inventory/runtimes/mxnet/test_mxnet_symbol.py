"""MXNet symbol files: operators are listed, whatever MXNet itself would run."""

from __future__ import annotations

import json

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.mxnet.mxnet_symbol import check_symbol


def _symbol(path, *nodes):
    path.write_text(json.dumps({"nodes": [{"name": str(i), "inputs": [], **node} for i, node in enumerate(nodes)]}))
    return path


@pytest.mark.parametrize(
    "node",
    [
        {"op": "_Native", "attrs": {"info": "0x41414141"}},
        {"op": "_NDArray", "attrs": {"info": "0x41414141"}},
        {"op": "_FusedOp", "attrs": {"code": "int main() {}"}},
        {"op": "Custom", "attrs": {"op_type": "x"}},
        {"op": "_CustomFunction"},
        {"op": "_TensorRT"},
        {"op": "relu", "subgraphs": [{"nodes": []}]},
        {"op": ["relu"]},
    ],
)
def test_operators_that_do_more_than_compute_are_refused(tmp_path, node):
    with pytest.raises(ModelError):
        check_symbol(_symbol(tmp_path / "m-symbol.json", {"op": "null"}, node))


def test_plain_networks_pass_and_damaged_files_are_explained(tmp_path):
    check_symbol(_symbol(tmp_path / "m-symbol.json", {"op": "null"}, {"op": "Convolution"}, {"op": "BatchNorm"}))
    for text in ("", "[]", "{}", '{"nodes": 3}', '{"nodes": [{}]}'):
        (tmp_path / "m-symbol.json").write_text(text)
        with pytest.raises(ModelError, match="not a complete"):
            check_symbol(tmp_path / "m-symbol.json")
