from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx import ONNX
from zoolens.findings.graph.importers.torch import TIMM, TORCHVISION
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.onnx_writer import write_onnx
from zoolens.findings.graph.onnx_writer.conftest import check, difference, fed, session
from zoolens.findings.graph.onnx_writer.written_file import batch_is_free, onnx_bytes
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.conftest import Sketch
from zoolens.findings.graph.passes.proof import with_varied_weights, without_final_softmax
from zoolens.findings.graph.passes.test_random_graphs import ENDS, STEPS
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.inventory.zoos.demo import MODELS_FOLDER

DEMO = sorted(path.stem for path in MODELS_FOLDER.glob("*.onnx"))


@pytest.mark.parametrize("name", DEMO)
def test_demo_models_compute_the_same_as_written(name):
    check(weighted_graph(f"demo:{name}"))


LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("resnet18", "vgg11", "densenet121", "vit_b_16")]


@pytest.mark.parametrize("name", ["mobilenet_v2", "squeezenet1_1", "shufflenet_v2_x0_5", *LARGE])
def test_torchvision_networks_compute_the_same_as_written(name):
    pytest.importorskip("torch")
    size = (32, 32) if name.startswith("v") else (64, 64)
    raw = TORCHVISION.load(Request(name, size=size, weights=True))
    check(without_final_softmax(with_varied_weights(canonical(raw), 0)))


def test_a_vision_transformer_computes_the_same_as_written():
    pytest.importorskip("timm")
    raw = TIMM.load(Request("vit_tiny_patch16_224", arguments={"depth": 2}, weights=True))
    check(with_varied_weights(canonical(raw), 0))


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6),
    st.sampled_from(sorted(ENDS)),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_networks_compute_the_same_as_written(steps, end):
    sketch = Sketch("NCHW")
    x = sketch.input(4, 5, 6)
    for step in steps:
        x = STEPS[step](sketch, x)
    check(canonical(sketch.graph(ENDS[end](sketch, x))))


def test_the_same_graph_gives_the_same_bytes():
    graph = weighted_graph("demo:resnet-tiny")
    assert onnx_bytes(graph) == onnx_bytes(weighted_graph("demo:resnet-tiny"))


def test_a_written_file_is_read_back_as_the_same_network(tmp_path):
    graph = weighted_graph("demo:mobile-tiny")
    again = canonical(ONNX.load(Request(str(write_onnx(graph, tmp_path / "copy.onnx")), weights=True)))
    assert [node.op for node in again] == [node.op for node in graph]
    feed = fed(graph)
    assert difference(session(graph).run(None, feed), session(again).run(None, feed)) == 0


def test_nothing_is_left_where_a_file_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        write_onnx(weighted_graph("demo:mlp-small"), blocked / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def network(op, shape, **attributes):
    builder = GraphBuilder("net", keep_weights=True)
    x = builder.add("input", (), (1, 4, 6), name="x")
    return builder.finish([builder.add(op, (x,), shape, **attributes)])


def test_what_cannot_be_written_is_named():
    with pytest.raises(ModelError, match=r"\(recurrent\) cannot be written as ONNX"):
        onnx_bytes(network("recurrent", (1, 4, 6), kind="gru"))
    with pytest.raises(ModelError, match="'Mystery'"):
        onnx_bytes(network("unknown", (1, 4, 6), source_op="Mystery"))


def test_a_graph_without_values_is_refused():
    builder = GraphBuilder("net")
    x = builder.add("input", (), (1, 4), name="x")
    kernel = builder.parameter("kernel", (3, 4), "k", np.ones((3, 4)))
    with pytest.raises(ModelError, match="no values for the kernel"):
        onnx_bytes(builder.finish([builder.add("dense", (x,), (1, 3), parameters=[kernel])]))


@pytest.mark.parametrize(
    ("graph", "free"),
    [
        (network("transpose", (4, 1, 6), perm=(1, 0, 2)), False),
        (network("softmax", (1, 4, 6), axis=0), False),
        (network("slice", (1, 4, 6), axis=0, start=0, stop=1), False),
        (network("reshape", (4, 6)), False),  # an output whose first axis is not the batch
        (network("reshape", (1, 24)), True),
    ],
    ids=["transpose", "softmax", "slice", "rows", "flat"],
)
def test_the_batch_is_fixed_where_the_graph_mixes_examples(graph, free):
    assert batch_is_free(graph) == free
    check(graph, free=free)


def test_windows_may_stand_in_the_batch_axis():
    builder = GraphBuilder("windows", keep_weights=True)
    x = builder.add("input", (), (1, 4, 6), name="x")
    rows = builder.add("softmax", (builder.add("reshape", (x,), (4, 6)),), (4, 6), axis=1)
    check(builder.finish([builder.add("reshape", (rows,), (1, 4, 6))]))
    bias = builder.add("constant", (), (4, 1), value=((1.0,), (2.0,), (3.0,), (4.0,)))
    biased = builder.add("add", (rows, bias), (4, 6))  # another one for each row: not the same for the next example
    check(builder.finish([builder.add("reshape", (biased,), (1, 4, 6))]), free=False)
