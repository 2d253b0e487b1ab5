"""zoolens: the truth about neural-network models, and the means to act on it.

The public names are imported on first use, so that `import zoolens` costs nothing and an isolated runtime
process, which has numpy and one framework only, can import `zoolens.runtimes`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {  # where each lies; behind a colon the name it has there, where that is another
    "evaluate": "zoolens.measure.evaluate",
    "EvaluationPlan": "zoolens.measure.plan",
    "compare": "zoolens.comparisons.compare",
    "reproduce": "zoolens.comparisons.reproduce",
    "trace": "zoolens.tracing.api",
    "span": "zoolens.tracing.recorder",
    "graph_of": "zoolens.graph.structure",
    "cost": "zoolens.graph.cost",
    "diff": "zoolens.graph.diff.report",
    "audit_models": "zoolens.audit.auditing",
    "doctor": "zoolens.audit.doctor.diagnose",
    "identify": "zoolens.audit.identification",
    "equiv": "zoolens.comparisons.equivalence",
    "diverge": "zoolens.divergence.diverging",
    "agreement_matrix": "zoolens.comparisons.matrix",
    "disagree": "zoolens.comparisons.disagreements",
    "common_segments": "zoolens.graph.common_segments",
    "make_twins": "zoolens.twins.making",
    "build_index": "zoolens.index.opener",
    "query": "zoolens.queries.api",
    "prepare": "zoolens.queries.api",
    "serve": "zoolens.serving.api",
    "run_load": "zoolens.load.api",
    "show": "zoolens.notebook.showing",
    "export_bundle": "zoolens.ui.bundle.export",
    "trusting": "zoolens.engine.sandbox",
    "running_on": "zoolens.engine.executors.base",
    "Store": "zoolens.store.store",
    "open_store": "zoolens.store.store",
    "models": "zoolens.zoos.listing",
    "find_model": "zoolens.catalog.lookup:find",
    "open_session": "zoolens.catalog.sessions",
    "open_dataset": "zoolens.datasets.opening",
    "Manifest": "zoolens.manifests.schema",
    "ZoolensError": "zoolens.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, there = _PUBLIC[name].partition(":")
        return getattr(importlib.import_module(module), there or name)
    raise AttributeError(f"module 'zoolens' has no attribute {name!r}")
