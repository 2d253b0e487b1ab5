"""Where the time of a model goes, from a request down to the kernel: one model of spans for every runtime.

The public names are imported on first use, as those of `zoolens` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.public.lazy_names import public_names

if TYPE_CHECKING:
    from zoolens.findings.tracing.chain import ChainPlan as ChainPlan
    from zoolens.findings.tracing.chain import trace_chain as trace_chain
    from zoolens.findings.tracing.comparison import compare_traces as compare_traces
    from zoolens.findings.tracing.recorder import recording as recording
    from zoolens.findings.tracing.recorder import span as span
    from zoolens.findings.tracing.recorder import traceparent as traceparent
    from zoolens.findings.tracing.sessions import traced as traced
    from zoolens.findings.tracing.stored import load_trace as load_trace
    from zoolens.findings.tracing.stored_recording import load_recording as load_recording
    from zoolens.findings.tracing.trace_models import trace as trace

_WHERE = {
    "trace": "zoolens.findings.tracing.trace_models:trace",
    "load_trace": "zoolens.findings.tracing.stored:load_trace",
    "compare_traces": "zoolens.findings.tracing.comparison:compare_traces",
    "span": "zoolens.findings.tracing.recorder:span",
    "recording": "zoolens.findings.tracing.recorder:recording",
    "traceparent": "zoolens.findings.tracing.recorder:traceparent",
    "traced": "zoolens.findings.tracing.sessions:traced",
    "trace_chain": "zoolens.findings.tracing.chain:trace_chain",
    "ChainPlan": "zoolens.findings.tracing.chain:ChainPlan",
    "load_recording": "zoolens.findings.tracing.stored_recording:load_recording",
}

# To a type checker a module with a `__getattr__` has every name, and one with this `__all__` none for `import *`.
if not TYPE_CHECKING:
    __all__ = [*_WHERE]
    __getattr__, __dir__ = public_names(__name__, _WHERE)
