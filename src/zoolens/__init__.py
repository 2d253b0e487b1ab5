"""zoolens: the truth about neural-network models, and the means to act on it.

The public names are imported on first use, so that `import zoolens` costs nothing and an isolated runtime
process, which has numpy and one framework only, can import `zoolens.inventory.runtimes`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {  # where each lies; behind a colon the name it has there, where that is another
    "evaluate": "zoolens.findings.measure.evaluate",
    "EvaluationPlan": "zoolens.findings.measure.plan",
    "compare": "zoolens.findings.comparisons.compare",
    "reproduce": "zoolens.findings.comparisons.reproduce",
    "trace": "zoolens.findings.tracing.trace_models",
    "span": "zoolens.findings.tracing.recorder",
    "graph_of": "zoolens.findings.graph.structure",
    "cost": "zoolens.findings.graph.cost",
    "diff": "zoolens.findings.graph.diff.report",
    "audit_models": "zoolens.findings.audit.auditing",
    "doctor": "zoolens.findings.audit.doctor.diagnose",
    "identify": "zoolens.findings.audit.identification",
    "equiv": "zoolens.findings.comparisons.equivalence",
    "diverge": "zoolens.findings.divergence.diverging",
    "agreement_matrix": "zoolens.findings.comparisons.matrix",
    "disagree": "zoolens.findings.comparisons.disagreements",
    "common_segments": "zoolens.findings.graph.common_segments",
    "make_twins": "zoolens.findings.twins.making",
    "build_index": "zoolens.findings.index.opener",
    "query": "zoolens.findings.queries.query",
    "prepare": "zoolens.findings.queries.query",
    "serve": "zoolens.faces.serving.serve",
    "run_load": "zoolens.faces.load.run_load",
    "show": "zoolens.faces.notebook.showing",
    "export_bundle": "zoolens.faces.ui.bundle.bundle_export",
    "trusting": "zoolens.base.engine.sandbox",
    "running_on": "zoolens.base.engine.executors.current_executor",
    "Store": "zoolens.base.store.store",
    "open_store": "zoolens.base.store.store",
    "models": "zoolens.inventory.zoos.listing",
    "find_model": "zoolens.inventory.catalog.lookup:find",
    "open_session": "zoolens.inventory.catalog.sessions",
    "open_dataset": "zoolens.inventory.datasets.opening",
    "Manifest": "zoolens.inventory.manifests.schema",
    "ZoolensError": "zoolens.base.errors",
}

_ROOMS = {  # rooms with several public names of their own
    "crosstrain": "zoolens.training.crosstrain",
    "port": "zoolens.training.port",
    "tracing": "zoolens.findings.tracing",
}

__all__ = ["__version__", *_PUBLIC, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name in _PUBLIC:
        module, _, there = _PUBLIC[name].partition(":")
        return getattr(importlib.import_module(module), there or name)
    raise AttributeError(f"module 'zoolens' has no attribute {name!r}")
