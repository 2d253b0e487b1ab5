"""An operator without a reference leaves its own layer open, and no other."""

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.divergence_words import lines
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

WIDTH = 12


def dense(net, given, name, before, after):
    kernel, bias = net.weight(f"{name}.weight", after, before), net.weight(f"{name}.bias", after, scale=0.1)
    return net.node("Gemm", [given, kernel, bias], name, transB=1)


def branching(net, x):
    """A branch that depends on the data."""

    def branch(op):
        made = helper.make_tensor_value_info(f"{op}.out", 1, None)
        return helper.make_graph([helper.make_node(op, [x], [f"{op}.out"])], op, [], [made])

    top = net.node("ReduceMax", [x], "top", keepdims=0)
    chosen = net.node("Greater", [top, net.constant("never", np.float32(-1e9))], "condition")
    return net.node("If", [chosen], "middle", then_branch=branch("Tanh"), else_branch=branch("Relu"))


def counting(net, x):
    """How many numbers are positive: the extent of a tensor depends on the data."""
    places = net.node("NonZero", [net.node("Relu", [x], "positive")], "places")
    extents = net.node("Cast", [net.node("Shape", [places], "extents")], "counts", to=1)
    count = net.node("Gather", [extents, net.constant("columns", np.array(1))], "count", axis=0)
    return net.node("Add", [x, net.node("Div", [count, net.constant("size", np.float32(9))], "share")], "middle")


@pytest.fixture
def two(tmp_path):
    """Compares a network with a copy that was changed."""
    np.savez(
        tmp_path / "x.npz", x=np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32), y=np.arange(3)
    )

    def job(name, middle, change):
        net = Drawn("hole")
        x = middle(net, dense(net, net.node("Sigmoid", [dense(net, "x", "first", WIDTH, 8)], "gate"), "second", 8, 8))
        dense(net, net.node("Tanh", [dense(net, x, "third", 8, 8)], "last"), "logits", 8, 10)
        model = net.model(("x", 1, ("batch", WIDTH)), "logits")
        if change is not None:
            change(model)
        onnx.save(model, str(tmp_path / f"{name}.onnx"))
        entry = with_file(find("demo:resnet-tiny"), tmp_path / f"{name}.onnx")
        declared = {"modality": "array", "color": None, "preprocess": (), "shape": (None, WIDTH), "layout": "NC"}
        given = entry.manifest.inputs[0].model_copy(update=declared)
        entry = replace(entry, manifest=entry.manifest.model_copy(update={"inputs": (given,)}))
        return plan_jobs([entry], RunOptions(runtimes=("onnxruntime",)))[0][0]

    def compare(middle, change=None):
        data = open_dataset(f"npz:{tmp_path / 'x.npz'}")
        return diverge_jobs(job("plain", middle, None), job("copy", middle, change), data, examined=2)

    return compare


@pytest.mark.parametrize("layer", ["first", "second", "third", "logits"])
def test_layers_before_and_behind_a_branch_are_compared_and_named(two, layer):
    found = two(branching, weights(f"{layer}.weight", one_channel))
    (cause,) = found.causes
    assert (cause.kind, cause.layer, cause.proved) == (Kind.WEIGHTS, layer, True)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert any("operator If whose condition is computed in A, which has no reference" in line for line in lines(found))


def test_equal_answers_are_equal_whatever_is_not_understood(two):
    found = two(branching)
    assert found.verdict.outcome is Outcome.SAME
    assert not found.causes


def test_what_depends_on_the_number_of_something_is_not_known(two):
    found = two(counting, weights("third.weight", lambda values: values * np.float32(1.0001)))
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert not any(cause.proved for cause in found.causes)
    assert any("The shape of its operator NonZero depends on numbers" in line for line in lines(found))
