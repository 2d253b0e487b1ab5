from __future__ import annotations

import numpy as np
import pytest

import zoolens
from zoolens.contrib.arora.arora_model import INPUTS, arora_of
from zoolens.contrib.arora.bound import AroraBound
from zoolens.findings.graph.onnx_writer import write_onnx
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.testing.bound_contract import ModelBoundContract


def evaluated(folder):
    """A copy of a demo model on its data, cut off after 250 inputs: its file and its run."""
    path = write_onnx(weighted_graph("demo:mlp-small"), folder / "copy.onnx")
    with zoolens.open_store(folder / "store.sqlite") as store:
        (outcome,) = zoolens.evaluate(
            [str(path)], "demo", runtimes=["onnxruntime"], limit=250, batches=(), cold=False, trust=True, store=store
        )
        return path, outcome.run


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    return evaluated(tmp_path)


class TestContract(ModelBoundContract):
    bound_of = staticmethod(arora_of)

    def run(self, tmp_path):
        return evaluated(tmp_path)[1]


def test_the_bound_is_that_of_the_runs_model_and_inputs(measured):
    found = arora_of(measured[1])
    assert isinstance(found, AroraBound)
    assert found.inputs == INPUTS
    assert found.classes == 10


def test_a_file_that_has_changed_since_says_nothing_about_the_run(measured):
    path, run = measured
    graph = weighted_graph(path)
    weights = {key: np.zeros_like(values) for key, values in graph.weights.items()}
    write_onnx(type(graph)(graph.name, graph.nodes, graph.outputs, weights), path)
    said = str(arora_of(run))
    assert said.startswith("The files of")
    assert "have changed since run" in said
