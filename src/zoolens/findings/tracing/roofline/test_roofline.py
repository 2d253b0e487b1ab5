from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.tracing.operators import TracedGraph
from zoolens.findings.tracing.roofline import attained
from zoolens.findings.tracing.roofline.attained import roofline, sentences
from zoolens.findings.tracing.roofline.chart import roofline_as_data, roofline_chart, roofline_table
from zoolens.findings.tracing.roofline.peaks import Peaks, _observations, _read, machine_peaks
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.test_comparison import A
from zoolens.findings.tracing.trace_context import new_context
from zoolens.findings.tracing.trace_layers import observed_calls_of
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

GIGA = 1e9
PEAKS = Peaks(
    "cpu",
    2,
    {"float32": 100 * GIGA, "int8": 400 * GIGA},
    {1 << 16: 50 * GIGA, 1 << 28: 10 * GIGA},
    {"float32": "numpy"},
)
# 1×1 convolution: 8 → 16 channels on 32×32, then an activation; 2 · 8 · 16 · 1024 operations for the first
GRAPH = Graph(
    "net",
    (
        Node("x", "input", (), (1, 8, 32, 32)),
        Node(
            "conv", "conv", ("x",), (1, 16, 32, 32), {"kernel": (1, 1)}, (Parameter("kernel", (16, 8, 1, 1)),), "Conv_0"
        ),
        Node("relu", "relu", ("conv",), (1, 16, 32, 32), {}, (), "Relu_0"),
    ),
    ("relu",),
)

NODES = {"Conv_0": ("conv",), "Relu_0": ("relu",)}


def traced(*operators, batch=1):
    columns = SpanColumns(new_context(), Level.LAYER)
    add_profiles(columns, [Profile(0, 2_000_000, operators)] * 10, [True] * 10)
    observed = observed_calls_of(columns.table(), Level.LAYER)
    return replace(A, layer=observed, model=observed.calls, overheads=(), batch=batch)


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setattr(attained, "traced_graph", lambda _: TracedGraph(GRAPH, NODES, {"Norm_0": ("conv",)}))


def test_a_fused_layer_moves_only_what_comes_in_and_goes_out():
    found = roofline(traced(OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"))), peaks=PEAKS)
    (layer,) = found.layers
    assert layer.flops == 2 * 8 * 16 * 1024 + 16 * 1024
    assert layer.moved_bytes == 4 * (8 * 1024 + 16 * 1024 + 16 * 8)
    assert layer.flops_per_second == pytest.approx(layer.flops / 1e-4)


def test_layers_apart_move_what_is_between_them_twice():
    operators = (
        OperatorTime("c", "Conv", 100_000, 0, nodes=("Conv_0",)),
        OperatorTime("r", "Relu", 10_000, 100_000, nodes=("Relu_0",)),
    )
    conv, relu = roofline(traced(*operators), peaks=PEAKS).layers
    assert conv.moved_bytes == 4 * (8 * 1024 + 16 * 1024 + 16 * 8)
    assert relu.moved_bytes == 4 * 2 * 16 * 1024
    assert relu.bound == "memory"


def test_the_bound_is_what_takes_longer_and_the_best_time_is_its():
    (layer,) = roofline(traced(OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"))), peaks=PEAKS).layers
    memory, compute = layer.moved_bytes / (10 * GIGA), layer.flops / (100 * GIGA)
    assert layer.best == pytest.approx(max(memory, compute))
    assert layer.bound == ("compute" if compute > memory else "memory")
    assert layer.efficiency == pytest.approx(layer.best / 1e-4)


def test_a_batch_multiplies_operations_and_activations_but_not_weights():
    operator = OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"))
    one, four = (roofline(traced(operator, batch=batch), peaks=PEAKS).layers[0] for batch in (1, 4))
    assert four.flops == 4 * one.flops
    assert four.moved_bytes - 4 * 16 * 8 == 4 * (one.moved_bytes - 4 * 16 * 8)


def test_narrow_numbers_move_fewer_bytes_and_have_their_own_peak():
    operator = OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"), precision="int8")
    (layer,) = roofline(traced(operator), peaks=PEAKS).layers
    assert (layer.precision, layer.moved_bytes) == ("int8", 8 * 1024 + 16 * 1024 + 16 * 8)


def test_the_best_time_of_the_model_includes_operators_that_no_layer_names():
    part = roofline(traced(OperatorTime("c", "Conv", 100_000, 0, nodes=("Conv_0",))), peaks=PEAKS)
    assert part.best > part.layers[0].best
    assert part.measured == pytest.approx(2e-3)


def test_layers_that_are_no_operators_and_layers_beyond_the_peaks_are_said():
    operators = (
        OperatorTime("f", "Conv", 10, 0, nodes=("Conv_0", "Relu_0")),
        OperatorTime("strange", "Strange", 500, 10),
    )
    found = roofline(traced(*operators), peaks=PEAKS)
    words = " ".join(sentences(found))
    assert "1 layer with 100 % of the layers' time is quicker than these peaks allow" in words
    assert "1 layer of 0.50 µs of which no operator of the graph is known is not counted" in words


def test_bandwidth_is_that_of_where_the_model_fits():
    assert PEAKS.bytes_per_second(1000) == 50 * GIGA
    assert PEAKS.bytes_per_second(1 << 20) == 10 * GIGA
    assert PEAKS.bytes_per_second(1 << 40) == 10 * GIGA


def test_table_chart_and_data_tell_the_same():
    found = roofline(traced(OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"))), peaks=PEAKS)
    assert roofline_table(found).rows[0][0] == "f"
    assert roofline_as_data(found)["layers"][0]["bound"] == found.layers[0].bound
    assert roofline_chart(found).spec["layer"]


def test_a_trace_of_another_machine_is_refused():
    with pytest.raises(ZoolensError, match="made on another machine"):
        roofline(traced(OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0",))))


def test_a_precision_without_a_kernel_of_its_own_has_the_peak_of_float32():
    measured = {
        "gemm": [
            {"library": "numpy", "version": "2", "precision": "float32", "per_second": 50e9, "clean": True},
            {"library": "torch", "version": "2", "precision": "bfloat16", "per_second": 0.1e9, "clean": True},
            {"library": "torch", "version": "2", "precision": "int8", "per_second": 90e9, "clean": False},
            {"library": "torch", "version": "2", "precision": "float64", "reason": "RuntimeError: no"},
        ],
        "copy": [{"bytes": 65536, "per_second": 1e9, "clean": True}],
    }
    peaks = _read(list(_observations(measured)), "cpu", 2, "run")
    assert peaks.flops == {"float32": 50e9, "bfloat16": 50e9, "float16": 50e9, "int8": 90e9}
    assert peaks.by["bfloat16"] == "numpy 2 (as float32)"
    assert peaks.missing == {"float64": "RuntimeError: no"}
    assert peaks.disturbed == ("int8",)
    assert np.isclose(peaks.bandwidth[65536], 1e9)


def test_two_layers_that_compute_one_node_are_one_and_its_operations_count_once():
    operators = (
        OperatorTime("conv", "Conv2d", 60_000, 0, nodes=("Conv_0",), precision="float32"),
        OperatorTime("norm", "BatchNorm2d", 40_000, 60_000, nodes=("Norm_0",), precision="float32"),
        OperatorTime("relu", "ReLU", 20_000, 100_000, nodes=("Relu_0",), precision="float32"),
    )
    together = roofline(traced(*operators), peaks=PEAKS)
    assert [layer.layer.name for layer in together.layers] == ["conv + norm", "relu"]
    assert together.layers[0].seconds == pytest.approx(1e-4)
    assert together.layers[0].flops == 2 * 8 * 16 * 1024
    assert together.uncounted == ()


def test_a_file_made_for_a_larger_batch_is_not_counted_for_each_input_again(monkeypatch):
    four = Graph("net", tuple(replace(node, shape=(4, *node.shape[1:])) for node in GRAPH.nodes), GRAPH.outputs)
    operator = OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0", "Relu_0"))
    (expected,) = roofline(traced(operator, batch=4), peaks=PEAKS).layers
    monkeypatch.setattr(attained, "traced_graph", lambda _: TracedGraph(four, NODES, {}))
    (layer,) = roofline(traced(operator, batch=4), peaks=PEAKS).layers
    assert (layer.flops, layer.moved_bytes) == (expected.flops, expected.moved_bytes)


def test_a_precision_that_is_not_told_is_called_assumed():
    told = OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0",), precision="float32")
    silent = OperatorTime("g", "Relu", 100_000, 100_000, nodes=("Relu_0",), precision="float32+int8")
    found = roofline(traced(told, silent), peaks=PEAKS)
    assert [layer.assumed for layer in found.layers] == [False, True]
    assert "does not report the precision of 1 layer," in " ".join(sentences(found))
    assert {row[-1] for row in roofline_table(found).rows} == {"float32", "float32 (assumed)"}


def test_a_trace_of_a_gpu_is_held_against_the_peaks_of_the_gpu():
    operator = OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0",), precision="tf32", device="cuda")
    peaks = replace(PEAKS, cpu="NVIDIA H200", threads=None, device="cuda", flops={"float32": 50e9, "tf32": 400e9})
    found = roofline(traced(operator), peaks=peaks)
    (layer,) = found.layers
    assert (layer.precision, layer.assumed) == ("tf32", False)
    assert layer.best == pytest.approx(max(layer.flops / 400e9, layer.moved_bytes / found.bandwidth))
    assert "At the measured peaks NVIDIA H200 takes" in " ".join(sentences(found))
    assert "NVIDIA H200 (cuda)" in roofline_chart(found).spec["title"]["subtitle"]


def test_a_trace_of_another_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(attained, "accelerator_identity", lambda _: {"name": "NVIDIA H200"})
    made = traced(OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0",)))
    identity = {"options": {"device": "cuda"}, "accelerator": {"name": "NVIDIA A100"}}
    stack = replace(made.run.stack, identity=identity)
    with pytest.raises(ZoolensError, match="made on another machine"):
        roofline(replace(made, run=replace(made.run, stack=stack)))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"device": "tpu"}, "peaks of tpu cannot be measured"),
        ({"device": "cuda", "threads": 2}, "Threads do not count"),
    ],
)
def test_peaks_that_make_no_sense_are_refused(asked, words, tmp_path):
    with pytest.raises(ZoolensError, match=words):
        machine_peaks(**asked, store=tmp_path / "store.sqlite")


def test_a_layer_quicker_than_any_algorithm_is_not_explained_by_one():
    """As where a whole residual block was taken for its 1×1 shortcut."""
    (quick,) = roofline(traced(OperatorTime("f", "Conv", 2000, 0, nodes=("Conv_0",))), peaks=PEAKS).layers
    assert 1.05 < quick.efficiency < 5
    assert not quick.absurd
    found = roofline(traced(OperatorTime("f", "Conv", 300, 0, nodes=("Conv_0",))), peaks=PEAKS)
    assert found.layers[0].efficiency > 5.1
    assert roofline_table(found).rows[0][3] == "not known"
    words = " ".join(sentences(found))
    assert "which no known algorithm explains" in words
    assert "Its efficiency is not known." in words


@pytest.mark.parametrize(
    ("kind", "peaks", "winograd", "cache"),
    [
        ("Conv", PEAKS, False, True),
        ("Conv", replace(PEAKS, bandwidth={1 << 28: 1e15}), True, False),
        ("MatMul", replace(PEAKS, bandwidth={1 << 28: 1e15}), False, False),
    ],
)
def test_only_reasons_that_are_possible_are_named(kind, peaks, winograd, cache):
    found = roofline(traced(OperatorTime("f", kind, 1200, 0, nodes=("Conv_0",))), peaks=peaks)
    assert found.layers[0].efficiency > 1.05
    words = " ".join(sentences(found))
    assert ("Winograd" in words, "nearer cache" in words) == (winograd, cache)


def test_changes_of_layout_are_told_apart_from_what_is_not_known():
    operators = (
        OperatorTime("f", "Conv", 100_000, 0, nodes=("Conv_0",)),
        OperatorTime("r", "ReorderOutput", 20_000, 100_000),
        OperatorTime("s", "Strange", 10_000, 120_000),
    )
    words = " ".join(sentences(roofline(traced(*operators), peaks=PEAKS)))
    assert "1 layer of 20 µs only brings values into another layout, shape or type (ReorderOutput)" in words
    assert "1 layer of 10 µs of which no operator of the graph is known is not counted." in words
