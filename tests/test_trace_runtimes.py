"""One network in every runtime that can be profiled: its layers, their sum, and what observing each level costs.

The network is that of benchmarks/trace_layers.py, which takes some milliseconds, so that a profiler is not all that is
timed.
"""

from pathlib import Path

import pytest

import zoolens
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import SUMS_UP, spans_of
from zoolens.findings.tracing.timeline import timeline
from zoolens.findings.tracing.trace_coverage import coverage_sentences
from zoolens.findings.tracing.trace_layers import flat
from zoolens.inventory.runtimes.runtime_names import runtime_named

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PACKAGES = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai_edge_litert",
    "opencv": "cv2",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "jax": "jax",
}
FUSED = {"jax": 1}  # XLA hands all convolutions of this network to one call of its library


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import trace_layers

        return trace_layers.write_network(tmp_path_factory.mktemp("network"))


@pytest.mark.parametrize("name", PACKAGES)
def test_layers_sum_to_the_model_or_the_rest_is_named(home, network, name):
    pytest.importorskip(PACKAGES[name])
    runtime = runtime_named(name)
    if not runtime.can("profile"):
        pytest.skip(f"{name} cannot be profiled here: {runtime.cannot['profile']}")
    (trace,) = zoolens.trace(network, runtimes=name, level="system", batch=8, repeats=10, seconds=3.0)
    told = list(coverage_sentences(trace))
    print(f"{trace.stack}: {' '.join(told)}")
    assert trace.covered is not None
    assert abs(trace.covered - 1) <= SUMS_UP or len(told) > 1, "the rest is not named"
    assert trace.layer.overlap or trace.layer.total.median <= 1.1 * trace.layer.calls.median
    assert all(layer.timing.median >= 0 and layer.name for layer in flat(trace.layers))
    assert len(trace.layers) >= FUSED.get(name, 7)  # five convolutions, the mean and the dense layer
    observed = {overhead.level for overhead in trace.overheads}
    able = {Level.LIBRARY} if runtime.can("kernels") else set()
    assert observed == {Level.PIPELINE, Level.LAYER, Level.SYSTEM} | able
    with zoolens.open_store() as store:
        spans = spans_of(store, trace.run)[Level.LAYER]
    assert len(timeline(spans, Level.LAYER).spans) >= len(trace.layers)
