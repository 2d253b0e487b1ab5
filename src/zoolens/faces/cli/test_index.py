"""`zoolens index` as a user calls it, on demo models."""

import json

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.index import command
from zoolens.findings.index import opener

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "store.sqlite"))
    opener._recent.clear()

    def run(*words):
        done = CliRunner().invoke(command, words)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.output

    return run


def test_a_life_of_an_index(call):
    words = ("--data", "demo", "--limit", "40", "-r", "onnxruntime")
    added = call("add", "demo:mlp-small", "demo:lenet-torch", *words)
    assert "demo:mlp-small in onnxruntime: indexed" in added
    assert "2 models in 2 rows, 2 of them with a signature over 40 inputs" in added
    assert "demo:lenet-torch" in call("remove", "lenet-torch")
    shown = json.loads(call("show", "--json"))
    assert (shown["signatures"], shown["probes"], shown["sketched"]) == (1, 40, False)
    assert shown["file_bytes"] > 0
    assert 0 < shown["memory_bytes"] < shown["memory_budget_bytes"] == 20_000_000
    call("add", "demo:lenet-torch", "-r", "onnxruntime")
    built = call("build")
    assert "2 of them with a signature" in built
    assert {"flops", "macs", "parameters"} <= set(json.loads(call("show", "--json"))["metrics"])
    assert "All 2 signatures" in call("verify")
    assert "2 of them with a signature" in call("rebuild")


def test_show_lists_what_lacks_a_signature(call):
    call("add", "demo:mlp-small", "--data", "demo", "--limit", "40", "-r", "onnxruntime")
    call("add", "demo:lenet-torch", "--data", "demo", "--limit", "30", "-r", "onnxruntime")
    shown = call("show", "--data", "*first 40*")
    assert "Without a signature over these probes (1)" in shown
    assert "demo:lenet-torch@" in shown


def test_an_empty_store_says_so(call):
    open_store().close()
    assert "No model was measured yet." in call("show")
    with pytest.raises(ZoolensError, match="no model was measured yet"):
        call("verify")


def test_limits_need_data(call):
    assert "belong to --data" in call("add", "demo:mlp-small", "--limit", "5")


def test_models_that_cannot_run_are_an_error(call):
    with pytest.raises(ZoolensError, match="Nothing was added"):
        call("add", "demo:mlp-small", "--data", "demo", "--limit", "5", "-r", "mxnet")
