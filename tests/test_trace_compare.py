"""Traces of different files are compared through their graphs: real models in real runtimes."""

import pytest

import zoolens
from zoolens.base.store.store import open_store
from zoolens.findings.tracing import compare_traces
from zoolens.findings.tracing.comparison import sentences
from zoolens.findings.tracing.roofline.attained import roofline
from zoolens.findings.tracing.roofline.peaks import Peaks

pytest.importorskip("onnxruntime")


@pytest.fixture
def traced(home):
    def trace(model, runtime):
        (made,) = zoolens.trace(model, runtimes=runtime, repeats=5, seconds=0.3, trust=True, store=store)
        return made

    with open_store() as store:
        yield trace


def partners(comparison):
    return {row.name for row in comparison.differences if row.a is not None and row.b is not None}


def test_one_network_in_two_formats_and_runtimes_meets_in_every_operator(traced):
    pytest.importorskip("ai_edge_litert")
    comparison = compare_traces(traced("demo:resnet-tiny", "onnxruntime"), traced("demo:resnet-tiny", "litert"))
    assert comparison.by == "graph"
    assert "21 are matched, all of the same kind and size" in comparison.reason
    convolutions = {name for name in partners(comparison) if name.startswith("conv_")}
    assert len(convolutions) == 7  # all of them, although one file names them otherwise and fuses other operators
    assert "globalaveragepool_0 + flatten_0 ↔ Mean" in partners(comparison)
    assert not any("of no known operator" in row.name for row in comparison.differences if row.a is not None)


def test_two_networks_meet_in_part_and_that_is_said(traced):
    comparison = compare_traces(traced("demo:resnet-tiny", "onnxruntime"), traced("demo:lenet-wide", "onnxruntime"))
    assert comparison.by == "graph"
    assert "conv_0 + relu_0" in partners(comparison)
    alone = [row for row in comparison.differences if row.b is None]
    assert {"conv_1 + relu_1", "add_0"} <= {row.name for row in alone}
    words = " ".join(sentences(comparison))
    assert "Of 21 and 11 operators, 9 are matched, 8 of them with another size or kind." in words
    assert comparison.layers == pytest.approx(sum(row.difference for row in comparison.differences))


def test_a_quantised_file_meets_the_float_one(traced):
    comparison = compare_traces(traced("demo:lenet-wide", "onnxruntime"), traced("demo:lenet-wide-int8", "onnxruntime"))
    assert comparison.by == "graph"
    assert "all of the same kind and size" in comparison.reason
    convolutions = [row for row in comparison.differences if row.name.startswith("conv_")]
    assert {row.computed_b for row in convolutions} == {"QLinearConv int8"}
    assert len(convolutions) == 2


def test_every_operator_of_a_network_is_counted_once_in_the_roofline(traced):
    peaks = Peaks("cpu", 2, {"float32": 1e9}, {1 << 28: 1e9})
    roofs = [
        roofline(traced("demo:resnet-tiny", runtime), peaks=peaks)
        for runtime in ("onnxruntime", *(["litert"] if _has_litert() else []))
    ]
    assert len({sum(layer.flops for layer in roof.layers) for roof in roofs}) == 1
    assert all(roof.best == pytest.approx(sum(layer.best for layer in roof.layers)) for roof in roofs)


def _has_litert():
    try:
        import ai_edge_litert  # noqa: F401
    except ImportError:
        return False
    return True
