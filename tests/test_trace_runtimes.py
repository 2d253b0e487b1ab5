"""One small network in every runtime that can be profiled: layers, their sum, and what observing costs."""

import pytest

from zoolens.runtimes.isolated import open_isolated
from zoolens.runtimes.naming import runtime_named
from zoolens.runtimes.noise import made_up_feeds
from zoolens.testing import models
from zoolens.tracing.layers import call_timing, flat, observed_calls_of
from zoolens.tracing.measuring import TraceSettings, trace_operators, trace_system
from zoolens.tracing.spans import Level
from zoolens.tracing.timeline import timeline
from zoolens.tracing.tracecontext import new_context

pytestmark = pytest.mark.slow

SETTINGS = TraceSettings(repeats=10, seconds=2.0)
NETWORKS = [
    ("onnxruntime", models.onnx, "onnxruntime"),
    ("openvino", models.onnx, "openvino"),
    ("litert", models.tflite, "ai_edge_litert"),
    ("opencv", models.onnx, "cv2"),
    ("torch", models.torchscript, "torch"),
    ("tensorflow", models.tf_savedmodel, "tensorflow"),
    ("jax", models.jax_export, "jax"),
]


@pytest.mark.parametrize(("name", "maker", "package"), NETWORKS, ids=[network[0] for network in NETWORKS])
def test_layers_of_one_network(tmp_path, name, maker, package):
    pytest.importorskip(package)
    runtime = runtime_named(name)
    if not runtime.can("profile"):
        pytest.skip(f"{name} cannot be profiled here: {runtime.cannot['profile']}")
    with open_isolated(runtime, models.cached(maker, tmp_path)) as session:
        feeds = made_up_feeds(session.inputs, 1)
        table = trace_operators(session, feeds, Level.LAYER, SETTINGS, new_context())
        system = trace_system(session, feeds, SETTINGS, new_context())
    observed, alone = observed_calls_of(table, Level.LAYER), call_timing(table, Level.MODEL)
    assert observed.layers
    assert all(layer.timing.median >= 0 and layer.name for layer in flat(observed.layers))
    assert observed.total.median > 0
    assert observed.overlap or observed.total.median <= 1.1 * observed.calls.median
    assert observed.calls.n >= 5
    assert alone.median > 0
    assert timeline(table, Level.LAYER).count("<rect") >= len(observed.layers)
    assert call_timing(system, Level.SYSTEM).median > 0
    print(
        f"{name}: {len(observed.layers)} layers sum to {observed.total.median / alone.median:.0%} of the model, "
        f"observing adds {observed.calls.median / alone.median - 1:+.0%}"
    )
