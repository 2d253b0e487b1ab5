"""Real models on real labelled images: our accuracies equal those that were measured independently of zoolens."""

import platform
from pathlib import Path

import measure_reference
import pytest

import zoolens
from zoolens.base.progress import Silent
from zoolens.findings.measure.evaluate import carry_out, evaluate

REPO = Path(__file__).parent.parent
ZOO = REPO / "tests" / "reference_zoo"
TOLERANCE = 0.005

# Where a runtime itself gives other answers; docs/reference-models.md explains each.
OTHER_ANSWERS = {
    ("coral_mobilenet_v2_1.0_224_quant", "openvino"): "bfloat16 and float32 where the file says int8",
    ("tflitesupport_mobilenet_v1_0.25_224_float", "openvino"): "bfloat16 on CPUs with AMX",
    ("stm_mobilenet_v2_0.35_224_int8", "openvino"): "bfloat16 where the file says int8",
    ("tflm_mobilenet_v2_torch_int8_nchw", "openvino"): "bfloat16 where the file says int8",
    ("nnstreamer_mobilenet_v2_quant", "opencv"): "OpenCV computes its int8 layers wrong",
}
CANNOT_OPEN = {("nnstreamer_mobilenet_v2_quant", "openvino"), ("shufflenet-v2-12-int8", "openvino")}


def task_of(path):
    return next(task for task in measure_reference.TASKS if task.folder == path.parent.name)


def top1(store, run):
    return next(one.value for one in store.observations(run.id) if one.metric == "top1")


@pytest.mark.assets
@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("imagenet/coral_mobilenet_v1_0.25_128_quant", "litert"),
        ("cifar10/samplenet_onnx", "onnxruntime"),
        ("cifar10/samplenet_caffe", "opencv"),
        pytest.param(
            "cifar10/samplenet_frozen",
            "tensorflow",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(
                    platform.machine() != "x86_64", reason="TensorFlow pools over NCHW on x86-64 processors only"
                ),
            ],
        ),
        ("cifar10/pretrainedResnet_quant", "litert"),
        pytest.param("cifar10/pretrainedResnet_h5", "tensorflow", marks=pytest.mark.slow),
    ],
)
def test_reference_accuracy(home, assets, name, runtime):
    path = ZOO / f"{name}.yaml"
    task = task_of(path)
    expected, limit = measure_reference.reference(path, task)
    store = zoolens.open_store()
    (outcome,) = evaluate(
        [str(path)], task.data.format(assets=assets), runtimes=[runtime], limit=limit, batches=(), cold=False,
        allow_code=True, trust=True, store=store,  # the slow test below opens them in the sandbox
    )  # fmt: skip
    assert not outcome.errors
    assert abs(top1(store, outcome.run) - expected) <= TOLERANCE + 0.0005  # the reference has one decimal


@pytest.mark.assets
def test_a_lower_precision_is_seen_and_named_as_the_cause(home, assets):
    """The same ONNX file on onnxruntime and on OpenVINO, which computes in bfloat16 where the CPU can."""
    store = zoolens.open_store()
    data = f"cifar10:{assets}/data/cifar10/test_batch_first2000.bin.gz"
    plain, low = evaluate(
        [str(ZOO / "cifar10" / "samplenet_onnx.yaml")], data, runtimes=["onnxruntime", "openvino"], limit=500,
        batches=(), cold=False, store=store,
    )  # fmt: skip
    if "bfloat16" not in (low.run.precision or ""):
        pytest.skip("this CPU has no bfloat16 units, so OpenVINO computes in float32")
    report = zoolens.compare(plain.run.id, low.run.id, store=store)
    assert report.answers.identical_outputs < 0.1
    assert report.answers.max_score_change > 1e-4
    assert "bfloat16" in report.cause
    (forced,) = evaluate(
        [str(ZOO / "cifar10" / "samplenet_onnx.yaml")], data, runtimes=["openvino"], precision="float32", limit=500,
        batches=(), cold=False, store=store,
    )  # fmt: skip
    assert forced.run.precision == "float32"
    assert zoolens.compare(plain.run.id, forced.run.id, store=store).answers.max_score_change < 1e-4


@pytest.mark.slow
@pytest.mark.assets
@pytest.mark.parametrize("path", sorted(ZOO.rglob("*.yaml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_reference_model_in_every_runtime(home, assets, path):
    if path.stem == "squeezenet_v1.1_ncnn":
        pytest.skip("ncnn is the sample plug-in's: tests/test_plugin.py runs it")
    task = task_of(path)
    expected, _ = measure_reference.reference(path, task)
    store = zoolens.open_store()
    outcomes = list(carry_out(measure_reference.plan(path, task, assets), store, Silent()))
    assert outcomes
    for outcome in outcomes:
        runtime = outcome.run.stack.runtime if outcome.run else outcome.title.rpartition(" in ")[2]
        if (path.stem, runtime) in CANNOT_OPEN:
            assert outcome.errors
            continue
        assert not outcome.errors
        if (path.stem, runtime) not in OTHER_ANSWERS:
            assert abs(top1(store, outcome.run) - expected) <= TOLERANCE + 0.0005, outcome.title
