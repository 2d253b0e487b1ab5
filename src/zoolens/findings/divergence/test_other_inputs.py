"""Sides that take other inputs: in another order, or more of them."""

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.diverging import diverge_jobs
from zoolens.findings.measure.jobs import RunOptions, plan_jobs
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.damaged_onnx import with_file
from zoolens.testing.network_damages import one_channel, weights
from zoolens.testing.small_networks import Drawn

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")
pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("trusted_models")

WIDTH = 6


@pytest.fixture
def job(tmp_path):
    generator = np.random.default_rng(2)
    shown = {name: generator.standard_normal((3, WIDTH)).astype(np.float32) for name in ("x", "y")}
    np.savez(tmp_path / "data.npz", **shown, none=np.zeros((3, WIDTH), np.float32), labels=np.arange(3))

    def make(name, inputs, change=None):
        net = Drawn("inputs")
        total = inputs[0]
        for other in sorted(inputs)[1:] if total == sorted(inputs)[0] else sorted(inputs):
            total = net.node("Add", [total, other], f"with_{other}") if other != inputs[0] else total
        hidden = net.node("Tanh", [net.node("Gemm", [total, net.weight("w1", 8, WIDTH)], "first", transB=1)], "act")
        net.node("Gemm", [hidden, net.weight("w2", 10, 8)], "logits", transB=1)
        model = net.model((inputs[0], 1, ("batch", WIDTH)), "logits") if len(inputs) == 1 else _several(net, inputs)
        if change is not None:
            change(model)
        onnx.save(model, str(tmp_path / f"{name}.onnx"))
        entry = with_file(find("demo:resnet-tiny"), tmp_path / f"{name}.onnx")
        declared = {"modality": "array", "color": None, "preprocess": (), "shape": (None, WIDTH), "layout": "NC"}
        given = entry.manifest.inputs[0]
        specs = tuple(given.model_copy(update={**declared, "name": name}) for name in inputs)
        entry = replace(entry, manifest=entry.manifest.model_copy(update={"inputs": specs}))
        return plan_jobs([entry], RunOptions(runtimes=("onnxruntime",)))[0][0]

    return make


def _several(net, inputs):
    values = [helper.make_tensor_value_info(name, 1, ["batch", WIDTH]) for name in inputs]
    answer = helper.make_tensor_value_info("logits", 1, ["batch", 10])
    tensors = [onnx.numpy_helper.from_array(array, key) for key, array in net.tensors.items()]
    graph = helper.make_graph(net.nodes, net.name, values, [answer], initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def data(tmp_path):
    return lambda: open_dataset(f"npz:{tmp_path / 'data.npz'}?x=x,y,none&y=labels")


@pytest.mark.parametrize("inputs", [("y", "x"), ("x", "none", "y")])
def test_inputs_are_given_by_name_and_a_changed_weight_is_found(job, data, inputs):
    plain = diverge_jobs(job("a", ("x", "y")), job("b", inputs), data(), examined=1)
    assert not plain.differs
    assert plain.verdict.outcome is Outcome.SAME
    found = diverge_jobs(job("a", ("x", "y")), job("b", inputs, weights("w2", one_channel)), data(), examined=1)
    assert any(cause.kind is Kind.WEIGHTS and cause.layer == "logits" for cause in found.causes)


def test_a_side_with_one_input_takes_its_part_of_a_sample(job, data):
    found = diverge_jobs(job("a", ("x",)), job("b", ("x", "none")), data(), examined=1)
    assert found.verdict.outcome is Outcome.SAME
