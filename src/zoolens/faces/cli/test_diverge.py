import json

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import GateFailed
from zoolens.base.store.store import open_store
from zoolens.faces.cli.compare import command as compare
from zoolens.faces.cli.diverge import command
from zoolens.findings.comparisons.conftest import one_hot, write_run

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


@pytest.mark.parametrize("flipped", [0, 3])
def test_compare_points_to_it_where_one_model_answers_differently_in_two_runtimes(tmp_path, flipped):
    labels = np.arange(20) % 10
    answers = np.where(np.arange(20) < flipped, (labels + 1) % 10, labels)
    path = tmp_path / "store.sqlite"
    with open_store(path) as store:
        a = write_run(store, "m", one_hot(labels), labels, runtime="one")
        b = write_run(store, "m", one_hot(answers), labels, runtime="two")
    result = CliRunner().invoke(compare, [a.id, b.id, "--store", str(path)])
    assert result.exit_code == 0, result.output
    assert (f"zoolens diverge {a.id[:8]} {b.id[:8]}" in result.stdout) is bool(flipped)
