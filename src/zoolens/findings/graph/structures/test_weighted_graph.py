from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.engine.sandbox import trusting
from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.conftest import Sketch
from zoolens.findings.graph.passes.proof import random_inputs
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.graph.structures.weighted_graph import folded, weighted_graph
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.testing import models

REPO = Path(__file__).parents[5]


def test_a_model_has_its_own_weights():
    graph = weighted_graph("demo:lenet-torch")
    assert all(one.key in graph.weights for node in graph for one in node.parameters)
    assert graph.facts["file_outputs"] == ("logits",)


def test_both_formats_of_a_model_are_the_same_function():
    onnx, tflite = (weighted_graph(MODELS_FOLDER / f"resnet-tiny.{suffix}") for suffix in ("onnx", "tflite"))
    feed = next(iter(random_inputs(onnx, 0).values()))
    answers = [next(iter(run(one, {one.inputs[0].name: feed}).values())) for one in (onnx, tflite)]
    assert np.allclose(*answers, rtol=1e-4, atol=1e-5)


def test_the_order_of_axes_in_the_file_is_remembered(tmp_path):
    pytest.importorskip("tensorflow")
    graph = weighted_graph(next(iter(models.tflite(tmp_path).files.values())))
    assert list(graph.facts["input_axes"].values()) == ["NHWC"]
    assert graph.inputs[0].shape == (1, models.CHANNELS, models.SIDE, models.SIDE)
    image = models.images(1)
    (answer,) = run(graph, {graph.inputs[0].name: image}).values()
    assert np.allclose(answer, models.reference(image), rtol=1e-4, atol=1e-5)


def test_structure_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="only its structure is here"):
        weighted_graph("onnx:light/squeezenet")


def test_several_models_are_refused():
    with pytest.raises(ModelError, match="names 12 models"):
        weighted_graph("demo:*")


def test_a_file_that_is_gone_is_said(tmp_path):
    shutil.copy(MODELS_FOLDER / "mlp-small.yaml", tmp_path)
    with pytest.raises(ModelError, match="does not exist"):
        weighted_graph(tmp_path / "mlp-small.yaml")


def test_folded_norms_compute_the_same():
    sketch = Sketch("NCHW")
    x = sketch.input(3, 5, 6)
    x = sketch.norm(sketch.conv(x, 4, 3, bias=True))
    x = sketch.two("mul", sketch.conv(sketch.one("relu", x), 2), sketch.learned(2, 1, 1))
    graph = canonical(sketch.graph(sketch.norm(sketch.one("relu", x))))
    assert {node.get("norm") for node in graph} == {None, "batch", "affine"}
    plain = folded(graph)
    assert {node.get("norm") for node in plain} == {None}
    assert [node.op for node in plain] == [node.op for node in graph]  # a norm that follows no layer stays
    feed = random_inputs(graph, 0)
    assert np.allclose(*(next(iter(run(one, feed).values())) for one in (graph, plain)), rtol=1e-5, atol=1e-6)


def test_only_what_folding_computed_is_rounded():
    sketch = Sketch()
    graph = canonical(sketch.graph(sketch.conv(sketch.norm(sketch.conv(sketch.input(3, 4, 4), 6)), 2)))
    assert {values.dtype for values in graph.weights.values()} == {np.dtype(np.float64)}
    plain = folded(graph)
    first, second = (node.parameter("kernel").key for node in plain if node.op == "conv")
    assert plain.weights[first].dtype == np.float32
    assert plain.weights[second] is graph.weights[second]


def read_by_a_fresh_process(path, folder):
    """The nodes and the weights of a graph as a process reads it that does nothing else, and what it has imported."""
    code = (
        "import pickle, sys\nfrom pathlib import Path\n"
        "from zoolens.findings.graph.structures.weighted_graph import weighted_graph\n"
        "graph = weighted_graph(Path(sys.argv[1]))\n"
        "Path(sys.argv[2]).write_bytes(pickle.dumps((graph.nodes, dict(graph.weights), set(sys.modules))))"
    )
    subprocess.run([sys.executable, "-c", code, path, folder / "read"], check=True)
    return pickle.loads((folder / "read").read_bytes())


@pytest.mark.assets
@pytest.mark.slow
def test_torch_weights_are_read_with_their_architecture(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    if not ASSETS.exists():
        pytest.skip(f"REFERENCE MODELS ABSENT: nothing at {ASSETS}; set ZOOLENS_ASSETS to test against them")
    monkeypatch.setenv("ZOOLENS_ASSETS", str(ASSETS))
    zoo = REPO / "tests" / "reference_zoo"
    nodes, weights, modules = read_by_a_fresh_process(zoo / "imagenet" / "mobilenet_v2_torch.yaml", tmp_path)
    assert "torch" not in modules  # it is where the worker is, and nowhere else
    with trusting():
        here = weighted_graph(zoo / "imagenet" / "mobilenet_v2_torch.yaml")
    assert here.parameters == 3_504_872
    assert here.nodes == nodes
    assert here.weights.keys() == weights.keys()
    assert all(np.array_equal(values, weights[key]) for key, values in here.weights.items())
    with pytest.raises(ModelError, match="Python code"):
        weighted_graph(zoo / "cifar10" / "resnet20.yaml")
