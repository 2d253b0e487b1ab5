"""TFLite files become graphs that count and compute what the files do; hostile ones become one sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.tflite.operator_names import operator_name
from zoolens.findings.graph.importers.tflite.tflite_import import TFLITE, _check
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph, TfliteOperator, TfliteTensor, read_graph
from zoolens.inventory.zoos.demo import MODELS_FOLDER

CLASSIFIERS = sorted([*ASSETS.glob("imagenet/tflite/*.tflite"), *ASSETS.glob("cifar10/mlperf_tiny/*.tflite")])
needs_assets = pytest.mark.skipif(not CLASSIFIERS, reason="the reference assets are not here")


def load(path: Path, **details) -> Graph:
    return TFLITE.load(Request(str(path), **details))


def agrees_with_litert(path: Path, tolerance: float) -> None:
    """Raw and canonical graph answer as LiteRT does; quantised ones up to their rounding."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    given_, answered = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    random = np.random.default_rng(0)
    feed = real = random.random(given_["shape"]).astype(np.float32)
    if given_["dtype"] != np.float32:
        scale, zero = given_["quantization"]
        limits = np.iinfo(given_["dtype"])
        feed = random.integers(limits.min, limits.max + 1, given_["shape"]).astype(given_["dtype"])
        real = ((feed.astype(np.float32) - zero) * scale).astype(np.float32)
    interpreter.set_tensor(given_["index"], feed)
    interpreter.invoke()
    expected = interpreter.get_tensor(answered["index"]).astype(np.float32)
    if answered["dtype"] != np.float32:
        expected = (expected - answered["quantization"][1]) * answered["quantization"][0]
    graph = load(path, weights=True)
    for one in (graph, canonical(graph)):
        (image,) = one.inputs
        turned = real if image.shape == real.shape else real.transpose(0, 3, 1, 2)
        answer = run(one, {image.name: turned})[one.outputs[0]]
        np.testing.assert_allclose(answer, expected, atol=tolerance)


@pytest.mark.parametrize("path", sorted(MODELS_FOLDER.glob("*.tflite")), ids=lambda path: path.stem)
def test_the_demo_zoo_computes_what_litert_does(path):
    agrees_with_litert(path, 0.1 if "int8" in path.stem else 1e-4)


@needs_assets
@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.stem)
def test_classifiers_have_no_unknown_operator_and_the_files_parameters(path):
    graph, file = load(path), read_graph(path)
    assert not graph.unknown
    assert graph.parameters == file.parameters()
    assert graph.by_name[graph.outputs[0]].shape == file.tensors[file.outputs[0]].shape


@needs_assets
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("cifar10/mlperf_tiny/pretrainedResnet", 1e-4),
        ("imagenet/tflite/tflitesupport_mobilenet_v1_0.25_224_float", 1e-4),
        ("imagenet/tflite/tflitesupport_mobilenet_v1_0.25_224_quant", 0.02),  # its ReLU6 are in its ranges only
        ("imagenet/tflite/stm_mobilenet_v2_0.35_128_int8", 0.05),
    ],
)
def test_classifiers_compute_what_litert_does(name, tolerance):
    agrees_with_litert(ASSETS / f"{name}.tflite", tolerance)


def test_kernels_are_turned_and_activations_are_nodes():
    graph = load(MODELS_FOLDER / "mobile-tiny.tflite")
    depthwise = next(node for node in graph if node.op == "conv" and node.get("groups", 1) > 1)
    channels = depthwise.shape[-1]
    assert depthwise.axes == "NHWC"
    assert depthwise.parameters[0].shape == (channels, 1, 3, 3)
    (after,) = graph.consumers[depthwise.name]
    assert after.op == "relu"


@needs_assets
def test_another_size_is_worked_out():
    path = ASSETS / "imagenet/tflite/efficientnet_lite0_int8.tflite"
    with pytest.raises(ModelError, match="cannot be reshaped"):
        load(path, size=(256, 256))  # its average pool is 7×7, whatever comes
    path = ASSETS / "imagenet/tflite/stm_mobilenet_v2_0.35_128_int8.tflite"
    assert load(path, size=(192, 160)).outputs == load(path).outputs


@pytest.mark.parametrize("variable", [True, False])
def test_the_state_of_a_recurrent_layer_is_made_by_nothing(variable):
    tensors = tuple(TfliteTensor(name, "float32", (1, 4), False, None, None) for name in "xy")
    state = TfliteTensor("state", "float32", (1, 4), False, None, None, variable=variable)
    layer = TfliteOperator(44, (0, 2), (1,), "", None)
    with contextlib.nullcontext() if variable else pytest.raises(ModelError, match="damaged"):
        _check(TfliteGraph((*tensors, state), (0,), (1,), (layer,)))


@needs_assets
def test_anchors_of_boxes_are_no_parameters():
    graph = load(ASSETS / "tasks" / "detection" / "models" / "ssd_mobilenet_v1_coco_300_uint8.tflite")
    (postprocess,) = graph.unknown
    assert not postprocess.parameters  # 1,917 anchors
    assert postprocess.get("macs") == 0  # it sorts and selects, which multiplies no matrices
    spent = cost(canonical(graph))
    assert (spent.macs_whole, spent.whole) == (True, False)


@needs_assets
def test_a_segmenter_that_answers_with_places_is_understood():
    graph = load(ASSETS / "tasks" / "segmentation" / "models" / "deeplabv3_mnv2_dm05_pascal_quant.tflite")
    assert not graph.unknown
    assert canonical(graph).by_name[canonical(graph).outputs[0]].op == "argmax"


def test_unknown_operators_have_names():
    assert operator_name(TfliteOperator(3, (), (), "", None)) == "CONV_2D"
    assert operator_name(TfliteOperator(117, (), (), "", None)) == "HARD_SWISH"
    assert operator_name(TfliteOperator(32, (), (), "TFLite_Detection_PostProcess", None)).startswith("custom:TFLite_")
    assert operator_name(TfliteOperator(9_999, (), (), "", None)) == "builtin 9999"


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    name = data.draw(st.sampled_from(["lenet-narrow", "lenet-int8", "mobile-tiny", "resnet-tiny"]))
    content = bytearray((MODELS_FOLDER / f"{name}.tflite").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, 3_000))  # the tables are at both ends
        content[place if data.draw(st.booleans()) else -place - 1] = data.draw(st.integers(0, 255))
    damaged = tmp_path / "damaged.tflite"
    damaged.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    with contextlib.suppress(ModelError):
        load(damaged, weights=data.draw(st.booleans()))
