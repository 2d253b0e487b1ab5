import json

import pytest
from click.testing import CliRunner

from zoolens.cli.diverge import command
from zoolens.errors import GateFailed

MODEL = "demo:lenet-torch"


def invoke(*args):
    return CliRunner().invoke(command, [*args, "--data", "demo", "--limit", "2", "--examine", "1", "--trust"])


def test_the_same_model_twice_is_equal_and_passes_a_gate(tmp_path):
    page = tmp_path / "page.html"
    side = f"{MODEL}@onnxruntime"
    result = invoke(side, side, "--fail-on", "max_error > 0", "--html", str(page))
    assert result.exit_code == 0, result.output
    assert "The two are equal" in result.stdout
    assert "The two are equal" in page.read_text(encoding="utf-8")


def test_a_gate_fails_behind_the_report():
    result = invoke(f"{MODEL}@onnxruntime", "demo:lenet-jax@onnxruntime", "--json", "--fail-on", "layers_beyond > 0")
    assert isinstance(result.exception, GateFailed)
    assert "layers_beyond > 0" in str(result.exception)
    assert json.loads(result.stdout)["differs"] is True


@pytest.mark.parametrize("runtime", ["nothing", "nothing:precision=float32"])
def test_an_unknown_runtime_is_not_called_a_version_only(runtime):
    result = invoke(f"{MODEL}@{runtime}", MODEL)
    assert result.exit_code == 1
    message = str(result.exception)
    assert "There is no runtime 'nothing'" in message
    assert "onnxruntime" in message
    wrong = invoke(f"demo:lenet-nowhere@{runtime}", MODEL)
    assert "lenet-nowhere" in str(wrong.exception)
    assert "runtime" not in str(wrong.exception)
