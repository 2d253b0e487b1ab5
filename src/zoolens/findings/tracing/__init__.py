"""Where the time of a model goes, from a request down to the kernel: one model of spans for every runtime.

The public names are imported on first use, as those of `zoolens` are.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "trace": "trace_models.trace",
    "load_trace": "stored.load_trace",
    "compare_traces": "comparison.compare_traces",
    "span": "recorder.span",
    "recording": "recorder.recording",
    "traceparent": "recorder.traceparent",
    "traced": "sessions.traced",
    "trace_chain": "chain.trace_chain",
    "ChainPlan": "chain.ChainPlan",
    "load_recording": "stored_recording.load_recording",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].rpartition(".")
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
